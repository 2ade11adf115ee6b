/* SPDX-License-Identifier: Apache-2.0 */
/* A file operation inside a sandbox whose whole output is collected, for handlers that continue
 * with it. The operation completes even if the client disconnects. */
#ifndef EDGE_CORE_FILE_TAKE_H
#define EDGE_CORE_FILE_TAKE_H

#include "edge/core/internal.h"
#include "lib/loop/fd.h"

enum { FILE_TAKE_MAX = 8 << 20 };

struct file_take;
/* e: the failure; NULL: success, and t->data has the output until this function returns. */
typedef void file_take_fn(struct file_take *t, const struct err *e);

/* A member of the call's state; can be reused in `done` and later. */
struct file_take {
    struct call *call; /* referenced while it runs */
    file_take_fn *done;
    struct buf data;
    struct run_op op_;
    struct loop_fd output_;
    int out_;
    bool ended_, too_big_;
    struct err failure_;
};

/* `paths` ends with NULL; it and `user` are on the call's arena. */
void file_take_start(struct file_take *t, struct call *c, enum start_what what,
                     const char *const *paths, const char *user, uint32_t mode, file_take_fn *done);

/* Records in the call why an operation did not start, for dialects that report a missing user
 * differently. */
void file_not_started(struct call *c, const struct run_op *op, const struct err *e);

/* Converts the end of an operation to an error; code 0: success. */
void file_failure(const struct backend_end *end, struct err *ret);

/* The parent directory of an absolute path; on the arena. */
const char *file_parent(struct arena *a, const char *path);

#endif
