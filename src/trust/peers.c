/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/peers.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/owner/event_share.h"
#include "control/owner/owner_share.h"
#include "control/owner/tokens.h"
#include "lib/crypto/hash.h"
#include "lib/crypto/random.h"
#include "lib/crypto/secret.h"
#include "lib/json/reader.h"
#include "trust/internal.h"

enum { KEY_MAX = 1 << 10, EVENT_MAX = 16 << 10, LABELS_MAX = 256 << 10 };

/* --- the table --- */

struct peer *peer_ref(struct peer *p)
{
    p->refs++;
    return p;
}

void peer_unref(struct peer *p)
{
    if (!p || --p->refs > 0)
        return;
    arena_done(&p->arena_);
    free(p);
}

static struct peer *new_peer(struct trust *t, const struct peer_record *r)
{
    struct peer *p = new0(sizeof *p);

    p->record = *r;
    arena_init(&p->arena_, LABELS_MAX);
    if (!json_map_copy(&p->record.labels, &p->arena_))
        abort(); /* the labels of a token are shorter */
    p->refs = 1;
    p->trust = t;
    p->identity_ = identity_of(t, p->record.actor.id);
    p->labels_[0] = (struct json_pair){ PEER_LABEL, p->record.id };
    p->entry_.id = p->record.id;
    map_add(&t->peer_ids, &p->entry_);
    return p;
}

static struct peer *add_session_peer(struct trust *t, const struct peer_record *r)
{
    struct peer *p = new_peer(t, r);

    crypto_hex_sha256(p->record.hash, p->token_key_);
    p->token_entry_.id = p->token_key_;
    if (!p->record.ended_ns)
        map_add(&t->peer_tokens, &p->token_entry_);
    list_append(&t->peers, &p->link_);
    t->n_peers++;
    return p;
}

/* Removes the peer from the lists that both kinds are in. Pending calls keep a reference. */
static void forget_peer(struct peer *p)
{
    uses_leave(p);
    map_remove(&p->trust->peer_ids, &p->entry_);
    link_leave(&p->link_);
    p->trust = NULL;
    p->identity_ = NULL;
    peer_unref(p);
}

void peer_drop(struct peer *p)
{
    release_cancel(p);
    loop_timer_stop(&p->watchdog_);
    map_remove(&p->trust->peer_tokens, &p->token_entry_);
    p->trust->n_peers--;
    forget_peer(p);
}

static struct peer *find_trust_peer(struct trust *t, struct str id)
{
    struct map_entry *v = map_find(&t->peer_ids, id);

    return v ? container_of(v, struct peer, entry_) : NULL;
}

/* --- tokens --- */

static struct peer *add_token_peer(struct trust *t, const struct token_record *k)
{
    struct peer_record r = { .actor = { .kind = k->actor },
                             .uid = -1,
                             .role = k->role,
                             .client = "token",
                             .created_ns = k->created_ns,
                             .labels = k->labels };
    struct peer *p;

    snprintf(r.id, sizeof r.id, "%s", k->id);
    snprintf(r.owner, sizeof r.owner, "%s", k->owner);
    snprintf(r.actor.id, sizeof r.actor.id, "%s", k->id);
    p = new_peer(t, &r);
    p->is_token = true;
    p->expires_ns_ = k->expires_ns;
    list_append(&t->token_peers, &p->link_);
    return p;
}

struct peer *peers_of_token(struct trust *t, struct str id)
{
    struct peer *p = find_trust_peer(t, id);
    const struct token_record *k;

    if (p && p->is_token && (!p->expires_ns_ || clock_wall() < p->expires_ns_))
        return p;
    k = !p && t->tokens && str_starts(id, STR("tok_")) ? tokens_by_id(t->tokens, id) : NULL;
    return k ? add_token_peer(t, k) : NULL;
}

struct peer *peers_by_id(struct trust *t, struct str id)
{
    struct peer *p;

    if (str_starts(id, STR("tok_")))
        return peers_of_token(t, id);
    p = find_trust_peer(t, id);
    return p && !p->record.ended_ns ? p : NULL;
}

/* The time of a comparison reveals nothing: attackers cannot choose hashes. */
static struct peer *find_peer_by_hash(struct trust *t,
                                      const unsigned char hash[static CRYPTO_SHA256_SIZE])
{
    char key[CRYPTO_SHA256_HEX];
    struct map_entry *v;

    crypto_hex_sha256(hash, key);
    v = map_find(&t->peer_tokens, str_from(key));
    return v ? container_of(v, struct peer, token_entry_) : NULL;
}

struct peer *peers_by_token(struct trust *t, struct str token)
{
    unsigned char hash[CRYPTO_SHA256_SIZE];

    crypto_sha256(token, hash);
    return find_peer_by_hash(t, hash);
}

