/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "engine/egress/relays/exchange.h"
#include "engine/egress/relays/relays.h"

enum { HTTP_PORT = 80 };

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
