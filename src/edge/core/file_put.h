/* A file inside that is written whole, for handlers that continue afterwards. The operation runs to
 * its end also when the client has left. */
#ifndef API_FILE_PUT_H
#define API_FILE_PUT_H

#include "api/inside.h"
#include "loop/fd.h"

struct file_put;
/* e: why it failed; NULL: it is written. */
typedef void file_put_fn(struct file_put *p, const struct err *e);

/* A member of its owner, which is freed with its call; it can be used again when it is done. */
struct file_put {
    struct call *call; /* referenced while it is under way */
    file_put_fn *done;
    struct run_op op_;
    struct loop_fd input_;
    int in_;
    struct str data_;   /* what is not framed yet */
    struct buf framed_; /* what has to go to the operation */
    bool last_;         /* … and it is the end of it */
};

/* `paths`, ended by NULL, and user are on the call's arena; the data stays until it is done. */
void file_put_start(struct file_put *p, struct call *c, const char *const *paths, const char *user,
                    struct str data, file_put_fn *done);
void file_put_done(struct file_put *p); /* frees what it holds */

#endif
