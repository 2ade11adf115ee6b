#include <unistd.h>

#include "egress/relays/exchange.h"
#include "egress/relays/relays.h"

enum { HTTP_PORT = 80 };

/* One canonical form decides; a port that is not written is the scheme's. */
static bool names_ours(const struct exchange *x, const struct h1_host *named)
{
    struct host h;
    uint16_t port = named->port ? named->port : HTTP_PORT;

    return port == x->intent.port && host_parse(named->name, named->is_ipv6, &h, NULL) >= 0 &&
           (str_eq(str_from(h.name), str_from(x->intent.host.name)) ||
            host_calls_loopback(&h, &x->intent.host));
}

/* The connection is one destination's: every request has to be for it. */
static bool place(struct exchange *x, const struct h1_request *q, struct exchange_no *no)
{
    if (q->form == H1_ABSOLUTE && !str_eq(q->scheme, STR("http")))
        return exchange_say_no(no, 400, "scheme_denied",
                               "the target's scheme is not that of this connection", "");
    if ((q->form == H1_ABSOLUTE && !names_ours(x, &q->to)) ||
        (q->host.name.n > 0 && !names_ours(x, &q->host)))
        return exchange_say_no(no, 403, "request_authority_mismatch",
                               "the request names another host or port than its connection",
                               "Open a connection to the host that the request is for.");
    return true;
}

void relay_http(const struct relay_start *s)
{
    struct exchange *x = exchange_new(s->box, s->client, s->read, place);

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
