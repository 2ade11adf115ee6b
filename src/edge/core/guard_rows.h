/* What every request is to the policy for tools. */
#ifndef API_GUARD_ROWS_H
#define API_GUARD_ROWS_H

#include "api/route.h"

enum guard_flags {
    /* The handler works out what would be made, and asks itself: guard_ask(). */
    GUARD_LATER = 1 << 0,
    /* It makes sandboxes like {id}: their network is asked about. */
    GUARD_COPY = 1 << 1,
    /* Needs no asking, and is for sessions as well as for tokens. */
    GUARD_SESSION = 1 << 2,
    /* It cannot wait for a master: a connection, or a call whose client is served elsewhere. */
    GUARD_NOW = 1 << 3,
    /* Its query and its body are a server's inside, and no arguments. */
    GUARD_OPAQUE = 1 << 4,
    /* It begins with programs of a template or of the daemon, which the caller does not choose. */
    GUARD_LAUNCHES = 1 << 5,
};

struct guard_row {
    enum h1_method method;
    const char *path;
    const char *tool;  /* NULL: the policy has no question */
    uint64_t flags;    /* enum guard_flags */
    const char *paths; /* arguments that are paths, and are `path` to the policy; NULL: none */
};

extern const struct guard_row guard_rows[]; /* ended by a row without a path */

/* The row of a route; NULL: it has none, and is for nobody. */
const struct guard_row *guard_row_of(const struct route *r);

/* Whether handlers behind the row may start programs in sandboxes: the policy is asked about it as
 * about a tool that runs programs, or it has GUARD_LAUNCHES. False without a row. */
bool guard_row_starts_programs(const struct guard_row *row);

#endif
