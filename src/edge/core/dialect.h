/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP dialects: the REST API, and parts of other vendors' APIs, each with its own addresses,
 * routes, authentication and errors. The code here sees only the rows of one list. */
#ifndef EDGE_CORE_DIALECT_H
#define EDGE_CORE_DIALECT_H

#include "edge/core/guard_rows.h"
#include "edge/core/route.h"

enum { DIALECTS_MAX = 16 };

/* The parts of a request that decide about its dialect. */
struct dialect_request {
    const struct h1_request *head;
    struct str path;         /* without the query; not decoded */
    struct domain_port port; /* the sandbox port that Host names */
};

struct dialect_match {
    const struct dialect *dialect;
    const struct route *route; /* NULL: the path is unknown, or has only the methods `allowed` */
    const struct guard_row *guard; /* NULL: the tool policy has no row; refused */
    struct str params[ROUTE_PARAMS];
    unsigned allowed;
};

typedef bool dialect_claims_fn(const struct dialect_request *q, struct arena *a,
                               struct dialect_match *ret);

struct dialect {
    const char *name;
    const char *client; /* the interface, in records of programs; NULL: the name */
    bool native;        /* ours: refuses unknown query parameters, accepts abbreviated ids */

    /* Whether the Host, the headers and the path are of this dialect; may set params. NULL: paths
     * of `tables` decide. */
    dialect_claims_fn *claims;
    const struct route *const *tables; /* ended by NULL; NULL: no routes */
    bool slash;                        /* a path may end in a slash */
    /* Serves requests of the dialect that have no route: those whose path begins with one of
     * `prefixes` (ended by NULL), or all. NULL: later dialects are searched. */
    const struct route *unknown;
    const char *const *prefixes;
    const struct guard_row *guards; /* rows of the tool policy for all its routes */

    /* Authenticates the caller; false: the call is answered. NULL: by user or bearer token. */
    bool (*authenticate)(struct call *c);
    /* Answers with an error. NULL: application/problem+json. */
    void (*fail)(struct call *c, const struct err *e, int status, const char *code);
    /* The arguments for the policy of a call whose body is not plain JSON; may return NULL. NULL:
     * none. */
    const struct json *(*arguments)(struct call *c);
    bool suffixed_ids; /* a path may have "ID-SUFFIX" for a sandbox */
    const char *label; /* the label that holds a sandbox's alternative name; NULL: none */

    /* open() may set dialect_state() and block: it is called before the loop runs. close() ends
     * the work in progress; it is called more than once, also after a failed open(). */
    int (*open)(struct api *a, struct err *e);
    void (*close)(struct api *a);
};

/* All dialects in the order of precedence, ended by NULL. */
extern const struct dialect *const dialects[];

struct dialect_set {
    struct route_index indexes[DIALECTS_MAX];
    struct route_entry unknown[DIALECTS_MAX];
    void *states[DIALECTS_MAX];
};

void dialect_set_init(struct dialect_set *s);
void dialect_set_done(struct dialect_set *s);
/* The place for the state of a dialect of the list, which is freed with the set: after the last
 * call. */
void **dialect_state(struct dialect_set *s, const struct dialect *d);

/* Determines the dialect and the route of a request. -ERR_INVALID: the path is malformed. */
int dialect_match(const struct dialect_set *s, const struct dialect_request *q, struct arena *a,
                  struct dialect_match *ret, struct err *e);

#endif
