/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of routes: they dispatch requests and generate the OpenAPI document. */
#ifndef EDGE_CORE_ROUTE_H
#define EDGE_CORE_ROUTE_H

#include "edge/core/call.h"
#include "lib/http/h1.h"

enum route_flags {
    ROUTE_JSON = 1 << 0,        /* takes a JSON body, by .fields; an empty one is {} */
    ROUTE_STREAM = 1 << 1,      /* takes a body of any length; the handler reads it */
    ROUTE_SANDBOX = 1 << 2,     /* {id} is a sandbox, looked up before the handler is called … */
    ROUTE_LIVE = 1 << 3,        /* … which must not be destroyed */
    ROUTE_OPEN = 1 << 4,        /* needs no authentication */
    ROUTE_TEXT = 1 << 5,        /* takes a body that is not JSON, all of it at once */
    ROUTE_ADMIN = 1 << 6,       /* requires administrator rights: covers all owners */
    ROUTE_LONG = 1 << 7,        /* a stream or connection: not counted in requests_in_flight */
    ROUTE_NULL_ORIGIN = 1 << 8, /* allows the origin "null": the path holds a secret */
    ROUTE_CONTENT = 1 << 9,     /* its JSON carries content: up to limits.body_bytes */
    ROUTE_QUIET = 1 << 10,      /* does not reset the sandbox's idle time */
};

struct route {
    enum h1_method method;
    enum token_verb verb;
    const char *path; /* "/v1/sandboxes/{id}/processes/{n}" */
    uint64_t flags;   /* enum route_flags */
    void (*handle)(struct call *c);
    const char *summary;             /* one line, for people */
    const struct json_field *fields; /* fields of the body */
    const size_t *field_count;
    const char *answer; /* schemas and media types of the answer, separated by blanks */
    const char *media;  /* media type of a body that is not JSON; NULL: any bytes */
    const char *query;  /* parameters: "path! limit state*": required, optional, repeatable */
    int64_t status;     /* status of success; 0: 200 */
    const void *with;   /* for the handler, which several routes may share */
};

#define ROUTE_FIELDS(table)                                                                        \
    .fields = (table), .field_count = &(const size_t)                                              \
    {                                                                                              \
        COUNT_OF(table)                                                                            \
    }

/* Paths of pseudo-routes that match no request path: a server inside, and unknown paths. */
#define ROUTE_ANY_PORT "(a port of a sandbox)"
#define ROUTE_UNKNOWN  "(unknown)"

/* Whether the route takes a parameter of that name. */
bool route_takes(const struct route *r, struct str name);

struct guard_row;
struct route_node;

/* The routes of one dialect by segments of their paths, with their rows of the tool policy. */
struct route_index {
    struct arena arena;
    struct route_node *root;
};

struct route_entry {
    const struct route *route;
    const struct guard_row *guard; /* NULL: none, the route is refused */
};

/* Tables are ended by NULL, each by a row without a path; `guards` by a row without a path. */
void route_index_init(struct route_index *x, const struct route *const *tables,
                      const struct guard_row *guards);
void route_index_done(struct route_index *x);
/* The route for a method and path: words of a path match before variables; HEAD is GET. A slash
 * at the end is ignored. NULL: *ret_allowed is 0 if the path is unknown, else bits of the methods
 * it has. */
const struct route_entry *route_index_find(const struct route_index *x, enum h1_method m,
                                           const struct url_path *p,
                                           struct str params[static ROUTE_PARAMS],
                                           unsigned *ret_allowed);

#endif
