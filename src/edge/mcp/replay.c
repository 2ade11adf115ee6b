/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/mcp/replay.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/quota/quota.h"

/* The analyser reports members of an intrusive list as leaked. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

struct replay_peer {
    struct link link;
    struct replay_shelf shelf;
    size_t sessions;
    char name[];
};

/* Limits of a session. */
static const struct {
    size_t n, bytes;
} limits[REPLAY_KIND_COUNT_] = {
    [REPLAY_NOTE] = { REPLAY_NOTES_MAX, REPLAY_NOTE_BYTES_MAX },
    [REPLAY_ANSWER] = { REPLAY_ANSWERS_MAX, REPLAY_ANSWER_BYTES_MAX },
    [REPLAY_GONE] = { REPLAY_GONE_MAX, REPLAY_GONE_BYTES_MAX },
};

/* --- shelves --- */

static size_t replay_entry_size(const struct replay_entry *v)
{
    return sizeof *v + v->id.n + v->text.n;
}

static void shelve_entry(struct replay_shelf *s, struct replay_entry *v, struct replay_place *place)
{
    place->entry = v;
    list_append(&s->kept[v->kind], &place->link);
    s->n[v->kind]++;
    s->bytes[v->kind] += replay_entry_size(v);
}

static void unshelve_entry(struct replay_shelf *s, const struct replay_entry *v,
                           struct replay_place *place)
{
    if (!link_joined(&place->link))
        return;
    link_leave(&place->link);
    s->n[v->kind]--;
    s->bytes[v->kind] -= replay_entry_size(v);
}

static struct replay_entry *oldest_entry(struct replay_shelf *s, enum replay_kind kind)
{
    struct link *l = list_first(&s->kept[kind]);

    return l ? container_of(l, struct replay_place, link)->entry : NULL;
}

static void free_replay_entry(struct replay_entry *v)
{
    struct mcp_replay *p = v->replay;

    unshelve_entry(&p->shelf, v, &v->own);
    if (p->family)
        unshelve_entry(&p->family->shelf, v, &v->of_family);
    unshelve_entry(&p->peer->shelf, v, &v->of_peer);
    unshelve_entry(&p->room->shelf, v, &v->of_all);
    free(v);
}

/* --- sessions, peers and families --- */

static struct replay_peer *join_replay_peer(struct list *all, const char *name)
{
    struct replay_peer *peer;
    size_t n = strlen(name) + 1;

    LIST_EACH (struct replay_peer, known, all, link) {
        if (strcmp(known->name, name) != 0)
            continue;
        known->sessions++;
        return known;
    }
    peer = new0(sizeof *peer + n);
    memcpy(peer->name, name, n);
    list_append(all, &peer->link);
    peer->sessions = 1;
    return peer;
}

static void leave_replay_peer(struct replay_peer *peer)
{
    if (!peer || --peer->sessions)
        return;
    link_leave(&peer->link);
    free(peer);
}

void replay_init(struct mcp_replay *p, struct replay_room *room, const char *peer,
                 const char *family)
{
    *p = (struct mcp_replay){ .room = room, .peer = join_replay_peer(&room->peers, peer) };
    if (family[0])
        p->family = join_replay_peer(&room->families, family);
}

void replay_done(struct mcp_replay *p)
{
    struct replay_entry *v;

    if (!p->peer)
        return;
    for (enum replay_kind kind = 0; kind < REPLAY_KIND_COUNT_; kind++)
        while ((v = oldest_entry(&p->shelf, kind)))
            free_replay_entry(v);
    leave_replay_peer(p->peer);
    leave_replay_peer(p->family);
    p->peer = p->family = NULL;
}

/* --- adding --- */

static struct replay_entry *new_replay_entry(struct mcp_replay *p, enum replay_kind kind,
                                             uint64_t stream, uint64_t seq, struct str id,
                                             struct str text)
{
    struct replay_entry *v = new0(sizeof *v + id.n + text.n);
    char *copy = (char *)(v + 1);

    if (id.n)
        memcpy(copy, id.p, id.n);
    if (text.n)
        memcpy(copy + id.n, text.p, text.n);
    *v = (struct replay_entry){ .replay = p,
                                .kind = kind,
                                .stream = stream,
                                .seq = seq,
                                .id = { copy, id.n },
                                .text = { copy + id.n, text.n } };
    return v;
}

