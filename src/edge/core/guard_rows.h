/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that map every route of a dialect to the tool whose policy rule applies to it. */
#ifndef EDGE_CORE_GUARD_ROWS_H
#define EDGE_CORE_GUARD_ROWS_H

#include "edge/core/route.h"

enum guard_flags {
    /* The handler determines the capabilities of the new sandbox and requests the verdict:
     * guard_request(). */
    GUARD_LATER = 1 << 0,
    /* Creates copies of {id}: their network is checked. */
    GUARD_COPY = 1 << 1,
    /* Not checked, and open to sessions as well as tokens. */
    GUARD_SESSION = 1 << 2,
    /* Cannot be held for a master: a connection, or a call whose client is served elsewhere. */
    GUARD_NOW = 1 << 3,
    /* Query and body belong to a server inside, and are not arguments. */
    GUARD_OPAQUE = 1 << 4,
    /* Starts programs of a template or of the daemon, which the caller does not choose. */
    GUARD_LAUNCHES = 1 << 5,
};

struct guard_row {
    enum h1_method method;
    const char *path;
    const char *tool;  /* NULL: not checked */
    uint64_t flags;    /* enum guard_flags */
    const char *paths; /* arguments that hold paths and become `path`; NULL: none */
};

/* The row of a route in a table that is ended by a row without a path; NULL: none, the route is
 * refused. */
const struct guard_row *guard_row_find(const struct guard_row *rows, const struct route *r);

/* Whether handlers of the row may start programs in sandboxes: its tool runs programs, or it has
 * GUARD_LAUNCHES. False without a row. */
bool guard_row_starts_programs(const struct guard_row *row);

#endif
