/* What was sent on a session's streams, for clients that lost them.
 *
 * Answers are kept apart from all else, so that no amount of progress pushes one out: a session
 * keeps at least its newest, whatever its size. Of an answer that had to go it is still known which
 * request it was for, so that whoever comes for it can be told.
 *
 * Memory is bounded four times, with what it takes to keep a message counted: for a session
 * (256 KiB of notes, 16 MiB of answers), for all sessions of a family of tokens (28 MiB) and of a
 * peer (32 MiB) and for everybody (128 MiB). Where one of the latter three is full, the oldest note
 * in it goes, and the oldest answer if there is none. What is known of answers that went is 16 KiB
 * of a session at most. */
#ifndef MCP_REPLAY_H
#define MCP_REPLAY_H

#include "base/str.h"
#include "loop/list.h"

enum {
    REPLAY_NOTES_MAX = 256,
    REPLAY_NOTE_BYTES_MAX = 256 << 10,
    REPLAY_ANSWERS_MAX = 64,
    REPLAY_ANSWER_BYTES_MAX = 16 << 20,
    REPLAY_GONE_MAX = 64,
    REPLAY_GONE_BYTES_MAX = 16 << 10,
    REPLAY_PEER_BYTES_MAX = 32 << 20,
    REPLAY_ALL_BYTES_MAX = 128 << 20,
    REPLAY_ID_MAX = 48,
};

enum replay_kind {
    REPLAY_NOTE,
    REPLAY_ANSWER,
    REPLAY_GONE, /* an answer that is not kept any more: it has no text */
    REPLAY_KIND_COUNT_,
};

/* What one holder has: a session, a family or a peer with all of its sessions, or everybody. */
struct replay_shelf {
    struct list kept[REPLAY_KIND_COUNT_]; /* struct replay_place, oldest first */
    size_t n[REPLAY_KIND_COUNT_], bytes[REPLAY_KIND_COUNT_];
};

/* Everybody's; zeroed is empty. It outlives what is kept in it. */
struct replay_room {
    struct replay_shelf shelf;
    struct list peers, families; /* struct replay_peer */
};

struct replay_peer;

struct mcp_replay {
    struct replay_room *room;
    struct replay_peer *peer, *family; /* family may be NULL */
    struct replay_shelf shelf;
};

struct replay_entry;
struct replay_place {
    struct link link;
    struct replay_entry *entry;
};

struct replay_entry {
    struct mcp_replay *replay;
    struct replay_place own, of_family, of_peer, of_all;
    enum replay_kind kind;
    uint64_t stream, seq;
    struct str id; /* of the request that it answers, as JSON; empty: none */
    struct str text;
};

/* family "": it is of none. */
void replay_init(struct mcp_replay *p, struct replay_room *room, const char *peer,
                 const char *family);
void replay_done(struct mcp_replay *p); /* nothing is kept in it any more */
/* With the id of a request, written as JSON, it is the answer to it. */
void replay_add(struct mcp_replay *p, uint64_t stream, uint64_t seq, struct str id,
                struct str text);
/* The oldest that is behind seq on the stream; NULL: there is none. */
const struct replay_entry *replay_after(struct mcp_replay *p, uint64_t stream, uint64_t seq);
/* Whether an answer on the stream is kept, or known to be gone. */
bool replay_answered(struct mcp_replay *p, uint64_t stream);

/* "STREAM-SEQ" */
void replay_id(char out[static REPLAY_ID_MAX], uint64_t stream, uint64_t seq);
bool replay_id_read(struct str id, uint64_t *ret_stream, uint64_t *ret_seq);

#endif
