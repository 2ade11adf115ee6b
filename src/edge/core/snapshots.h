/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshot operations shared by the REST, E2B and Daytona interfaces. */
#ifndef EDGE_CORE_SNAPSHOTS_H
#define EDGE_CORE_SNAPSHOTS_H

#include "edge/core/call.h"
#include "control/snapshot/snapshots.h"

/* The snapshots visible to the caller, newest first; borrowed until the next turn of the loop. */
struct snapshot_list {
    const struct snapshot **p;
    size_t n, cap_;
};
void snapshot_list_fill(const struct call *c, struct snapshot_list *ret);
void snapshot_list_done(struct snapshot_list *l);

/* The snapshot that the path names; NULL: the call is answered. */
const struct snapshot *snapshot_of_call(struct call *c);
void snapshot_delete_for(struct call *c, const struct snapshot *s); /* answers 204 */

/* The body of a snapshot request. */
struct snapshot_request {
    const char *name; /* NULL: none */
};
extern const struct json_field snapshot_request_fields[];
extern const size_t snapshot_request_field_count;

/* Forks the call's sandbox. `op` is copied and belongs to the call; its `done` gets the call with
 * call_of_fork() and must release it. */
void call_fork(struct call *c, const struct fork_op *op);
struct call *call_of_fork(struct fork_op *op);

/* Takes a snapshot of the call's sandbox; `answer` answers with it, failures are answered here. */
typedef void snapshot_taken_fn(struct call *c, const struct snapshot *s);
void snapshot_take_for(struct call *c, const struct snapshot_request *q, snapshot_taken_fn *answer);

#endif
