/* What was sent on a session's streams, for clients that lost them: the newest, within limits. */
#ifndef MCP_REPLAY_H
#define MCP_REPLAY_H

#include "base/str.h"
#include "loop/list.h"

enum { REPLAY_ENTRIES_MAX = 256, REPLAY_BYTES_MAX = 256 << 10, REPLAY_ID_MAX = 48 };

struct replay {
    struct list entries; /* struct replay_entry, oldest first */
    size_t n, bytes;
};

struct replay_entry {
    struct link link;
    uint64_t stream, seq;
    struct str text;
};

void replay_done(struct replay *p);
/* A text that is too long is not kept. */
void replay_add(struct replay *p, uint64_t stream, uint64_t seq, struct str text);
/* The oldest that is behind seq on the stream; NULL: there is none. */
const struct replay_entry *replay_after(struct replay *p, uint64_t stream, uint64_t seq);

/* "STREAM-SEQ" */
void replay_id(char out[static REPLAY_ID_MAX], uint64_t stream, uint64_t seq);
bool replay_id_read(struct str id, uint64_t *ret_stream, uint64_t *ret_seq);

#endif