void peers_each(struct trust *t, void (*each)(void *user, struct peer *p), void *user)
{
    LIST_EACH_SAFE (struct peer, p, &t->peers, link_)
        each(user, p);
}

void peer_caller(const struct peer *p, struct caller *ret)
{
    *ret = (struct caller){ .actor = p->record.actor,
                            .verbs = VERBS_ALL & ~VERB_BIT(VERB_ADMIN),
                            .peer = true,
                            .labels = { p->labels_, 1 } };
    if (p->is_token) {
        ret->verbs = VERBS_ALL;
        ret->peer = false;
        ret->labels = p->record.labels;
    }
    snprintf(ret->owner, sizeof ret->owner, "%s", p->record.owner);
    memcpy(ret->also, p->workspace.sandbox, sizeof ret->also);
}

/* --- the watchdog --- */

static void arm_watchdog(struct peer *p);

static int64_t silence_deadline(const struct peer *p)
{
    int64_t patience = p->left ? p->trust->grace_ns : p->trust->silence_ns;
    int64_t since = p->attached_ && !p->left ? clock_mono() : p->seen_mono_;

    return since + patience;
}

/* The reason to end the peer; NULL: none. */
static const char *end_reason(const struct peer *p)
{
    if (p->expires_ns_ && clock_wall() >= p->expires_ns_)
        return "its token expired";
    if (clock_mono() < silence_deadline(p))
        return NULL;
    return p->left ? "its client left" : "its client was silent";
}

static void on_watchdog(struct loop_timer *w)
{
    struct peer *p = container_of(w, struct peer, watchdog_);
    const struct actor daemon = ACTOR_DAEMON;
    const char *why = end_reason(p);

    if (why)
        peer_end(p, &daemon, why, NULL, NULL);
    else
        arm_watchdog(p);
}

/* The wall clock may be set: on_watchdog() checks it again. */
static void arm_watchdog(struct peer *p)
{
    int64_t due = silence_deadline(p), expiry = clock_mono() + p->expires_ns_ - clock_wall();

    if (p->expires_ns_ && expiry < due)
        due = expiry;
    loop_timer_stop(&p->watchdog_);
    (void)loop_timer_start(p->trust->loop, &p->watchdog_, due, on_watchdog, NULL);
}

/* The timer is not moved: on_watchdog() checks again, so that a call is cheap. */
void peer_seen(struct peer *p)
{
    bool back = p->left;

    p->seen_mono_ = clock_mono();
    p->record.seen_ns = clock_wall();
    p->left = false;
    if (back && p->trust && !p->record.ended_ns)
        arm_watchdog(p);
}

void peer_attach(struct peer *p)
{
    p->attached_++;
    peer_seen(p);
}

void peer_detach(struct peer *p)
{
    p->attached_--;
    p->seen_mono_ = clock_mono();
    p->record.seen_ns = clock_wall();
}

void peer_leave(struct peer *p)
{
    if (!p->trust || p->record.ended_ns || p->left)
        return;
    p->left = true;
    p->seen_mono_ = clock_mono();
    arm_watchdog(p);
}

/* --- end --- */

struct peer_ending {
    struct peer *peer; /* referenced */
    peer_ended_fn *done;
    void *user;
    struct link link;
};

/* Releases the peer even if its end could not be stored. */
static void on_peer_end_stored(void *user, int r, const struct err *e)
{
    struct peer_ending *x = user;

    link_leave(&x->link);
    if (x->peer->trust && !x->peer->release_)
        release_start(x->peer);
    if (x->done)
        x->done(x->user, r, e);
    peer_unref(x->peer);
    free(x);
}

void peer_watch(struct peer *p, struct peer_watch *w)
{
    list_append(&p->watches_, &w->link_);
}

void peer_watch_stop(struct peer_watch *w)
{
    link_leave(&w->link_);
}

/* Stores the record, with its event. */
static void write_peer(struct trust *t, const char *event, const struct peer_record *r,
                       const struct actor *who, const char *reason, trust_write_fn *done,
                       void *user)
{
    struct trust_write *w = trust_write_new(t, event, r->owner, who, reason);

    trust_write_detail(w, "peer", r->id);
    trust_write_detail(w, "client", r->client);
    store_put_peer(&w->txn, r);
    trust_write_commit(w, done, user);
}

void peer_end(struct peer *p, const struct actor *who, const char *reason, peer_ended_fn *done,
              void *user)
{
    struct peer_ending *x;

    if (!p->trust || p->record.ended_ns || p->is_token)
        return;
    x = new0(sizeof *x);
    *x = (struct peer_ending){ .peer = peer_ref(p), .done = done, .user = user };
    list_append(&p->trust->endings, &x->link);
    p->record.ended_ns = clock_wall();
    map_remove(&p->trust->peer_tokens, &p->token_entry_); /* the token may be registered again */
    loop_timer_stop(&p->watchdog_);
    approvals_peer_ended(p);
    for (struct link *m; (m = list_take(&p->watches_));) {
        struct peer_watch *w = container_of(m, struct peer_watch, link_);

        w->ended(w);
    }
    write_peer(p->trust, "peer.ended", &p->record, who, reason, on_peer_end_stored, x);
}

