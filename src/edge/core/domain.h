/* SPDX-License-Identifier: Apache-2.0 */
/* Maps the Host of a request to its target: `8080-sbx4k7….NAME`, also with `sbx_4k7…` or
 * `sbx-4k7…`, is port 8080 of that sandbox; `api.NAME` and NAME itself are the API. */
#ifndef EDGE_CORE_DOMAIN_H
#define EDGE_CORE_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct call;
struct config;

/* A port of a sandbox, whose id is as the client wrote it (in any form, without the "-SUFFIX" of old
 * clients of E2B); id.p == NULL: none. */
struct domain_port {
    struct str id;
    uint16_t port;
};

/* Parses a host name. False: it does not belong to the domain. */
bool domain_read(struct str host, struct str domain, struct domain_port *ret);

/* Parses the Host of a request into c->port. */
void domain_find(struct call *c);

/* The domain and port as the client spells them, if it used a name of the API over HTTPS; otherwise
 * empty. */
struct str domain_of_client(const struct call *c);

/* "NAME" or "NAME:PORT", for clients. False: HTTPS is not configured. */
enum { DOMAIN_ADDRESS = 256 };
bool domain_address(const struct config *c, char ret[static DOMAIN_ADDRESS]);

/* Whether the Host belongs to the domain and the Origin, if any, is the same site (or the target is
 * a sandbox port). */
bool domain_allows_origin(const struct call *c);

#endif
