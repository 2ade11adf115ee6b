/* SPDX-License-Identifier: Apache-2.0 */
/* The table of routes: it dispatches requests and generates the OpenAPI document. */
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

/* The dialect of a route of another vendor's API: authentication and errors as its clients expect
 * them. */
struct route_face {
    /* Authenticates the caller; false: the call is answered. NULL: as for REST. */
    bool (*authenticate)(struct call *c);
    void (*fail)(struct call *c, const struct err *e, int status, const char *code);
    /* The arguments for the policy of a call whose body is not plain JSON; may return NULL. NULL:
     * none. */
    const struct json *(*arguments)(struct call *c);
    const char *names; /* the label that holds a sandbox's alternative name; NULL: none */
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
    const char *query;  /* parameters: "path! limit state*": required, optional, repeatable */
    int64_t status;     /* status of success; 0: 200 */
    const struct route_face *face; /* NULL: REST; others ignore unknown parameters */
};

/* Paths of pseudo-routes that match no request path: a server inside, and unknown paths. */
#define ROUTE_ANY_PORT "(a port of a sandbox)"
#define ROUTE_UNKNOWN  "(unknown)"

/* One array per resource, ended by a row without a path. */
extern const struct route routes_sandboxes[], routes_run[], routes_processes[], routes_files[],
    routes_events[], routes_profiles[], routes_hosts[], routes_images[], routes_expire[],
    routes_tokens[], routes_sync[], routes_egress[], routes_egress_log[], routes_peers[],
    routes_approvals[], routes_trust[], routes_snapshots[], routes_snapshot_files[], routes_meta[],
    routes_secrets[], routes_audit[], routes_mcp[], routes_ports[], routes_ssh[];
extern const struct route *const route_tables[]; /* ended by NULL */
/* Tables of the E2B API (control plane, envd, code interpreter) and of the Daytona API. */
extern const struct route *const e2b_plane_tables[],
    *const e2b_envd_tables[], *const e2b_code_tables[], *const daytona_tables[];

/* Whether the route takes a parameter of that name. */
bool route_takes(const struct route *r, struct str name);

/* The route for a method and path. NULL: *ret_allowed is 0 if the path is unknown, else bits of the
 * methods it has. */
const struct route *route_find(enum h1_method m, const struct url_path *p,
                               struct str params[ROUTE_PARAMS], unsigned *ret_allowed);
/* The same in the tables of all APIs with their own paths. */
const struct route *route_find_any(enum h1_method m, const struct url_path *p,
                                   struct str params[ROUTE_PARAMS], unsigned *ret_allowed);
/* The same in other tables. */
const struct route *route_find_in(const struct route *const *tables, enum h1_method m,
                                  const struct url_path *p, struct str params[ROUTE_PARAMS],
                                  unsigned *ret_allowed);

#endif
