/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes/{id}/ports/{port}: checks whether a port accepts connections, and connects to it.
 *
 * With `Upgrade: sandboxer-tcp` the request becomes the connection. On the unix socket the client
 * gets the descriptor itself and its bytes bypass the daemon; on TCP the daemon copies. */
#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "base/own.h"
#include "edge/core/pump.h"
#include "edge/rest/routes.h"
#include "control/sandbox/dial.h"

struct port_call {
    struct pump pump; /* for TCP clients */
    struct call *call;
    struct dial_op dial;
    bool connects; /* upgrade requested */
    bool in_use;   /* sandbox_attach() was called */
};

/* --- connected --- */

static const struct h1_field tcp_upgrade[] = { { { "Upgrade", 7 }, { "sandboxer-tcp", 13 } } };

static void ignore_tcp_data(struct http_exchange *x, struct str data)
{
}

/* A client on the unix socket gets the descriptor. The exchange stays open as long as the client,
 * so that the sandbox counts as used. */
static void serve_connection(struct port_call *p, int fd)
{
    struct http_exchange *x = p->call->x;
    struct err e;
    int r;

    sandbox_attach(p->call->sandbox);
    p->in_use = true;
    if (http_peer(x)->is_unix) {
        r = http_upgrade(x, tcp_upgrade, 1, ignore_tcp_data, &e);
        if (r >= 0)
            r = http_write_fds(x, STR("\n"), &fd, 1, &e);
        drop_fd(&fd);
    } else {
        r = pump_start(&p->pump, fd, tcp_upgrade, 1, STR(""), &e);
    }
    if (r < 0)
        http_fail(call_take_exchange(p->call), 500, str_from(e.msg));
}

struct port_answer {
    const char *sandbox_id;
    uint16_t port;
    bool open; /* it accepts connections */
};

static const struct json_field port_fields[] = {
    { "sandbox_id", JSON_KIND_TEXT, JSON_AT(struct port_answer, sandbox_id), .required = true },
    { "port", JSON_KIND_UINT, JSON_AT(struct port_answer, port), .required = true },
    { "open", JSON_KIND_BOOL, JSON_AT(struct port_answer, open), .required = true },
};
static const struct json_shape port_answer = { "Port", JSON_FIELDS(port_fields) };

static void on_dial_done(struct dial_op *op, int r, const struct err *e, int fd)
{
    struct port_call *p = container_of(op, struct port_call, dial);
    const struct port_answer a = { call_sandbox_id(p->call), op->port, fd >= 0 };

    if (p->connects && r >= 0) {
        serve_connection(p, fd);
    } else if (r < 0 && (p->connects || r != -(int)ERR_UPSTREAM)) {
        call_fail(p->call, e);
    } else {
        drop_fd(&fd);
        call_answer_as(p->call, 200, &port_answer, &a);
    }
}

/* --- the request --- */

static void on_port_client_gone(struct call *c)
{
    struct port_call *p = c->state;

    dial_op_cancel(&p->dial);
    pump_stop(&p->pump);
}

static void release_port_call(void *state)
{
    struct port_call *p = state;

    dial_op_cancel(&p->dial);
    pump_done(&p->pump);
    if (p->in_use)
        sandbox_detach(p->call->sandbox);
}

static void rest_connect_port(struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;
    struct port_call *p;
    uint64_t number;

    if (!str_to_u64(c->params[1], &number) || number == 0 || number > UINT16_MAX) {
        call_fail_with(c, 400, "invalid", "a port is a number from 1 to 65535");
        return;
    }
    p = call_state(c, sizeof *p, release_port_call);
    *p = (struct port_call){ .call = c,
                             .dial = { .port = (uint16_t)number, .done = on_dial_done },
                             .connects = h->upgrade && str_eq(h->proto, STR("sandboxer-tcp")) };
    pump_init(&p->pump, c);
    c->on_gone = on_port_client_gone;
    sandbox_dial(c->sandbox, &p->dial);
}

const struct route routes_ports[] = {
    { H1_GET, VERB_EXEC, "/v1/sandboxes/{id}/ports/{port}", ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_LONG,
      rest_connect_port, "Connect to a port inside, or see whether something listens there",
      .answer = "Port" },
    { .path = NULL },
};

const struct json_shape *const answers_ports[] = { &port_answer, NULL };