static bool is_replay_full(const struct mcp_replay *p, enum replay_kind kind, size_t bytes)
{
    return p->shelf.n[kind] >= limits[kind].n || p->shelf.bytes[kind] + bytes > limits[kind].bytes;
}

static void add_tombstone(struct mcp_replay *p, uint64_t stream, uint64_t seq, struct str id)
{
    struct replay_entry *v = new_replay_entry(p, REPLAY_GONE, stream, seq, id, STR("")), *old;

    while (is_replay_full(p, REPLAY_GONE, replay_entry_size(v)) &&
           (old = oldest_entry(&p->shelf, REPLAY_GONE)))
        free_replay_entry(old);
    shelve_entry(&p->shelf, v, &v->own);
}

static void evict_replay_entry(struct replay_entry *v)
{
    if (v->kind == REPLAY_ANSWER)
        add_tombstone(v->replay, v->stream, v->seq, v->id);
    free_replay_entry(v);
}

static void make_shelf_room(struct replay_shelf *s, size_t bytes, size_t max)
{
    while (s->bytes[REPLAY_NOTE] + s->bytes[REPLAY_ANSWER] + bytes > max) {
        struct replay_entry *old = oldest_entry(s, REPLAY_NOTE);

        if (!old)
            old = oldest_entry(s, REPLAY_ANSWER);
        if (!old)
            return;
        evict_replay_entry(old);
    }
}

void replay_add(struct mcp_replay *p, uint64_t stream, uint64_t seq, struct str id, struct str text)
{
    enum replay_kind kind = id.n ? REPLAY_ANSWER : REPLAY_NOTE;
    size_t bytes = sizeof(struct replay_entry) + id.n + text.n;
    struct replay_entry *v, *old;

    if (!p->peer)
        return;
    if (bytes > limits[kind].bytes) {
        if (kind == REPLAY_ANSWER)
            add_tombstone(p, stream, seq, id);
        return;
    }
    while (is_replay_full(p, kind, bytes) && (old = oldest_entry(&p->shelf, kind)))
        evict_replay_entry(old);
    if (p->family)
        make_shelf_room(&p->family->shelf, bytes, quota_token_part(REPLAY_PEER_BYTES_MAX));
    make_shelf_room(&p->peer->shelf, bytes, REPLAY_PEER_BYTES_MAX);
    make_shelf_room(&p->room->shelf, bytes, REPLAY_ALL_BYTES_MAX);
    v = new_replay_entry(p, kind, stream, seq, id, text);
    shelve_entry(&p->shelf, v, &v->own);
    if (p->family)
        shelve_entry(&p->family->shelf, v, &v->of_family);
    shelve_entry(&p->peer->shelf, v, &v->of_peer);
    shelve_entry(&p->room->shelf, v, &v->of_all);
}

/* --- finding --- */

static const struct replay_entry *next_stream_entry(struct list *kept, uint64_t stream,
                                                    uint64_t seq)
{
    const struct replay_entry *best = NULL;

    LIST_EACH (const struct replay_place, place, kept, link) {
        const struct replay_entry *v = place->entry;

        if (v->stream == stream && v->seq > seq && (!best || v->seq < best->seq))
            best = v;
    }
    return best;
}

const struct replay_entry *replay_after(struct mcp_replay *p, uint64_t stream, uint64_t seq)
{
    const struct replay_entry *best = NULL;

    for (enum replay_kind kind = 0; kind < REPLAY_KIND_COUNT_; kind++) {
        const struct replay_entry *v = next_stream_entry(&p->shelf.kept[kind], stream, seq);

        if (v && (!best || v->seq < best->seq))
            best = v;
    }
    return best;
}

bool replay_answered(struct mcp_replay *p, uint64_t stream)
{
    return next_stream_entry(&p->shelf.kept[REPLAY_ANSWER], stream, 0) ||
           next_stream_entry(&p->shelf.kept[REPLAY_GONE], stream, 0);
}

void replay_id(char out[static REPLAY_ID_MAX], uint64_t stream, uint64_t seq)
{
    snprintf(out, REPLAY_ID_MAX, "%llu-%llu", (unsigned long long)stream, (unsigned long long)seq);
}

bool replay_id_read(struct str id, uint64_t *ret_stream, uint64_t *ret_seq)
{
    struct str stream, seq = str_cut(id, '-', &stream);

    return seq.p && str_to_u64(stream, ret_stream) && str_to_u64(seq, ret_seq);
}
