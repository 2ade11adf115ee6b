/* A master's yes in advance: to one tool of one peer, on one sandbox, for a time or so many uses,
 * under the policy that it was given under. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "crypto/encode.h"
#include "crypto/hash.h"
#include "json/reader.h"
#include "trust/held.h"

struct grant {
    struct grant_record record;
    struct index_entry entry;
    struct link link;
    char owner[OWNER_MAX]; /* the account of its peer; "": the peer is gone */
    char key[ID_MAX + RECORD_TOOL_MAX + ID_MAX];
};

static void make_key(char *out, size_t cap, const char *peer, const char *tool, const char *sandbox)
{
    snprintf(out, cap, "%s %s %s", peer, tool, sandbox);
}

static void add(struct trust *t, const struct grant_record *r)
{
    const struct peer *p = peers_by_id(t, str_from(r->peer));
    struct grant *g = calloc(1, sizeof *g);

    if (!g)
        abort();
    g->record = *r;
    snprintf(g->owner, sizeof g->owner, "%s", p ? peer_account(t, &p->record).name : "");
    make_key(g->key, sizeof g->key, r->peer, r->tool, r->sandbox);
    g->entry.id = g->key;
    index_add(&t->grant_keys, &g->entry);
    list_append(&t->grants, &g->link);
    t->n_grants++;
}

static void drop(struct trust *t, struct grant *g)
{
    index_remove(&t->grant_keys, &g->entry);
    link_leave(&g->link);
    t->n_grants--;
    free(g);
}

static bool is_good(const struct trust *t, const struct grant_record *r)
{
    return clock_wall() < r->expires_ns && t->policy.bundle &&
           strcmp(r->version, t->policy.bundle->version) == 0;
}

/* Those that are good for nothing any more, from memory and from the store. */
static void sweep(struct trust *t, struct trust_write *w)
{
    struct link *next;

    for (struct link *m = list_first(&t->grants); m; m = next) {
        struct grant *g = container_of(m, struct grant, link);

        next = list_after(&t->grants, m);
        if (is_good(t, &g->record))
            continue;
        store_remove_grant(&w->txn, g->record.id);
        drop(t, g);
    }
}

/* Those on their way to disk count as this owner's: they are few. */
bool grants_have_room(struct trust *t, const char *owner)
{
    size_t all = t->grants_coming, own = all;

    for (struct link *m = list_first(&t->grants); m; m = list_after(&t->grants, m)) {
        const struct grant *g = container_of(m, struct grant, link);

        if (!is_good(t, &g->record))
            continue;
        all++;
        own += strcmp(g->owner, owner) == 0;
    }
    return all < GRANTS_MAX && own < GRANTS_PER_OWNER;
}

static void put_member(struct json_writer *w, const struct json *object, const char *key)
{
    const struct json *v =
        object && object->type == JSON_OBJECT ? json_get(object, str_from(key)) : NULL;

    json_key(w, str_from(key));
    if (v)
        json_put_tree(w, v);
    else
        json_put_null(w);
}

/* What says where a new sandbox may go, by whichever way it is asked for. */
static int write_network(const struct json *args, struct buf *out)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    put_member(&w, json_get(args, STR("capabilities")), "network");
    put_member(&w, args, "egress");
    put_member(&w, args, "profile");
    put_member(&w, args, "image");
    put_member(&w, args, "snapshot");
    json_end_object(&w);
    return json_writer_finish(&w, NULL);
}

/* What a grant is about: the sandbox that a call names, or the network that it asks for, by a hash
 * of it: "this host" is no yes to another one. Of so many bits that nobody finds two alike. */
static void subject_of(const struct json *args, char ret[static ID_MAX])
{
    enum { HASH_BYTES = 20 };
    const struct trust_question q = { .args = args };
    AUTO(buf_done) struct buf text = BUF_INIT(2 * APPROVAL_ARGS_MAX), name = BUF_INIT(ID_MAX);
    unsigned char hash[CRYPTO_SHA256_SIZE];

    question_sandbox(&q, ret);
    if (ret[0] || !args || args->type != JSON_OBJECT || write_network(args, &text) < 0)
        return;
    crypto_sha256(buf_str(&text), hash);
    if (crypto_base64url((struct str){ (const char *)hash, HASH_BYTES }, &name) >= 0)
        snprintf(ret, ID_MAX, "net_%.*s", (int)name.n, name.p);
}

