/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a request to a TCP socket is meant for this server. Keeps foreign web pages away from a
 * server on this machine, also after DNS rebinding. */
#ifndef LIB_HTTP_ORIGIN_H
#define LIB_HTTP_ORIGIN_H

#include "lib/http/server.h"

bool origin_is_loopback(const struct sockaddr_storage *a);
/* Host names the address that was connected to, or localhost; Origin, if it is there, the same. A
 * unix socket has no such callers: always true. */
bool origin_is_own(const struct http_exchange *x);

/* The same without a look at Origin. */
bool origin_host_is_own(const struct http_exchange *x);

/* "http://127.0.0.1:80": where a client of this machine finds what listens there. False: it is no
 * TCP address. */
enum { ORIGIN_URL = 80 };
bool origin_url(const struct sockaddr_storage *a, char ret[static ORIGIN_URL]);

#endif
