/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories of the host that a sandbox shows. The client hands them over with its
 * create request, and the supervisor records the grant together with that of the workspace
 * (workspace.h). Each time a box is built, the supervisor opens them again with the rights of that
 * client: a file that was replaced, moved or closed is an error that names it. */
#ifndef CONTROL_SANDBOX_MOUNTS_H
#define CONTROL_SANDBOX_MOUNTS_H

#include "control/control.h"

/* Whether a request may have the mounts that it names. The supervisor checks who may open them. */
int mounts_check(struct control *c, const struct caller *who, const struct create_request *q,
                 const struct control_client *client, struct err *e);

/* Adds the mounts of a request to its grant. */
void mounts_fill_grant(const struct create_request *q, struct control_grant *g);
/* Leaves a note that the sandbox has a grant, which the next start of the daemon finds if this one
 * dies: only the supervisor can list grants. */
int mounts_note_grant(const struct sandbox *s, struct err *e);

/* Makes the supervisor open the mounts for the next box. 0: it has none; 1: `done` is called, from
 * the loop, unless mounts_cancel() comes first. */
typedef void mounts_fn(struct sandbox *s, int r, const struct err *e);
int mounts_open(struct sandbox *s, mounts_fn *done, struct err *e);
void mounts_cancel(struct sandbox *s);
/* The socket for the launcher, as mounts_open() received it; the caller closes it. -1: none. */
int mounts_take(struct sandbox *s);

#endif
