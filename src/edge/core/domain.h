/* Requests that say by their Host what they are for: `8080-sbx_4k7.NAME`, or `8080-sbx-4k7.NAME`,
 * is port 8080 of that sandbox, `api.NAME` and NAME itself are ours. */
#ifndef API_DOMAIN_H
#define API_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct call;
struct config;

/* A port of a sandbox; id.p is NULL: none. */
struct domain_port {
    struct str id;
    uint16_t port;
};

/* What this name means in the domain. False: it is no name of it. */
bool domain_read(struct str host, struct str domain, struct domain_port *ret);

/* Of a request: fills c->port. False: its Host is no name of the domain that is configured, if
 * there is one. */
bool domain_find(struct call *c);

/* What the client calls the domain, with its port, if it came by one of our own names there, and by
 * HTTPS; else empty. */
struct str domain_of_client(const struct call *c);

/* "NAME", or "NAME:PORT": where clients find it. False: HTTPS is not spoken. */
enum { DOMAIN_ADDRESS = 256 };
bool domain_address(const struct config *c, char ret[static DOMAIN_ADDRESS]);

/* Whether it was asked for by a name that only we have, and by no page of somebody else's. */
bool domain_is_ours(const struct call *c);

#endif
