/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/relays/relays.h"

#include <unistd.h>

#include "engine/egress/relays/exchange.h"

enum { HTTP_PORT = 80 };

/* Each request may name another destination, in its target and in Host: both must agree. */
static bool set_forward_target(struct exchange *x, const struct h1_request *q,
                               struct exchange_refusal *no)
{
    struct host h;
    struct err e;

    if (q->form != H1_ABSOLUTE)
        return exchange_set_refusal(
            no, 400, "target_invalid",
            "a request to a proxy must have an absolute target, http://host/path",
            "Set http_proxy, or use CONNECT.");
    if (!str_eq(q->scheme, STR("http")))
        return exchange_set_refusal(no, 400, "scheme_denied", "only http:// targets are forwarded",
                                    "Use CONNECT for other schemes.");
    if (host_parse(q->to.name, q->to.is_ipv6, &h, &e) < 0)
        return exchange_set_refusal(no, 400, "target_invalid", e.msg, "");
    if (q->host.name.n > 0 && !h1_host_same(q->to, q->host, HTTP_PORT))
        return exchange_set_refusal(no, 400, "request_authority_mismatch",
                                    "the Host field differs from the request's target", "");
    exchange_aim(x, &h, q->to.port ? q->to.port : HTTP_PORT);
    return true;
}

void relay_forward(struct egress_box *b, int client, const struct address *from, uint16_t from_port,
                   struct str read, relay_tunnel_fn *tunnel)
{
    struct exchange *x = exchange_new(b, client, read, set_forward_target);

    if (!x)
        return;
    x->intent.adapter = EGRESS_BY_FORWARD;
    x->intent.client = *from;
    x->intent.client_port = from_port;
    x->tunnel = tunnel;
    exchange_next(x);
    exchange_settle(x);
}

/* Compares canonical forms; a port that is left out is the scheme's. */
static bool names_tunnel_host(const struct exchange *x, const struct h1_host *named)
{
    struct host h;
    uint16_t port = named->port ? named->port : HTTP_PORT;

    return port == x->intent.port && host_parse(named->name, named->is_ipv6, &h, NULL) >= 0 &&
           (str_eq(str_from(h.name), str_from(x->intent.host.name)) ||
            host_calls_loopback(&h, &x->intent.host));
}

/* A connection has one destination, which every request must name. */
static bool check_tunnel_target(struct exchange *x, const struct h1_request *q,
                                struct exchange_refusal *no)
{
    if (q->form == H1_ABSOLUTE && !str_eq(q->scheme, STR("http")))
        return exchange_set_refusal(
            no, 400, "scheme_denied",
            "the scheme of the request's target differs from the connection's", "");
    if ((q->form == H1_ABSOLUTE && !names_tunnel_host(x, &q->to)) ||
        (q->host.name.n > 0 && !names_tunnel_host(x, &q->host)))
        return exchange_set_refusal(no, 403, "request_authority_mismatch",
                                    "the host or port of the request differs from the connection's",
                                    "Open a connection to the host of the request.");
    return true;
}

void relay_http(const struct relay_start *s)
{
    struct exchange *x = exchange_new(s->box, s->client, s->read, check_tunnel_target);

    if (!x) {
        lease_free(s->lease);
        return;
    }
    x->aimed = true;
    x->intent = s->lease->intent;
    x->lease = s->lease;
    if (s->greeting.n > 0)
        buf_add(&x->greeting, s->greeting);
    exchange_next(x);
    exchange_settle(x);
}

/* Of every protocol that policies enforce: domain/policy/protocol.c. */
static void (*const relays[EGRESS_PROTOCOLS_])(const struct relay_start *s) = {
    [EGRESS_TCP] = relay_tcp,
    [EGRESS_REST] = relay_http,
};

void relay_begin(const struct relay_start *s)
{
    relays[s->lease->decision.match.protocol](s);
}
