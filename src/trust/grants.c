/* SPDX-License-Identifier: Apache-2.0 */
/* Grants: a master's approval in advance for one tool of one peer on one sandbox, for a time or a
 * number of uses, valid under one policy version. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "lib/json/reader.h"
#include "trust/held.h"

struct call_grant {
    struct grant_record record;
    struct map_entry entry;
    struct link link;
    char owner[OWNER_MAX]; /* the account of its peer; "": unknown peer */
    char key[ID_MAX + RECORD_TOOL_MAX + ID_MAX];
};

static void make_grant_key(char *out, size_t cap, const char *peer, const char *tool,
                           const char *sandbox)
{
    snprintf(out, cap, "%s %s %s", peer, tool, sandbox);
}

static void add_grant(struct trust *t, const struct grant_record *r)
{
    const struct peer *p = peers_by_id(t, str_from(r->peer));
    struct call_grant *g = new0(sizeof *g);

    g->record = *r;
    snprintf(g->owner, sizeof g->owner, "%s", p ? peer_account(t, &p->record).name : "");
    make_grant_key(g->key, sizeof g->key, r->peer, r->tool, r->sandbox);
    g->entry.id = g->key;
    map_add(&t->grant_keys, &g->entry);
    list_append(&t->grants, &g->link);
    t->n_grants++;
}

static void drop_grant(struct trust *t, struct call_grant *g)
{
    map_remove(&t->grant_keys, &g->entry);
    link_leave(&g->link);
    t->n_grants--;
    free(g);
}

static bool is_valid_grant(const struct trust *t, const struct grant_record *r)
{
    return clock_wall() < r->expires_ns && t->policy.bundle &&
           strcmp(r->version, t->policy.bundle->version) == 0;
}

/* Removes invalid grants from memory and from the store. */
static void sweep_grants(struct trust *t, struct trust_write *w)
{
    LIST_EACH_SAFE (struct call_grant, g, &t->grants, link) {
        if (is_valid_grant(t, &g->record))
            continue;
        store_remove_grant(&w->txn, g->record.id);
        drop_grant(t, g);
    }
}

/* Grants that are being stored are few, and all charged to this account. */
bool grants_have_room_for(const struct held_call *h)
{
    struct trust *t = h->trust;
    const struct peer *p = peers_by_id(t, str_from(h->record.peer));
    const char *account = p ? peer_account(t, &p->record).name : "";
    size_t all = t->grants_coming, own = all;

    LIST_EACH (const struct call_grant, g, &t->grants, link) {
        if (!is_valid_grant(t, &g->record))
            continue;
        all++;
        own += strcmp(g->owner, account) == 0;
    }
    return all < GRANTS_MAX && own < GRANTS_PER_OWNER;
}

static void write_network_member(struct json_writer *w, const struct json *object, const char *key)
{
    const struct json *v =
        object && object->type == JSON_OBJECT ? json_get(object, str_from(key)) : NULL;

    json_field_tree(w, key, v ? v : &(const struct json){ .type = JSON_NULL });
}

/* Writes the arguments that determine the network of a new sandbox, in any interface's form. */
static int write_requested_network(const struct json *args, struct buf *out)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    write_network_member(&w, json_get(args, STR("capabilities")), "network");
    write_network_member(&w, args, "egress");
    write_network_member(&w, args, "profile");
    write_network_member(&w, args, "image");
    write_network_member(&w, args, "snapshot");
    json_end_object(&w);
    return json_writer_finish(&w, NULL);
}

/* The subject of a grant: the sandbox that a call names, or else a hash of the requested network,
 * so that approval of one host does not cover another. The hash is long enough to be
 * collision-resistant. */
static void make_grant_subject(const struct json *args, char ret[static ID_MAX])
{
    enum { HASH_BYTES = 20 };
    const struct trust_question q = { .args = args };
    AUTO(buf_done) struct buf text = BUF_INIT(2 * APPROVAL_ARGS_MAX), name = BUF_INIT(ID_MAX);
    unsigned char hash[CRYPTO_SHA256_SIZE];

    question_sandbox(&q, ret);
    if (ret[0] || !args || args->type != JSON_OBJECT || write_requested_network(args, &text) < 0)
        return;
    crypto_sha256(buf_str(&text), hash);
    if (crypto_base64url((struct str){ (const char *)hash, HASH_BYTES }, &name) >= 0)
        snprintf(ret, ID_MAX, "net_%.*s", (int)name.n, name.p);
}

