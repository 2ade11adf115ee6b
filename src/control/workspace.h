/* A workspace that mirrors a host directory: copied in before the sandbox is ready, brought back
 * when asked for and before it is destroyed. What is copied runs in a process with the rights of
 * the directory's owner (mirror/child.h), which whoever has those rights starts for us. */
#ifndef CONTROL_WORKSPACE_H
#define CONTROL_WORKSPACE_H

#include "control/control.h"
#include "mirror/mirror.h"

enum { SYNC_LINES_MAX = 1000 };

/* Whether a request may have the workspace it names. Where the launcher is not to trust us with
 * paths, the directory must be its owner's: that is checked by whoever opens it. */
int workspace_check(const struct control *c, const struct caller *who,
                    const struct create_request *q, struct err *e);

/* Whether the sandbox has one that is a copy: written to, or of a directory that we may not show.
 */
bool workspace_mirrored(const struct sandbox *s);
/* Whether what is written inside comes back. */
bool workspace_syncs(const struct sandbox *s);

struct workspace_op;
typedef void workspace_fn(struct workspace_op *op, int r, const struct err *e);

struct workspace_op {
    unsigned flags; /* enum mirror_flag, of a sync */
    struct mirror_report report;
    struct buf lines; /* JSON: [{"action","path","reason"},…], at most SYNC_LINES_MAX of them */
    workspace_fn *done;
    void (*moved)(struct workspace_op *op, uint64_t bytes); /* content so far; may be NULL */
    void *state_;
};

/* Host to sandbox, once, while it is being made. */
void workspace_copy_in(struct sandbox *s, struct workspace_op *op);
/* Sandbox to host. -ERR_CONFLICT if it has no mirror, -ERR_BUSY if one is under way. */
void workspace_sync(struct sandbox *s, const struct actor *who, struct workspace_op *op);
void workspace_op_done(struct workspace_op *op);
/* Forgets what was noted of it. */
void workspace_forget(struct sandbox *s);

#endif
