#include "egress/relays/exchange.h"
#include "egress/relays/relays.h"

enum { HTTP_PORT = 80 };

/* Every request may be for somebody else, and says twice for whom: both have to agree. */
static bool place(struct exchange *x, const struct h1_request *q, struct exchange_no *no)
{
    struct host h;
    struct err e;

    if (q->form != H1_ABSOLUTE)
        return exchange_say_no(no, 400, "target_invalid",
                               "a proxy is asked for a whole address, http://host/path",
                               "Set http_proxy, or use CONNECT.");
    if (!str_eq(q->scheme, STR("http")))
        return exchange_say_no(no, 400, "scheme_denied", "only http:// addresses are forwarded",
                               "Use CONNECT for the rest.");
    if (host_parse(q->to.name, q->to.is_ipv6, &h, &e) < 0)
        return exchange_say_no(no, 400, "target_invalid", e.msg, "");
    if (q->host.name.n > 0 && !h1_host_same(q->to, q->host, HTTP_PORT))
        return exchange_say_no(no, 400, "request_authority_mismatch",
                               "Host names another place than the target", "");
    exchange_aim(x, &h, q->to.port ? q->to.port : HTTP_PORT);
    return true;
}

void relay_forward(struct egress_box *b, int client, const struct address *from, uint16_t from_port,
                   struct str read, relay_tunnel_fn *tunnel)
{
    struct exchange *x = exchange_new(b, client, read, place);

    if (!x)
        return;
    x->intent.adapter = EGRESS_BY_FORWARD;
    x->intent.client = *from;
    x->intent.client_port = from_port;
    x->tunnel = tunnel;
    exchange_next(x);
    exchange_settle(x);
}
