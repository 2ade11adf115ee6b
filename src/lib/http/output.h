/* SPDX-License-Identifier: Apache-2.0 */
/* The output queue of a non-blocking socket: bytes, and descriptors attached to certain bytes.
 * Private to http. */
#ifndef LIB_HTTP_OUTPUT_H
#define LIB_HTTP_OUTPUT_H

#include "base/buf.h"
#include "lib/http/server.h"

struct output_fds_;

struct http_output {
    struct buf bytes_;
    size_t sent_;             /* how many of bytes_ are gone */
    struct output_fds_ *fds_; /* in the order of their bytes */
};

enum { OUTPUT_PARTS_MAX = 4 };

void output_init(struct http_output *o);
void output_done(struct http_output *o); /* forgets everything; can be used again */

size_t output_queued(const struct http_output *o);

/* Puts bytes at the end without sending. */
int output_add(struct http_output *o, struct str s, struct err *e);

/* Descriptors for the byte that is added next. They become the queue's. */
int output_add_fds(struct http_output *o, const int *fds, size_t n, struct err *e);

/* Sends what is queued and then the parts, in one system call where the socket takes it; keeps the
 * rest. Returns bytes sent, or an error when the peer is gone. */
int64_t output_send(struct http_output *o, int socket, const struct str *parts, size_t n,
                    struct err *e);

#endif
