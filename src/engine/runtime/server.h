/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher: the only privileged process. It serves one connection and ends with it. */
#ifndef ENGINE_RUNTIME_SERVER_H
#define ENGINE_RUNTIME_SERVER_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/runtime/plan.h"
#include "engine/storage/driver.h"

struct server_options {
    bool untrusted; /* the peer may not use our file rights: layers and mounts only below roots */
    const char *roots[PLAN_ROOTS_MAX];
    size_t n_roots;
    const char *store;           /* the directory of PLAN_STORE; NULL: none */
    const struct driver *driver; /* storage driver of sandboxes; on disk: in the store; NULL:
                                    memory */
    bool limited;                /* … which enforces disk limits */
    const char *tag; /* tag of the sandboxes that the peer may destroy by id; NULL: none */
};

/* Serves requests on sock until the peer closes it, then destroys every ephemeral sandbox. */
int server_run(int sock, const struct server_options *o, struct err *e);

#endif
