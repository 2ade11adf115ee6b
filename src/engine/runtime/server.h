/* The launcher: the one process that keeps privilege. It serves one connection and ends with it. */
#ifndef RUNTIME_SERVER_H
#define RUNTIME_SERVER_H

#include <stdbool.h>

#include "base/err.h"
#include "runtime/plan.h"
#include "uppers/driver.h"

struct server_options {
    bool untrusted; /* the peer is not to use our file rights: layers and mounts only below roots */
    const char *roots[PLAN_ROOTS_MAX];
    size_t n_roots;
    const char *store;           /* the directory that PLAN_STORE stands for; NULL: none */
    const struct driver *driver; /* of what sandboxes write; on disk: in the store; NULL: memory */
    bool limited;                /* … which holds them to their disk limits */
    const char *tag; /* whose sandboxes the peer may destroy by their ids; NULL: those of nobody */
};

/* Serves requests on sock until the peer closes it, then destroys every ephemeral sandbox. */
int server_run(int sock, const struct server_options *o, struct err *e);

#endif
