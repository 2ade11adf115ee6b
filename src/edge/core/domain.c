/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/domain.h"

#include <stdio.h>

#include "edge/core/internal.h"
#include "base/id.h"

enum { HTTPS = 443 };

bool domain_read(struct str host, struct str domain, struct domain_port *ret)
{
    struct str label, port, id;
    uint64_t number;

    *ret = (struct domain_port){ .id = { NULL, 0 } };
    if (h1_same(host, domain))
        return true;
    if (host.n < domain.n + 2 || host.p[host.n - domain.n - 1] != '.' ||
        !h1_same((struct str){ host.p + host.n - domain.n, domain.n }, domain))
        return false;
    label = (struct str){ host.p, host.n - domain.n - 1 };
    if (h1_same(label, STR("api")))
        return true;
    id = str_cut(label, '-', &port);
    if (!id.n || !str_to_u64(port, &number) || number == 0 || number > UINT16_MAX)
        return false;
    *ret = (struct domain_port){ id_cut_suffix("sbx_", id), (uint16_t)number };
    return true;
}

void domain_find(struct call *c)
{
    const char *name = c->api->config->domain.name;

    if (name)
        (void)domain_read(http_request(c->x)->host.name, str_from(name), &c->port);
}

bool domain_address(const struct config *c, char ret[static DOMAIN_ADDRESS])
{
    if (!c->domain.listen)
        return false;
    if (c->domain_address.port == HTTPS)
        snprintf(ret, DOMAIN_ADDRESS, "%s", c->domain.name);
    else
        snprintf(ret, DOMAIN_ADDRESS, "%s:%u", c->domain.name, c->domain_address.port);
    return true;
}

struct str domain_of_client(const struct call *c)
{
    static const struct str ours = STR("api.");
    const char *name = c->api->config->domain.name;
    struct str host = call_header(c, "Host");
    struct domain_port port;

    if (!name || strcmp(call_scheme(c), "https") != 0 ||
        !domain_read(http_request(c->x)->host.name, str_from(name), &port) || port.id.p)
        return (struct str){ NULL, 0 };
    if (h1_same(http_request(c->x)->host.name, str_from(name)))
        return host;
    return (struct str){ host.p + ours.n, host.n - ours.n };
}

bool domain_allows_origin(const struct call *c)
{
    const char *name = c->api->config->domain.name;
    const struct h1_head *h = &http_request(c->x)->head;
    struct str origin = h1_value(h, STR("Origin")), host = h1_value(h, STR("Host"));
    struct domain_port port;

    if (!name || !domain_read(http_request(c->x)->host.name, str_from(name), &port))
        return false;
    /* A server inside decides about cross-origin requests itself; the API allows none. */
    return !origin.p || port.id.p ||
           (str_starts(origin, STR("https://")) &&
            str_eq((struct str){ origin.p + 8, origin.n - 8 }, host));
}
