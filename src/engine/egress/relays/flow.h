/* One direction of a tunnel: bytes from one socket to another, with back-pressure. Small messages
 * are copied with one recv() and one send(); when there are many bytes, they are spliced. Nothing
 * is held while nothing is pending. */
#ifndef EGRESS_RELAYS_FLOW_H
#define EGRESS_RELAYS_FLOW_H

#include "base/buf.h"
#include "egress/relays/pipes.h"

struct flow {
    uint64_t bytes;        /* sent */
    struct buf held;       /* copied and not yet sent … */
    size_t held_at;        /* … from here on */
    struct pipe_ends pipe; /* ours while there are bytes in it: */
    size_t piped;
    bool bulk;   /* the last turn moved many */
    bool ended;  /* the source will send no more */
    bool passed; /* … and the other end was told */
    bool last;   /* set by the owner: the other direction is over, so closing tells it */
    bool ending; /* set by the owner: the source's end has come, behind what can be read */
};

enum flow_result {
    FLOW_WAIT,   /* as far as it goes: the source is empty, or the drain full, or it is others' turn
                  */
    FLOW_BROKEN, /* a socket is dead */
};

void flow_init(struct flow *f);
void flow_done(struct flow *f);

/* Bytes that somebody else read from the source. */
void flow_put(struct flow *f, struct str bytes);

/* Moves what can be moved, and no more than a turn's worth. With `may_read` false only what is
 * pending goes. When the source has ended and all is sent, the drain is shut down for writing. */
enum flow_result flow_move(struct flow *f, int from, int to, bool may_read);

/* What the loop shall wait for. */
bool flow_wants_read(const struct flow *f);
bool flow_wants_write(const struct flow *f);

#endif
