#include "mcp/replay.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "quota/quota.h"

/* The analyser takes what is in a list for lost. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

struct replay_peer {
    struct link link;
    struct replay_shelf shelf;
    size_t sessions;
    char name[];
};

/* Of a session. */
static const struct {
    size_t n, bytes;
} limits[REPLAY_KIND_COUNT_] = {
    [REPLAY_NOTE] = { REPLAY_NOTES_MAX, REPLAY_NOTE_BYTES_MAX },
    [REPLAY_ANSWER] = { REPLAY_ANSWERS_MAX, REPLAY_ANSWER_BYTES_MAX },
    [REPLAY_GONE] = { REPLAY_GONE_MAX, REPLAY_GONE_BYTES_MAX },
};

/* --- shelves --- */

static size_t size_of(const struct replay_entry *v)
{
    return sizeof *v + v->id.n + v->text.n;
}

static void put(struct replay_shelf *s, struct replay_entry *v, struct replay_place *place)
{
    place->entry = v;
    list_append(&s->kept[v->kind], &place->link);
    s->n[v->kind]++;
    s->bytes[v->kind] += size_of(v);
}

static void take_off(struct replay_shelf *s, const struct replay_entry *v,
                     struct replay_place *place)
{
    if (!link_joined(&place->link))
        return;
    link_leave(&place->link);
    s->n[v->kind]--;
    s->bytes[v->kind] -= size_of(v);
}

static struct replay_entry *oldest(struct replay_shelf *s, enum replay_kind kind)
{
    struct link *l = list_first(&s->kept[kind]);

    return l ? container_of(l, struct replay_place, link)->entry : NULL;
}

static void forget(struct replay_entry *v)
{
    struct mcp_replay *p = v->replay;

    take_off(&p->shelf, v, &v->own);
    if (p->family)
        take_off(&p->family->shelf, v, &v->of_family);
    take_off(&p->peer->shelf, v, &v->of_peer);
    take_off(&p->room->shelf, v, &v->of_all);
    free(v);
}

/* --- a session's --- */

static struct replay_peer *join_replay_peer(struct list *all, const char *name)
{
    struct replay_peer *peer;
    size_t n = strlen(name) + 1;

    for (struct link *l = list_first(all); l; l = list_after(all, l)) {
        peer = container_of(l, struct replay_peer, link);
        if (strcmp(peer->name, name) == 0) {
            peer->sessions++;
            return peer;
        }
    }
    peer = calloc(1, sizeof *peer + n);
    if (!peer)
        abort();
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
        while ((v = oldest(&p->shelf, kind)))
            forget(v);
    leave_replay_peer(p->peer);
    leave_replay_peer(p->family);
    p->peer = p->family = NULL;
}

/* --- adding --- */

static struct replay_entry *make(struct mcp_replay *p, enum replay_kind kind, struct str id,
                                 struct str text)
{
    struct replay_entry *v = calloc(1, sizeof *v + id.n + text.n);
    char *copy;

    if (!v)
        abort();
    copy = (char *)(v + 1);
    if (id.n)
        memcpy(copy, id.p, id.n);
    if (text.n)
        memcpy(copy + id.n, text.p, text.n);
    v->replay = p;
    v->kind = kind;
    v->id = (struct str){ copy, id.n };
    v->text = (struct str){ copy + id.n, text.n };
    return v;
}

static bool is_full(const struct mcp_replay *p, enum replay_kind kind, size_t bytes)
{
    return p->shelf.n[kind] >= limits[kind].n || p->shelf.bytes[kind] + bytes > limits[kind].bytes;
}

static void remember_gone(struct mcp_replay *p, uint64_t stream, uint64_t seq, struct str id)
{
    struct replay_entry *v = make(p, REPLAY_GONE, id, STR("")), *old;

    v->stream = stream;
    v->seq = seq;
    while (is_full(p, REPLAY_GONE, size_of(v)) && (old = oldest(&p->shelf, REPLAY_GONE)))
        forget(old);
    put(&p->shelf, v, &v->own);
}

static void drop(struct replay_entry *v)
{
    if (v->kind == REPLAY_ANSWER)
        remember_gone(v->replay, v->stream, v->seq, v->id);
    forget(v);
}

static void make_room(struct mcp_replay *p, enum replay_kind kind, size_t bytes)
{
    struct replay_entry *old;

    while (is_full(p, kind, bytes) && (old = oldest(&p->shelf, kind)))
        drop(old);
}

static void make_room_among(struct replay_shelf *s, size_t bytes, size_t max)
{
    while (s->bytes[REPLAY_NOTE] + s->bytes[REPLAY_ANSWER] + bytes > max) {
        struct replay_entry *old = oldest(s, REPLAY_NOTE);

        if (!old)
            old = oldest(s, REPLAY_ANSWER);
        if (!old)
            return;
        drop(old);
    }
}

void replay_add(struct mcp_replay *p, uint64_t stream, uint64_t seq, struct str id, struct str text)
{
    enum replay_kind kind = id.n ? REPLAY_ANSWER : REPLAY_NOTE;
    size_t bytes = sizeof(struct replay_entry) + id.n + text.n;
    struct replay_entry *v;

    if (!p->peer)
        return;
    if (bytes > limits[kind].bytes) {
        if (kind == REPLAY_ANSWER)
            remember_gone(p, stream, seq, id);
        return;
    }
    make_room(p, kind, bytes);
    if (p->family)
        make_room_among(&p->family->shelf, bytes, quota_token_part(REPLAY_PEER_BYTES_MAX));
    make_room_among(&p->peer->shelf, bytes, REPLAY_PEER_BYTES_MAX);
    make_room_among(&p->room->shelf, bytes, REPLAY_ALL_BYTES_MAX);
    v = make(p, kind, id, text);
    v->stream = stream;
    v->seq = seq;
    put(&p->shelf, v, &v->own);
    if (p->family)
        put(&p->family->shelf, v, &v->of_family);
    put(&p->peer->shelf, v, &v->of_peer);
    put(&p->room->shelf, v, &v->of_all);
}

/* --- finding --- */

static const struct replay_entry *next_of(struct list *kept, uint64_t stream, uint64_t seq)
{
    const struct replay_entry *best = NULL;

    for (struct link *l = list_first(kept); l; l = list_after(kept, l)) {
        const struct replay_entry *v = container_of(l, struct replay_place, link)->entry;

        if (v->stream == stream && v->seq > seq && (!best || v->seq < best->seq))
            best = v;
    }
    return best;
}

const struct replay_entry *replay_after(struct mcp_replay *p, uint64_t stream, uint64_t seq)
{
    const struct replay_entry *best = NULL;

    for (enum replay_kind kind = 0; kind < REPLAY_KIND_COUNT_; kind++) {
        const struct replay_entry *v = next_of(&p->shelf.kept[kind], stream, seq);

        if (v && (!best || v->seq < best->seq))
            best = v;
    }
    return best;
}

bool replay_answered(struct mcp_replay *p, uint64_t stream)
{
    return next_of(&p->shelf.kept[REPLAY_ANSWER], stream, 0) ||
           next_of(&p->shelf.kept[REPLAY_GONE], stream, 0);
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