static struct call_grant *find_grant_by_key(struct trust *t, const char *peer, const char *tool,
                                            const char *sandbox)
{
    char key[sizeof((struct call_grant *)NULL)->key];
    struct map_entry *v;

    make_grant_key(key, sizeof key, peer, tool, sandbox);
    v = map_find(&t->grant_keys, str_from(key));
    return v ? container_of(v, struct call_grant, entry) : NULL;
}

int grant_add_to_write(const struct held_call *h, struct approval_op *op, struct trust_write *w,
                       struct err *e)
{
    const struct json_limits limits = { .bytes = APPROVAL_ARGS_MAX, .depth = ARGS_DEPTH };
    AUTO(arena_done) struct arena a = ARENA_INIT(ARGS_MEMORY);
    struct grant_record *r = &op->grant_;
    const struct json *args;
    struct call_grant *old;
    int err;

    sweep_grants(h->trust, w);
    if (!grants_have_room_for(h))
        return err_set(e, ERR_QUOTA, "too many grants (limit: %d in total, %d per owner)",
                       GRANTS_MAX, GRANTS_PER_OWNER);
    *r = (struct grant_record){ .uses = op->grant_uses, .expires_ns = clock_wall() + op->grant_ns };
    err = id_make("grant_", r->id, e);
    if (err < 0)
        return err;
    snprintf(r->peer, sizeof r->peer, "%s", h->record.peer);
    snprintf(r->tool, sizeof r->tool, "%s", h->record.tool);
    if (json_read(h->record.args, limits, &a, &args, NULL) >= 0)
        make_grant_subject(args, r->sandbox);
    snprintf(r->version, sizeof r->version, "%s", h->record.version);
    snprintf(r->approver, sizeof r->approver, "%s", op->master.actor.id);
    old = find_grant_by_key(h->trust, r->peer, r->tool, r->sandbox);
    if (old) { /* the new grant replaces it */
        store_remove_grant(&w->txn, old->record.id);
        drop_grant(h->trust, old);
    }
    trust_write_detail(w, "grant", r->id);
    store_put_grant(&w->txn, r);
    h->trust->grants_coming++;
    return 0;
}

void grant_stored(struct trust *t, const struct grant_record *r, bool is_stored)
{
    t->grants_coming--;
    if (is_stored)
        add_grant(t, r);
}

void grants_peer_ended(struct peer *p)
{
    LIST_EACH (struct call_grant, g, &p->trust->grants, link) {
        if (strcmp(g->record.peer, p->record.id) == 0)
            g->record.expires_ns = 0; /* removed by the next sweep */
    }
}

struct call_grant *grant_find(struct trust *t, const struct trust_question *q)
{
    char tool[RECORD_TOOL_MAX], sandbox[ID_MAX];
    struct call_grant *g;

    if (!str_copy(q->tool, tool, sizeof tool))
        return NULL;
    make_grant_subject(q->args, sandbox);
    g = find_grant_by_key(t, q->peer->record.id, tool, sandbox);
    return g && is_valid_grant(t, &g->record) ? g : NULL;
}

/* Consumes a use in memory before it is stored: if the write fails, so does the call. */
void grant_use(struct trust *t, struct call_grant *g, struct trust_write *w)
{
    trust_write_detail(w, "grant", g->record.id);
    if (g->record.uses == 1) {
        store_remove_grant(&w->txn, g->record.id);
        drop_grant(t, g);
    } else if (g->record.uses) {
        g->record.uses--;
        store_put_grant(&w->txn, &g->record);
    }
}

int grants_open(struct trust *t, struct err *e)
{
    struct store_query q = { .kind = STORE_GRANTS };
    int r = store_ask_now(t->store, &q, e);

    for (size_t i = 0; r >= 0 && i < q.n; i++)
        add_grant(t, &q.grants[i]);
    arena_done(&q.arena);
    return r;
}

void grants_close(struct trust *t)
{
    for (struct link *m; (m = list_first(&t->grants));)
        drop_grant(t, container_of(m, struct call_grant, link));
    map_done(&t->grant_keys);
}
