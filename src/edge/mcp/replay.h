/* SPDX-License-Identifier: Apache-2.0 */
/* Replay buffer: messages sent on a session's streams, for clients that reconnect.
 *
 * Answers and other messages (notes) have separate limits, so progress messages cannot evict
 * answers. An evicted answer leaves a tombstone with the id of its request, from which a
 * reconnecting client gets an error.
 *
 * Memory, including the overhead of each message, has four limits: per session (256 KiB of notes,
 * 16 MiB of answers), per family of tokens (28 MiB), per peer (32 MiB) and in total (128 MiB). At
 * one of the latter three limits the oldest note is evicted, or the oldest answer if there are no
 * notes. Tombstones take at most 16 KiB per session. */
#ifndef EDGE_MCP_REPLAY_H
#define EDGE_MCP_REPLAY_H

#include "base/str.h"
#include "lib/loop/list.h"

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
    REPLAY_GONE, /* tombstone of an evicted answer, without text */
    REPLAY_KIND_COUNT_,
};

/* The messages of a session, of all sessions of a family or of a peer, or of all sessions. */
struct replay_shelf {
    struct list kept[REPLAY_KIND_COUNT_]; /* struct replay_place, oldest first */
    size_t n[REPLAY_KIND_COUNT_], bytes[REPLAY_KIND_COUNT_];
};

/* All messages. Zero-initialised it is empty. Must outlive every struct mcp_replay in it. */
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
    struct str id; /* of the answered request, as JSON; empty: a note */
    struct str text;
};

/* `family` may be "". */
void replay_init(struct mcp_replay *p, struct replay_room *room, const char *peer,
                 const char *family);
void replay_done(struct mcp_replay *p); /* frees all messages; later additions are ignored */
/* Adds a note, or the answer to the request `id` (JSON) if id is not empty. */
void replay_add(struct mcp_replay *p, uint64_t stream, uint64_t seq, struct str id,
                struct str text);
/* The message of the stream with the lowest sequence number above seq, or NULL. */
const struct replay_entry *replay_after(struct mcp_replay *p, uint64_t stream, uint64_t seq);
/* Whether an answer of the stream, or the tombstone of one, exists. */
bool replay_answered(struct mcp_replay *p, uint64_t stream);

/* "STREAM-SEQ" */
void replay_id(char out[static REPLAY_ID_MAX], uint64_t stream, uint64_t seq);
bool replay_id_read(struct str id, uint64_t *ret_stream, uint64_t *ret_seq);

#endif
