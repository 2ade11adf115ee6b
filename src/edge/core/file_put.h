/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a whole file inside a sandbox, for handlers that continue afterwards. The operation
 * completes even if the client disconnects. */
#ifndef EDGE_CORE_FILE_PUT_H
#define EDGE_CORE_FILE_PUT_H

#include "edge/core/internal.h"
#include "lib/loop/fd.h"

struct file_put;
/* e: the failure; NULL: the file was written. */
typedef void file_put_fn(struct file_put *p, const struct err *e);

/* A member of its owner, which is freed with its call; can be reused after `done`. */
struct file_put {
    struct call *call; /* referenced while it runs */
    file_put_fn *done;
    struct run_op op_;
    struct loop_fd input_;
    int in_;
    struct str data_;   /* data that is not framed yet */
    struct buf framed_; /* framed data for the operation */
    bool last_;         /* `framed_` ends with the last frame */
};

/* `paths` ends with NULL; it and `user` are on the call's arena. `data` must stay valid until
 * `done`. */
void file_put_start(struct file_put *p, struct call *c, const char *const *paths, const char *user,
                    struct str data, file_put_fn *done);

#endif
