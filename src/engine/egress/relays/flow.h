/* SPDX-License-Identifier: Apache-2.0 */
/* One direction of a tunnel: moves bytes from one socket to another, with back-pressure. Small
 * messages are copied with one recv() and one send(), bulk data is spliced. Holds no buffer or pipe
 * while no bytes are pending. */
#ifndef ENGINE_EGRESS_RELAYS_FLOW_H
#define ENGINE_EGRESS_RELAYS_FLOW_H

#include <stdbool.h>

#include "base/buf.h"

/* Pipes for splicing bulk data, shared by all relays of the process: a direction of a tunnel has
 * one only while it contains bytes. */

/* The kernel limits the pipe memory of a user (usually to 64 MB), which programs of the same user
 * share: so only a few pipes are large, which halves the cost of bulk data, and the others have the
 * default size. */
enum { PIPES_KEPT = 16, PIPES_LARGE = 16, PIPE_BYTES = 1 << 20 };

struct pipe_ends {
    int read, write;
    bool large;
};
#define PIPE_NONE ((struct pipe_ends){ .read = -1, .write = -1 })

/* Returns false if no descriptors are left. */
bool pipes_take(struct pipe_ends *ret);
/* Only an empty pipe is used again. */
void pipes_give(struct pipe_ends *p, bool empty);

struct flow {
    uint64_t bytes;        /* sent */
    struct buf held;       /* copied and not yet sent … */
    size_t held_at;        /* … from here on */
    struct pipe_ends pipe; /* taken while it contains bytes: */
    size_t piped;
    bool bulk;   /* the last turn moved many bytes */
    bool ended;  /* the source has ended */
    bool passed; /* … and the drain was shut down */
    /* set by the owner: the other direction has ended, so close() also ends this one */
    bool last;
    bool ending; /* set by the owner: the source ends behind the readable bytes */
};

enum flow_result {
    FLOW_WAIT,   /* source empty, drain full, or other sources are due */
    FLOW_BROKEN, /* a socket failed */
};

void flow_init(struct flow *f);
void flow_done(struct flow *f);

/* Adds bytes that the caller read from the source. */
void flow_add(struct flow *f, struct str bytes);

/* Moves available bytes, at most one turn's worth; with `may_read` false only pending ones. After
 * the end of the source, when all is sent, shuts down the drain for writing. */
enum flow_result flow_move(struct flow *f, int from, int to, bool may_read);

/* The events to wait for. */
bool flow_wants_read(const struct flow *f);
bool flow_wants_write(const struct flow *f);

#endif
