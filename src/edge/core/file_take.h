/* A file operation inside whose answer is taken whole, for who goes on with it. It goes to its end
 * also when the client has left. */
#ifndef API_FILE_TAKE_H
#define API_FILE_TAKE_H

#include "api/inside.h"
#include "loop/fd.h"

enum { FILE_TAKE_MAX = 8 << 20 };

struct file_take;
/* e: why it failed; NULL: it went well, and t->data is what it said. */
typedef void file_take_fn(struct file_take *t, const struct err *e);

/* A member of its owner, which is freed with its call; it can be used again when it is done. */
struct file_take {
    struct call *call; /* referenced while it is under way */
    file_take_fn *done;
    struct buf data;
    struct run_op op_;
    struct loop_fd output_;
    int out_;
    bool ended_, too_big_;
    struct err failure_;
};

/* `paths` is ended by NULL and, like user, on the call's arena. */
void file_take_start(struct file_take *t, struct call *c, enum ext_what what,
                     const char *const *paths, const char *user, uint32_t mode, file_take_fn *done);
void file_take_done(struct file_take *t); /* frees what it took */

/* An operation of the call did not start: what faces may want to know of it. */
void file_not_started(struct call *c, const struct run_op *op, const struct err *e);

/* What an operation's end is as an error; code 0: it went well. */
void file_failure(const struct ext_end *end, struct err *ret);

/* The directory that an absolute path is in; on the arena. */
const char *file_parent(struct arena *a, const char *path);

#endif