static void end_peer_of_token(struct trust *t, struct str id)
{
    struct peer *p = find_trust_peer(t, id);

    if (!p || !p->is_token)
        return;
    p->record.ended_ns = clock_wall(); /* pending calls see that it ended */
    approvals_peer_ended(p);
    forget_peer(p);
}

void peers_event(struct trust *t, const struct event_record *v)
{
    const struct json_limits limits = { .bytes = EVENT_MAX, .depth = 8 };
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)16 * EVENT_MAX);
    const struct json *d, *token;

    if (strcmp(v->type, "token.revoked") != 0 || json_read(v->detail, limits, &a, &d, NULL) < 0 ||
        d->type != JSON_OBJECT)
        return;
    token = json_get(d, STR("token"));
    if (!token || token->type != JSON_STR)
        return;
    end_peer_of_token(t, token->s);
    LIST_EACH_SAFE (struct peer, p, &t->peers, link_) {
        if (str_eq(str_from(p->record.actor.id), token->s))
            peer_end(p, &v->actor, "its token was revoked", NULL, NULL);
    }
}

/* --- registration --- */

static void finish_peer_op(struct peer_op *op, int r, const struct err *e)
{
    link_leave(&op->link_);
    op->trust_ = NULL;
    op->done(op, r, e);
}

static void on_peer_op_later(struct loop_later *l)
{
    struct peer_op *op = container_of(l, struct peer_op, later_);

    finish_peer_op(op, op->r_, &op->err_);
}

static void on_peer_stored(void *user, int r, const struct err *e)
{
    struct peer_op *op = user;

    if (r < 0) {
        peer_drop(op->peer);
        peer_unref(take_ptr(op->peer));
        crypto_wipe(op->token, sizeof op->token);
    } else {
        peer_seen(op->peer);
        arm_watchdog(op->peer);
    }
    if (op->trust_)
        finish_peer_op(op, r, e);
}

struct account peer_account(const struct trust *t, const struct peer_record *r)
{
    bool by_token = str_starts(str_from(r->actor.id), STR("tok_"));

    return account_of(t->control, r->owner, by_token ? tokens_family(t->tokens, r->actor.id) : "");
}

/* Checks the session quota of the owner and the token family. */
static int check_peer_quota(struct trust *t, const struct peer_record *r, struct err *e)
{
    struct account a = peer_account(t, r);
    size_t n = 0, related = 0;

    LIST_EACH (struct peer, other, &t->peers, link_) {
        struct account b = peer_account(t, &other->record);
        bool owned = account_is(&a, &b);

        n += owned;
        related += owned && a.part.n && str_eq(a.part, b.part);
    }
    if (t->n_peers >= PEERS_MAX || n >= PEERS_PER_OWNER_MAX)
        return err_set(e, ERR_QUOTA, "too many peers (limit: %d in total, %d per owner)", PEERS_MAX,
                       PEERS_PER_OWNER_MAX);
    if (related >= quota_token_part(PEERS_PER_OWNER_MAX))
        return err_set(e, ERR_QUOTA,
                       "this token's family has %zu peers (a token's part: seven eighths of the %d "
                       "that one owner may have): end some",
                       related, PEERS_PER_OWNER_MAX);
    return 0;
}

/* Computes the lookup hash. Inputs other than tokens contain a NUL, so that they cannot collide
 * with a token. */
static int make_peer_hash(struct peer_op *op, unsigned char ret[static CRYPTO_SHA256_SIZE],
                          struct err *e)
{
    struct buf text AUTO(buf_done) = BUF_INIT(KEY_MAX);
    int r;

    if (op->way == PEER_BY_SESSION) {
        memset(ret, 0, CRYPTO_SHA256_SIZE);
        return 0;
    }
    if (op->way == PEER_BY_TOKEN) {
        r = crypto_random_text("sbp_", CRYPTO_BASE32, op->token, e);
        if (r >= 0)
            crypto_sha256(str_from(op->token), ret);
        return r;
    }
    buf_addf(&text, "%s%c%s%c%d%c", op->caller->owner, 0, op->caller->actor.id, 0, (int)op->role,
             0);
    if (op->way == PEER_BY_SECRET && buf_add(&text, op->secret) < 0)
        return err_set(e, ERR_TOO_BIG, "the session's secret has more than %zu bytes", text.max);
    crypto_sha256(buf_str(&text), ret);
    return 0;
}

static int prepare_peer_record(struct trust *t, struct peer_op *op, struct peer_record *r,
                               struct err *e)
{
    int err;