static struct grant *grant_of(struct trust *t, const char *peer, const char *tool,
                              const char *sandbox)
{
    char key[sizeof((struct grant *)NULL)->key];
    struct index_entry *v;

    make_key(key, sizeof key, peer, tool, sandbox);
    v = index_find(&t->grant_keys, str_from(key));
    return v ? container_of(v, struct grant, entry) : NULL;
}

int grant_put(const struct held *h, struct approval_op *op, struct trust_write *w, struct err *e)
{
    const struct json_limits limits = { .bytes = APPROVAL_ARGS_MAX, .depth = ARGS_DEPTH };
    AUTO(arena_done) struct arena a = ARENA_INIT(ARGS_MEMORY);
    struct grant_record *r = &op->grant_;
    const struct json *args;
    const struct peer *p = peers_by_id(h->trust, str_from(h->record.peer));
    struct grant *old;
    int err;

    sweep(h->trust, w);
    if (!grants_have_room(h->trust, p ? peer_account(h->trust, &p->record).name : ""))
        return err_set(e, ERR_QUOTA, "there are too many grants: %d of all, %d of an owner",
                       GRANTS_MAX, GRANTS_PER_OWNER);
    *r = (struct grant_record){ .uses = op->grant_uses, .expires_ns = clock_wall() + op->grant_ns };
    err = id_make("grant_", r->id, e);
    if (err < 0)
        return err;
    snprintf(r->peer, sizeof r->peer, "%s", h->record.peer);
    snprintf(r->tool, sizeof r->tool, "%s", h->record.tool);
    if (json_read(h->record.args, limits, &a, &args, NULL) >= 0)
        subject_of(args, r->sandbox);
    snprintf(r->version, sizeof r->version, "%s", h->record.version);
    snprintf(r->approver, sizeof r->approver, "%s", op->master.actor.id);
    old = grant_of(h->trust, r->peer, r->tool, r->sandbox);
    if (old) { /* the newer counts, and one is enough */
        store_remove_grant(&w->txn, old->record.id);
        drop(h->trust, old);
    }
    write_detail(w, "grant", r->id);
    store_put_grant(&w->txn, r);
    h->trust->grants_coming++;
    return 0;
}

void grant_stored(struct trust *t, const struct grant_record *r, bool is_stored)
{
    t->grants_coming--;
    if (is_stored)
        add(t, r);
}

void grants_peer_ended(struct peer *p)
{
    struct link *next;

    for (struct link *m = list_first(&p->trust->grants); m; m = next) {
        struct grant *g = container_of(m, struct grant, link);

        next = list_after(&p->trust->grants, m);
        if (strcmp(g->record.peer, p->record.id) == 0)
            g->record.expires_ns = 0; /* the next sweep takes it */
    }
}

struct grant *grant_find(struct trust *t, const struct trust_question *q)
{
    char tool[RECORD_TOOL_MAX], sandbox[ID_MAX];
    struct grant *g;

    if (!str_copy(q->tool, tool, sizeof tool))
        return NULL;
    subject_of(q->args, sandbox);
    g = grant_of(t, q->peer->record.id, tool, sandbox);
    return g && is_good(t, &g->record) ? g : NULL;
}

/* It is used up here before that is on disk: if the change fails, so does the call. */
void grant_use(struct trust *t, struct grant *g, struct trust_write *w)
{
    write_detail(w, "grant", g->record.id);
    if (g->record.uses == 1) {
        store_remove_grant(&w->txn, g->record.id);
        drop(t, g);
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
        add(t, &q.grants[i]);
    arena_done(&q.arena);
    return r;
}

void grants_close(struct trust *t)
{
    for (struct link *m; (m = list_first(&t->grants));)
        drop(t, container_of(m, struct grant, link));
    index_done(&t->grant_keys);
}
