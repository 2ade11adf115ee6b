/* /v1/sandboxes/{id}/ports/{port}: whether something listens there, and connections to it.
 *
 * With `Upgrade: sandboxer-tcp` the request becomes the connection. On the unix socket the client
 * gets the descriptor itself, and its bytes do not pass us; elsewhere we copy. */
#include <stdlib.h>

#include "api/inside.h"
#include "api/pump.h"
#include "api/route.h"
#include "control/dial.h"

struct port {
    struct pump pump; /* where we copy */
    struct call *call;
    struct dial_op dial;
    bool connects; /* the client wants the connection, not only to know */
    bool open;     /* … which is this */
    bool in_use;   /* the sandbox is attached to */
};

/* --- the connection is there --- */

static const struct h1_field upgrade[] = { { { "Upgrade", 7 }, { "sandboxer-tcp", 13 } } };

static void ignore(struct http_exchange *x, struct str data)
{
    (void)x;
    (void)data;
}

/* The exchange stays as long as the client has the descriptor: the sandbox is in use. */
static int hand_over(struct port *p, int fd, struct err *e)
{
    AUTO_CLOSE int ours = fd;
    int r = http_upgrade(p->call->x, upgrade, 1, ignore, e);

    return r < 0 ? r : http_write_fds(p->call->x, STR("\n"), &ours, 1, e);
}

static void connected(struct port *p, int fd)
{
    struct err e;
    int r;

    sandbox_attach(p->call->sandbox);
    p->in_use = true;
    r = http_peer(p->call->x)->is_unix ? hand_over(p, fd, &e)
                                       : pump_start(&p->pump, fd, upgrade, 1, &e);
    if (r < 0)
        http_fail(call_take_exchange(p->call), 500, str_from(e.msg));
}

static void write_port(struct json_writer *w, const void *what)
{
    const struct port *p = what;

    json_begin_object(w);
    json_key(w, STR("sandbox_id"));
    json_put_str(w, str_from(sandbox_view(p->call->sandbox).record->id));
    json_key(w, STR("port"));
    json_put_uint(w, p->dial.port);
    json_key(w, STR("open"));
    json_put_bool(w, p->open);
    json_end_object(w);
}

static void dialled(struct dial_op *op, int r, const struct err *e, int fd)
{
    struct port *p = container_of(op, struct port, dial);

    if (p->connects && r >= 0) {
        connected(p, fd);
    } else if (r < 0 && (p->connects || r != -(int)ERR_UPSTREAM)) {
        call_fail(p->call, e);
    } else {
        p->open = fd >= 0;
        drop_fd(&fd);
        call_answer(p->call, 200, write_port, p);
    }
}

/* --- the request --- */

static void port_gone(struct call *c)
{
    struct port *p = c->state;

    dial_op_cancel(&p->dial);
    pump_stop(&p->pump);
}

static void port_end(struct call *c)
{
    struct port *p = c->state;

    port_gone(c);
    pump_done(&p->pump);
    if (p->in_use)
        sandbox_detach(c->sandbox);
    free(p);
}

static bool wants_connection(struct call *c)
{
    const struct h1_head *h = &http_request(c->x)->head;

    return h->upgrade && str_eq(h->proto, STR("sandboxer-tcp"));
}

static void serve(struct call *c)
{
    struct port *p;
    uint64_t number;

    if (!str_to_u64(c->params[1], &number) || number == 0 || number > UINT16_MAX) {
        call_fail_with(c, 400, "invalid", "a port is a number from 1 to 65535");
        return;
    }
    p = calloc(1, sizeof *p);
    if (!p)
        abort();
    *p = (struct port){ .call = c, .connects = wants_connection(c) };
    p->dial = (struct dial_op){ .port = (uint16_t)number, .done = dialled };
    pump_init(&p->pump, c);
    c->state = p;
    c->on_gone = port_gone;
    c->on_end = port_end;
    sandbox_dial(c->sandbox, &p->dial);
}

const struct route routes_ports[] = {
    { H1_GET, VERB_EXEC, "/v1/sandboxes/{id}/ports/{port}", ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_LONG,
      serve, "Connect to a port inside, or see whether something listens there", .answer = "Port" },
    { .path = NULL },
};
