/* SPDX-License-Identifier: Apache-2.0 */
/* The isolation boundary, as the control plane sees it: one table of functions per kind.
 *
 * The provisioning functions build and remove boundaries; requests are sent without waiting and
 * answered in order on `sock`. The runtime functions talk to PID 1 inside: every kind has the same
 * supervisor, whose messages (lib/ipc/control.h) travel on a descriptor here and may use another
 * transport elsewhere. A new kind of boundary is a new row, not another supervisor. */
#ifndef ENGINE_RUNTIME_BOUNDARY_H
#define ENGINE_RUNTIME_BOUNDARY_H

#include "base/err.h"
#include "engine/runtime/launcher.h"
#include "engine/runtime/plan.h"
#include "engine/runtime/supervisor.h"

enum boundary_can {
    BOUNDARY_LIMITS = 1 << 0,    /* memory, pids and cpu can be limited */
    BOUNDARY_MOUNTS = 1 << 1,    /* host directories can be mounted inside */
    BOUNDARY_TERMINALS = 1 << 2, /* programs can run in a terminal */
};

struct boundary_ops {
    const char *name;
    unsigned can; /* enum boundary_can */

    /* provisioning; called by the owner of the sandboxes */
    int (*open)(struct launcher *l, struct err *e);
    int (*create)(const struct launcher *l, const struct plan *p, const int *fds, size_t n,
                  struct err *e);
    int (*destroy)(const struct launcher *l, const char *id, struct err *e);
    /* for a caller that exits when this is answered: what is ephemeral is destroyed afterwards */
    int (*release)(const struct launcher *l, struct err *e);
    int (*answer)(const struct launcher *l, union launch_answer *ret, struct ipc_fds *ret_fds,
                  struct err *e);
    void (*close)(struct launcher *l);
    void (*leave)(struct launcher *l); /* close, for a caller that exits now */

    /* runtime; called by the holder of a sandbox's control channel */
    int (*start)(int sock, uint32_t tag, const struct supervisor_start *s, struct err *e);
    int (*kill)(int sock, uint32_t tag, uint32_t proc, int sig, enum control_scope scope,
                struct err *e);
    int (*ask)(int sock, uint32_t tag, enum control_type type, struct err *e);
    int (*ask_who)(int sock, uint32_t tag, uint64_t inode, struct err *e);
    int (*next)(int sock, union supervisor_message *ret, struct ipc_fds *ret_fds, struct err *e);
};

/* NULL if there is no such kind. */
const struct boundary_ops *boundary_find(const char *name);

#endif
