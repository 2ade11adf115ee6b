/* What a profile lets out: the list network.egress. Nothing else leaves the sandbox.
 *
 * Only what can be enforced is a field. A restriction that were read and not kept would be worse
 * than an error, so rules for requests, credentials and middleware become fields together with the
 * code that enforces them. */
#ifndef PROFILE_EGRESS_H
#define PROFILE_EGRESS_H

#include "base/err.h"
#include "json/bind.h"

enum {
    EGRESS_ENDPOINTS_MAX = 256,
    EGRESS_PORTS_MAX = 32,
    EGRESS_BINARIES_MAX = 32,
    EGRESS_ADDRESSES_MAX = 32,
    EGRESS_FIELD_COUNT = 9,
};

enum egress_protocol { EGRESS_TCP, EGRESS_REST, EGRESS_WEBSOCKET, EGRESS_GRAPHQL };
enum egress_access { EGRESS_ACCESS_NONE, EGRESS_READ_ONLY, EGRESS_READ_WRITE, EGRESS_FULL };
enum egress_tls { EGRESS_TLS_AUTO, EGRESS_TLS_SKIP };
enum egress_enforcement { EGRESS_ENFORCE, EGRESS_AUDIT };

struct egress_endpoint {
    const char *name; /* for people and logs; NULL: none */
    const char *host; /* a name, "*.example.com", "**.example.com", or an address */
    const uint16_t *ports;
    size_t port_count;
    enum egress_protocol protocol;
    enum egress_access access; /* NONE with EGRESS_TCP and only with it */
    enum egress_tls tls;
    enum egress_enforcement enforcement;
    struct json_strs binaries;    /* absolute paths; none: every program */
    struct json_strs allowed_ips; /* addresses or prefixes; none: what the host resolves to */

    const struct json *ports_; /* as the document has them */
};

extern const struct json_field egress_fields[EGRESS_FIELD_COUNT];

/* Checks what the table cannot, and fills `ports` from the arena. document has the places; the list
 * stands at network.egress. */
int egress_check(const struct json_objects *endpoints, const struct json *document, struct arena *a,
                 struct err *e);

/* A DNS name, or one whose first label has a wildcard in front of two more labels, or an address in
 * its usual spelling: no trailing dot, no numbers that a resolver would take for an address. */
bool egress_host_valid(struct str host);

/* "10.1.0.0/16", "2001:db8::/32", "192.0.2.7". */
bool egress_prefix_valid(struct str prefix);

#endif
