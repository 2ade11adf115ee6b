/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

bool origin_is_loopback(const struct sockaddr_storage *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;

    if (a->ss_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* The host a browser thinks it talks to must be one that only we can be. */
static bool is_own_host(const struct http_peer *p, const struct h1_host *h)
{
    char text[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&p->local;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&p->local;
    bool is4 = p->local.ss_family == AF_INET;
    uint16_t port = ntohs(is4 ? v4->sin_port : v6->sin6_port);

    if ((h->port ? h->port : 80) != port)
        return false;
    if (origin_is_loopback(&p->local) && h1_same(h->name, STR("localhost")))
        return true;
    inet_ntop(p->local.ss_family, is4 ? (const void *)&v4->sin_addr : (const void *)&v6->sin6_addr,
              text, sizeof text);
    return h1_same(h->name, str_from(text));
}

bool origin_is_own(const struct http_exchange *x)
{
    const struct h1_head *h = &http_request(x)->head;
    struct str origin = h1_value(h, STR("Origin")), host = h1_value(h, STR("Host"));

    if (http_peer(x)->is_unix || !origin.p)
        return origin_host_is_own(x);
    /* A web page's script sends its own origin; only pages of ours may talk to us. */
    return origin_host_is_own(x) && str_starts(origin, STR("http://")) &&
           str_eq((struct str){ origin.p + 7, origin.n - 7 }, host);
}

bool origin_host_is_own(const struct http_exchange *x)
{
    const struct http_peer *p = http_peer(x);

    return p->is_unix || is_own_host(p, &http_request(x)->host);
}

bool origin_url(const struct sockaddr_storage *a, char ret[static ORIGIN_URL])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    char text[INET6_ADDRSTRLEN] = "";

    if (a->ss_family == AF_INET) {
        inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
        snprintf(ret, ORIGIN_URL, "http://%s:%u",
                 v4->sin_addr.s_addr == htonl(INADDR_ANY) ? "127.0.0.1" : text,
                 ntohs(v4->sin_port));
    } else if (a->ss_family == AF_INET6) {
        inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
        snprintf(ret, ORIGIN_URL, "http://[%s]:%u",
                 IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) ? "::1" : text, ntohs(v6->sin6_port));
    }
    return a->ss_family == AF_INET || a->ss_family == AF_INET6;
}
