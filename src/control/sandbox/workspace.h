/* A workspace that mirrors a host directory: copied in before the sandbox is ready, brought back
 * when asked for and before it is destroyed. Copying happens in a process with the rights of the
 * user who granted the directory (mirror/child.h, daemon/grants.h), which the supervisor starts. */
#ifndef CONTROL_WORKSPACE_H
#define CONTROL_WORKSPACE_H

#include "control/control.h"
#include "mirror/mirror.h"

enum { SYNC_LINES_MAX = 1000 };

/* Whether a request may have the workspace it names. The supervisor checks who may open it. */
int workspace_check(const struct control *c, const struct caller *who,
                    const struct create_request *q, struct err *e);

/* Whether the sandbox has one that is a copy: written to, or of a directory that we may not show.
 */
bool workspace_mirrored(const struct sandbox *s);

/* Keeps copies of what the client's connection proves, for workspace_grant(). */
void workspace_take_client(struct sandbox *s, const struct control_client *c);
void workspace_drop_client(struct sandbox *s);
/* Has the supervisor open the directory with the client's rights and record the grant; without a
 * client, checks the one that there is. `s->granting.done` hears of it; not if it fails at once. */
int workspace_grant(struct sandbox *s, control_request_fn *done, struct err *e);
/* Whether the client could grant the directory of such a request, before there is a sandbox: 1 if
 * the supervisor was asked, which q->done hears of; 0 if there is nothing to grant. */
int workspace_try_grant(struct control *c, const struct create_request *request,
                        const struct control_client *client, struct control_request *q,
                        struct err *e);
/* Whether what is written inside comes back. */
bool workspace_syncs(const struct sandbox *s);

/* Paths whose changes or deletions a sync would hold back and that the client accepts. */
enum { WORKSPACE_ACCEPT_MAX = 256, WORKSPACE_ACCEPT_BYTES = 64 << 10 };
struct workspace_accept {
    int client; /* its connection: the supervisor looks who is at its other end */
    struct json_strs
        paths; /* with all beneath them; none, with MIRROR_ALLOW_SENSITIVE: every one */
};

struct workspace_op;
typedef void workspace_fn(struct workspace_op *op, int r, const struct err *e);

struct workspace_op {
    unsigned flags;                        /* enum mirror_flag, of a sync */
    const struct workspace_accept *accept; /* NULL: nothing; borrowed until done */
    struct mirror_report report;
    struct buf lines; /* JSON: [{"action","path","reason"},…], at most SYNC_LINES_MAX of changes
                         that were made and as many of others */
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