    *r = (struct peer_record){
        .actor = op->caller->actor,
        .uid = op->uid,
        .role = op->role,
        .created_ns = clock_wall(),
        .labels = op->caller->labels,
    };
    r->seen_ns = r->created_ns;
    snprintf(r->owner, sizeof r->owner, "%s", op->caller->owner);
    log_printable(str_from(op->client ? op->client : ""), r->client, sizeof r->client);
    err = make_peer_hash(op, r->hash, e);
    if (err < 0)
        return err;
    op->peer = op->way == PEER_BY_SESSION ? NULL : find_peer_by_hash(t, r->hash);
    if (op->peer)
        return 0;
    err = check_peer_quota(t, r, e);
    if (err >= 0)
        err = event_share_check(t->control, r->owner, &r->actor, e);
    return err < 0 ? err : id_make("peer_", r->id, e);
}

void peers_register(struct trust *t, struct peer_op *op)
{
    struct peer_record r;

    op->peer = NULL;
    op->trust_ = t;
    list_append(&t->peer_ops, &op->link_);
    op->r_ = prepare_peer_record(t, op, &r, &op->err_);
    if (op->peer)
        peer_seen(peer_ref(op->peer)); /* the client returned */
    if (op->r_ < 0 || op->peer) {
        (void)loop_later(t->loop, &op->later_, on_peer_op_later, NULL);
        return;
    }
    op->peer = peer_ref(add_session_peer(t, &r));
    op->peer->expires_ns_ = op->caller->expires_ns;
    write_peer(t, "peer.registered", &r, &r.actor, role_names[r.role], on_peer_stored, op);
}

/* --- opening and closing --- */

/* Loads the expiry of the peer's token. False: the token is no longer valid. */
static bool load_token_expiry(struct peer *p)
{
    struct str id = str_from(p->record.actor.id);
    const struct token_record *k;

    if (!p->trust->tokens || !str_starts(id, STR("tok_")))
        return true;
    k = tokens_by_id(p->trust->tokens, id);
    if (k)
        p->expires_ns_ = k->expires_ns;
    return k;
}

/* Restores a peer of an earlier daemon run. */
static int restore_peer(struct trust *t, const struct peer_record *record, struct err *e)
{
    static const unsigned char none[CRYPTO_SHA256_SIZE];
    const struct actor daemon = ACTOR_DAEMON;
    struct peer *p = add_session_peer(t, record);
    int r = uses_load(t, record, p, e);

    p->seen_mono_ = clock_mono(); /* silence while the daemon was down does not count */
    if (r < 0)
        return r;
    if (p->record.ended_ns)
        release_start(p);
    else if (memcmp(record->hash, none, sizeof none) == 0) /* its client cannot return */
        peer_end(p, &daemon, "its session ended with the daemon", NULL, NULL);
    else if (!load_token_expiry(p))
        peer_end(p, &daemon, "its token no longer exists", NULL, NULL);
    else
        arm_watchdog(p);
    return 0;
}

struct token_load {
    struct trust *trust;
    struct err *e;
    int r;
};

static void on_load_token(void *user, const struct token_record *k)
{
    struct token_load *l = user;

    if (l->r >= 0)
        l->r = uses_load_token(l->trust, k->id, k->owner, l->e);
}

int peers_open(struct trust *t, struct err *e)
{
    struct store_query q = { .kind = STORE_PEERS };
    struct token_load l = { t, e, 0 };
    int r;

    arena_init(&q.arena, PTRDIFF_MAX); /* no limit: every peer must be restored */
    r = store_ask_now(t->store, &q, e);
    for (size_t i = 0; r >= 0 && i < q.n; i++)
        r = released_before(&q.peers[i]) ? uses_keep(t, &q.peers[i], e)
                                         : restore_peer(t, &q.peers[i], e);
    arena_done(&q.arena);
    if (r >= 0 && t->tokens)
        tokens_each(t->tokens, on_load_token, &l);
    return r < 0 ? r : l.r;
}

void peers_detach_ops(struct trust *t)
{
    for (struct link *m; (m = list_take(&t->peer_ops));) {
        struct peer_op *op = container_of(m, struct peer_op, link_);

        loop_later_stop(&op->later_);
        op->trust_ = NULL;
    }
    for (struct link *m; (m = list_take(&t->endings));)
        container_of(m, struct peer_ending, link)->done = NULL;
}

void peers_close(struct trust *t)
{
    for (struct link *m; (m = list_first(&t->token_peers));)
        forget_peer(container_of(m, struct peer, link_));
    for (struct link *m; (m = list_first(&t->peers));)
        peer_drop(container_of(m, struct peer, link_));
    map_done(&t->peer_ids);
    map_done(&t->peer_tokens);
    identities_close(t);
    uses_close(t);
}
