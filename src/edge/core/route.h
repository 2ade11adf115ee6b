/* The table of routes. The same rows answer requests and describe themselves in OpenAPI. */
#ifndef API_ROUTE_H
#define API_ROUTE_H

#include "api/call.h"
#include "http/h1.h"

enum route_flags {
    ROUTE_JSON = 1 << 0,    /* takes a JSON body, by .fields; an empty one is {} */
    ROUTE_STREAM = 1 << 1,  /* takes a body of any length; the handler reads it */
    ROUTE_SANDBOX = 1 << 2, /* {id} is a sandbox, found before the handler is called … */
    ROUTE_LIVE = 1 << 3,    /* … and it must not be destroyed */
    ROUTE_OPEN = 1 << 4,    /* for everybody, without a token */
    ROUTE_TEXT = 1 << 5,    /* takes a body that is not JSON, all of it at once */
    ROUTE_ADMIN = 1 << 6,   /* for administrators: it is about everybody */
    ROUTE_LONG = 1 << 7,    /* lasts as long as somebody listens: not one of requests_in_flight */
    ROUTE_NULL_ORIGIN = 1 << 8, /* pages of the origin "null" may ask: the path holds a secret */
    ROUTE_CONTENT = 1 << 9,     /* its JSON carries content: up to limits.body_bytes */
    ROUTE_QUIET = 1 << 10,      /* does not count as use of the sandbox */
};

/* How a row talks that is not of our own interface: another's clients are served with their own
 * words. */
struct route_face {
    /* Who asks; false: it is answered. NULL: as everywhere. */
    bool (*authenticate)(struct call *c);
    void (*fail)(struct call *c, const struct err *e, int status, const char *code);
    /* The arguments of a call whose body is no plain JSON, for the policy; NULL: none. May itself
     * be NULL. */
    const struct json *(*arguments)(struct call *c);
    const char *names; /* a label by which a sandbox may be called, too; NULL: none */
};

struct route {
    enum h1_method method;
    enum token_verb verb;
    const char *path; /* "/v1/sandboxes/{id}/processes/{n}" */
    uint64_t flags;   /* enum route_flags */
    void (*handle)(struct call *c);
    const char *summary;             /* one line, for people */
    const struct json_field *fields; /* of the body */
    const size_t *field_count;
    const char *answer; /* what comes back: names of schemas and media types, separated by blanks */
    const char *query;  /* parameters it takes: "path! limit state*": required, once, repeatable */
    int64_t status;     /* of success; 0: 200 */
    const struct route_face *face; /* NULL: ours; else unknown parameters are not minded */
};

/* Paths of rows that no path of a request matches: a server inside, and what is not there. */
#define ROUTE_ANY_PORT "(a port of a sandbox)"
#define ROUTE_UNKNOWN  "(unknown)"

/* One array per resource, ended by a row without a path. */
extern const struct route routes_sandboxes[], routes_run[], routes_processes[], routes_files[],
    routes_events[], routes_profiles[], routes_hosts[], routes_images[], routes_expire[],
    routes_tokens[], routes_sync[], routes_egress[], routes_egress_log[], routes_peers[],
    routes_approvals[], routes_trust[], routes_snapshots[], routes_snapshot_files[], routes_meta[],
    routes_secrets[], routes_audit[], routes_mcp[], routes_ports[], routes_ssh[];
extern const struct route *const route_tables[]; /* ended by NULL */
/* Those of E2B's interface (the control plane, envd, the code interpreter), and of Daytona's. */
extern const struct route *const e2b_plane_tables[],
    *const e2b_envd_tables[], *const e2b_code_tables[], *const daytona_tables[];

/* Whether the route takes a parameter of that name. */
bool route_takes(const struct route *r, struct str name);

/* The route for a method and path. NULL: *ret_allowed is 0 if the path is unknown, else bits of the
 * methods it has. */
const struct route *route_find(enum h1_method m, const struct url_path *p,
                               struct str params[ROUTE_PARAMS], unsigned *ret_allowed);
/* The same in the tables of every interface that has paths of its own. */
const struct route *route_find_any(enum h1_method m, const struct url_path *p,
                                   struct str params[ROUTE_PARAMS], unsigned *ret_allowed);
/* The same in other tables. */
const struct route *route_find_in(const struct route *const *tables, enum h1_method m,
                                  const struct url_path *p, struct str params[ROUTE_PARAMS],
                                  unsigned *ret_allowed);

#endif
