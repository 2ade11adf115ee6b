/* SPDX-License-Identifier: Apache-2.0 */
/* Confines a worker once everything it needs is open: it parses input from untrusted programs, and
 * afterwards can only use the network and write to descriptors that it was given. */
#ifndef ENGINE_EGRESS_FENCE_H
#define ENGINE_EGRESS_FENCE_H

#include <stdbool.h>

#include "base/err.h"

struct fence {
    /* Directory (descriptor; -1: none) below which files can still be opened for reading: the
     * policy of a standalone worker, which is read again on SIGHUP. */
    int readable;
    /* Directory (the same) below which files can still be created and opened for writing: the audit
     * record of a standalone worker, which is rotated. */
    int appendable;
};

/* Raises the descriptor limit to its maximum and gives up everything else: core dumps, tracing by
 * its own user, new privileges, capabilities, files (Landlock, if the kernel supports it), and all
 * system calls except those of fence.c and lib/fence/calls.h, which fail with ENOSYS. Irreversible. */
int fence_enter(const struct fence *f, struct err *e);

/* The same for a process that reads a log from stdin and writes its answer to stdout: no network, no
 * files, nothing but open descriptors and memory. */
int fence_enter_reader(struct err *e);

#endif
