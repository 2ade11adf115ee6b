/* SPDX-License-Identifier: Apache-2.0 */
/* A workspace that mirrors a host directory: copied in before the sandbox is ready, brought back on
 * request and before it is destroyed. Copying happens in a process with the rights of the user who
 * granted the directory (engine/sync/child.h, daemon/grants.h), which the supervisor starts. */
#ifndef CONTROL_SANDBOX_WORKSPACE_H
#define CONTROL_SANDBOX_WORKSPACE_H

#include "control/control.h"
#include "engine/sync/sync.h"
#include "lib/json/bind.h"

enum { SYNC_LINES_MAX = 1000 };
extern const struct json_shape sync_change_answer; /* a line, a struct sync_line */

/* Whether a request may have the workspace that it names. The supervisor checks who may open it. */
int workspace_check(struct control *c, const struct caller *who, const struct create_request *q,
                    struct err *e);

/* Whether the sandbox has a workspace that is a copy: one that is written to, or of a directory
 * that may not be mounted. */
bool workspace_mirrored(const struct sandbox *s);

/* Whether files of the host were granted to it: its workspace or mounts. */
bool workspace_granted(const struct sandbox *s);
/* Duplicates the descriptors that identify the client, for workspace_grant(). */
void workspace_take_client(struct sandbox *s, const struct control_client *c);
void workspace_drop_client(struct sandbox *s);
/* Makes the supervisor open the files with the client's rights and record the grant; without a
 * client, checks the existing grant of the workspace. `s->granting.done` gets the answer, except after an immediate
 * failure. */
int workspace_grant(struct sandbox *s, control_request_fn *done, struct err *e);
/* Whether the client could grant the directory of this request, before there is a sandbox: 1 if the
 * supervisor was asked, and q->done gets the answer; 0 if there is nothing to grant. */
int workspace_try_grant(struct control *c, const struct caller *who,
                        const struct create_request *request, const struct control_client *client,
                        struct control_request *q, struct err *e);
/* The directory of the host, by the path of its grant; NULL: it has none. */
const char *workspace_directory(const struct sandbox *s);
/* Whether changes inside are brought back. */
bool workspace_syncs(const struct sandbox *s);

/* Paths whose changes or deletions a sync would hold back and that the client accepts. */
enum { WORKSPACE_ACCEPT_MAX = 256, WORKSPACE_ACCEPT_BYTES = 64 << 10 };
struct workspace_accept {
    int client; /* its connection: the supervisor checks the process at its other end */
    /* With everything below them; none, with SYNC_ALLOW_SENSITIVE: all paths. */
    struct json_strs paths;
};

struct workspace_op;
typedef void workspace_fn(struct workspace_op *op, int r, const struct err *e);

struct workspace_op {
    unsigned flags;                        /* enum sync_flag, of a sync */
    const struct workspace_accept *accept; /* NULL: nothing; borrowed until done */
    struct sync_report report;
    /* JSON: [{"action","path","reason"},…], at most SYNC_LINES_MAX of changes that were made and
     * as many of others. */
    struct buf lines;
    workspace_fn *done;
    void (*moved)(struct workspace_op *op, uint64_t bytes); /* content so far; may be NULL */
    void *state_;
};

/* Copies wait for a slot (copy_slots.h). Ends a waiting copy: its operation fails with an error. */
void workspace_stop_waiting(struct sandbox *s);

/* Host to sandbox, once, during provisioning. */
void workspace_copy_in(struct sandbox *s, struct workspace_op *op);
/* Sandbox to host. -ERR_CONFLICT if it has no mirror, -ERR_BUSY if a copy is under way or waits,
 * -ERR_QUOTA if too many copies of its owner wait (not for the last sync before a destroy). */
void workspace_sync(struct sandbox *s, const struct actor *who, struct workspace_op *op);
/* Lists what has changed in the directory of the host since the last copy in either direction, as
 * sync_look() reports it; the sandbox is not involved, and other copies may be under way. */
void workspace_look(struct sandbox *s, struct workspace_op *op);
void workspace_op_done(struct workspace_op *op);
/* Removes its manifest and its grant. */
void workspace_remove(struct sandbox *s);
/* After a start: removes those of sandboxes that are not known. */
void workspaces_sweep(struct control *c);

#endif
