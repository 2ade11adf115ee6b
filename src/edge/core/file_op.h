/* A file operation of a request: bytes stream through in both directions, never a whole file.
 *
 * The answer begins with the operation's first byte, or with its good end: until then a failure is
 * a proper problem. A failure behind the first byte cuts the connection, so that nobody takes a
 * part for the whole. */
#ifndef API_FILE_OP_H
#define API_FILE_OP_H

#include "api/inside.h"
#include "loop/fd.h"

struct file_op;

struct file_face {
    enum ext_what what;
    const char *type; /* of the answer; NULL: it has none, and is 204 */
    const char *before, *after;
    /* Writes what the client gets for the records at the start of `in`: how many bytes of it they
     * take, or -1. NULL: the client gets the bytes as they are. */
    ssize_t (*show)(struct file_op *f, struct str in, struct buf *out);
    bool input;  /* the request's body is its stdin … */
    bool framed; /* … in chunks, so that an upload that breaks off changes nothing */
    bool packs;  /* with gzip, for clients that like it better */
};

struct file_op {
    struct call *call;
    const struct file_face *face;
    struct run_op op;
    bool ended, begun, shown; /* shown: a record was written */
    struct err failure;       /* of the end; code 0: it went well */
    struct loop_fd output, input;
    int out, in;
    struct gzip *packer; /* of what goes to the client; NULL: it goes as it is */
    struct buf records;  /* the start of one that has not come completely */
    struct buf pending;  /* what has to go to stdin */
    bool body_over;
};

extern const struct file_face file_face_read, file_face_write;

/* Runs it; `paths` ended by NULL, like user on the call's arena. Answers the call. */
void file_op_start(struct call *c, const struct file_face *face, const char *const *paths,
                   const char *user, uint32_t mode);

#endif
