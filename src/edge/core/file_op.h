/* SPDX-License-Identifier: Apache-2.0 */
/* A file operation of a request. Bytes are streamed in both directions; no whole file is buffered.
 *
 * The answer begins with the first byte of output, or with the successful end: until then a failure
 * is answered as a problem. A later failure cuts the connection, so that the client does not
 * mistake a part for the whole. */
#ifndef EDGE_CORE_FILE_OP_H
#define EDGE_CORE_FILE_OP_H

#include "edge/core/internal.h"
#include "lib/loop/fd.h"

struct file_op;

struct file_encoder {
    enum start_what what;
    const char *type; /* media type of the answer; NULL: no body, 204 */
    const char *before, *after;
    /* Encodes the complete records at the start of `in` and returns how many bytes of it they take,
     * or -1. NULL: the bytes are passed through. */
    ssize_t (*show)(struct file_op *f, struct str in, struct buf *out);
    bool input;  /* the body of the request is its stdin */
    bool framed; /* stdin is framed in chunks, so that an aborted upload changes nothing */
    bool packs;  /* gzip for clients that prefer it */
};

struct file_op {
    struct call *call;
    const struct file_encoder *encoder;
    struct run_op op;
    bool ended, begun, shown; /* shown: a record was encoded */
    struct err failure;       /* of the operation; code 0: success */
    struct loop_fd output, input;
    int out, in;
    struct gzip *packer; /* compressor of the output; NULL: none */
    struct buf records;  /* an incomplete record */
    struct buf pending;  /* pending stdin */
    bool body_over;
};

extern const struct file_encoder file_encoder_read, file_encoder_write;

/* Runs the operation and answers the call. `paths` ends with NULL; it and `user` are on the call's
 * arena. */
void file_op_start(struct call *c, const struct file_encoder *encoder, const char *const *paths,
                   const char *user, uint32_t mode);

#endif
