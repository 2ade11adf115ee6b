/* SPDX-License-Identifier: Apache-2.0 */
#include "control/owner/tokens.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/owner/event_share.h"
#include "control/owner/owner_share.h"
#include "control/plane/plane.h"
#include "domain/model/event.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "lib/crypto/random.h"

enum {
    LABELS_MAX = (64 << 10) + TOKEN_NETWORK_MAX,
    DETAIL_MAX = 4 << 10,
    ENDED_MAX = 1000,     /* ended tokens that are kept in memory */
    EXPIRY_CHECK_S = 600, /* the wall clock may be set, so it is checked this often */
};

struct stored_token {
    struct tokens *tokens;
    struct token_record record;
    struct arena arena; /* its labels */
    bool ended;         /* its revocation is on disk */
    bool notified;      /* watchers were notified of its end */
    struct link link;
    struct link ended_link;
    struct map_entry entry;  /* by id … */
    struct map_entry hashed; /* … and by the digits of its hash */
    char hash[CRYPTO_SHA256_HEX];
    struct quota_hold owned; /* from the request until its end */
    struct loop_timer expiry;
    struct list made; /* struct stored_token: made with this one; also those being stored */
    struct link of_maker;
};

/* One of the tokens that a revocation ends. */
struct token_ending {
    char id[ID_MAX];
    struct event_record event;
    struct buf detail;
};

struct tokens {
    struct control *control;
    struct list all;
    struct list ended; /* struct stored_token: the earliest end first */
    size_t n_ended;
    struct list ops; /* struct token_op: under way */
    struct list watchers;
    struct map ids, hashes;
    struct quota owned; /* by owner */
};

/* --- the table --- */

static struct stored_token *stored_token_new(struct tokens *t, const struct token_record *r,
                                             struct err *e)
{
    struct stored_token *k = new0(sizeof *k);

    arena_init(&k->arena, LABELS_MAX);
    k->tokens = t;
    k->record = *r;
    if (!json_map_copy(&k->record.labels, &k->arena)) {
        arena_done(&k->arena);
        free(k);
        (void)err_set(e, ERR_TOO_BIG, "labels: more than %d bytes", LABELS_MAX);
        return NULL;
    }
    k->record.terms.network.p = arena_dup(&k->arena, r->terms.network);
    if (!k->record.terms.network.p)
        abort(); /* its length was checked */
    k->ended = r->revoked_ns;
    return k;
}

static void stored_token_free(struct stored_token *k)
{
    if (!k)
        return;
    loop_timer_stop(&k->expiry);
    link_leave(&k->of_maker);
    while (list_take(&k->made))
        ;
    quota_drop(&k->owned);
    arena_done(&k->arena);
    free(k);
}

static bool is_token_valid(const struct token_record *r)
{
    return !r->revoked_ns && (!r->expires_ns || clock_wall() < r->expires_ns);
}

static struct stored_token *find_token_id(struct tokens *t, struct str id)
{
    struct map_entry *v = map_find(&t->ids, id);

    return v ? container_of(v, struct stored_token, entry) : NULL;
}

/* Releases its quota, and notifies watchers of its end. */
static void end_stored_token(struct stored_token *k)
{
    struct tokens *t = k->tokens;

    k->notified = true;
    quota_drop(&k->owned);
    list_append(&t->ended, &k->ended_link);
    t->n_ended++;
    LIST_EACH_SAFE (struct token_watcher, w, &t->watchers, link_)
        w->ended(w, &k->record);
    if (t->n_ended <= ENDED_MAX)
        return;
    k = container_of(list_take(&t->ended), struct stored_token, ended_link);
    t->n_ended--;
    link_leave(&k->link);
    map_remove(&t->ids, &k->entry);
    map_remove(&t->hashes, &k->hashed);
    stored_token_free(k);
}

static void on_token_due(struct loop_timer *x);

static void schedule_expiry(struct stored_token *k)
{
    int64_t left = k->record.expires_ns - clock_wall();

    if (is_token_valid(&k->record) && !k->record.expires_ns)
        return;
    if (!is_token_valid(&k->record))
        left = 0;
    if (left > EXPIRY_CHECK_S * NS_PER_S)
        left = EXPIRY_CHECK_S * NS_PER_S;
    loop_timer_stop(&k->expiry);
    (void)loop_timer_start(k->tokens->control->loop, &k->expiry, clock_mono() + left, on_token_due,
                           NULL);
}

static void on_token_due(struct loop_timer *x)
{
    struct stored_token *k = container_of(x, struct stored_token, expiry);

    if (is_token_valid(&k->record))
        schedule_expiry(k);
    else if (!k->notified)
        end_stored_token(k);
}

static void add_stored_token(struct tokens *t, struct stored_token *k)
{
    list_append(&t->all, &k->link);
    k->entry.id = k->record.id;
    map_add(&t->ids, &k->entry);
    crypto_hex_sha256(k->record.hash, k->hash);
    k->hashed.id = k->hash;
    map_add(&t->hashes, &k->hashed);
    schedule_expiry(k);
}

/* A token that a user made is not charged to a family's part: a user can make as many as the owner
 * may have. */
static struct account find_token_account(const struct tokens *t, const struct stored_token *k)
{
    const struct token_record *r = &k->record;

    return account_of(t->control, r->owner, r->maker[0] ? r->family : "");
}

/* Charged before it is stored, so that concurrent requests stay within the limit. */
static int take_token_quota(struct tokens *t, struct stored_token *k, struct err *e)
{
    const struct account a = find_token_account(t, k);
    const struct quota_who who = account_holder(&a);
    int r = quota_take(&t->owned, &who, 1, &k->owned, e);

    if (r == -ERR_QUOTA && quota_part_refuses(&t->owned, &who, 1))
        return err_set(
            e, ERR_QUOTA,
            "this token's family has made %llu tokens, a token's part (seven eighths) of "
            "the %d that one owner may have: revoke some",
            (unsigned long long)quota_used(&t->owned, who.parts[0]), TOKENS_PER_OWNER);
    if (r == -ERR_QUOTA)
        return err_set(e, ERR_QUOTA, "%s has %d tokens, as many as one owner may have: revoke some",
                       a.name, TOKENS_PER_OWNER);
    if (r < 0)
        return err_set(e, ERR_QUOTA, "there are %llu tokens of all owners: revoke some first",
                       (unsigned long long)t->owned.used);
    return 0;
}

void tokens_watch(struct tokens *t, struct token_watcher *w)
{
    list_append(&t->watchers, &w->link_);
}

void token_watcher_stop(struct token_watcher *w)
{
    link_leave(&w->link_);
}

static const struct token_record *show_if_valid(const struct stored_token *k)
{
    return k && is_token_valid(&k->record) ? &k->record : NULL;
}

const struct token_record *tokens_find(struct tokens *t, struct str secret)
{
    unsigned char hash[CRYPTO_SHA256_SIZE];
    char digits[CRYPTO_SHA256_HEX];
    struct map_entry *v;

    crypto_sha256(secret, hash);
    crypto_hex_sha256(hash, digits);
    v = map_find(&t->hashes, str_from(digits)); /* a hash cannot be chosen */
    return v ? show_if_valid(container_of(v, struct stored_token, hashed)) : NULL;
}

const char *tokens_family(struct tokens *t, const char *id)
{
    const struct stored_token *k = t ? find_token_id(t, str_from(id)) : NULL;

    return k ? k->record.family : id;
}

const struct token_record *tokens_by_id(struct tokens *t, struct str id)
{
    return show_if_valid(find_token_id(t, id));
}

void tokens_each(struct tokens *t, void (*each)(void *user, const struct token_record *r),
                 void *user)
{
    LIST_EACH (const struct stored_token, k, &t->all, link)
        if (!k->record.revoked_ns)
            each(user, &k->record);
}

/* --- opening and closing --- */

/* A token must be loaded after its maker, whose end it shares, regardless of their creation
 * times. */
struct token_descent {
    const struct token_record *record;
    size_t depth; /* 1: its maker is not in the list; 0: not computed yet */
};

static int compare_token_ids(const void *a, const void *b)
{
    const struct token_descent *x = a, *y = b;

    return strcmp(x->record->id, y->record->id);
}

static int compare_descent(const void *a, const void *b)
{
    const struct token_descent *x = a, *y = b;
    int64_t older = x->record->created_ns, newer = y->record->created_ns;

    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return (older > newer) - (older < newer);
}

static struct token_descent *find_maker(struct token_descent *all, size_t n,
                                        const struct token_descent *d)
{
    struct token_record key = { 0 };

    memcpy(key.id, d->record->maker, sizeof key.id);
    return key.id[0] ? bsearch(&(struct token_descent){ .record = &key }, all, n, sizeof *all,
                               compare_token_ids)
                     : NULL;
}

/* Computes the depth of d and of all makers above it; each is visited once. */
static void compute_depth(struct token_descent *all, size_t n, struct token_descent *d)
{
    struct token_descent *at = d, *up;
    size_t steps = 0;

    while (!at->depth && steps < n && (up = find_maker(all, n, at))) {
        at = up;
        steps++;
    }
    if (!at->depth)
        at->depth = 1;
    for (size_t depth = at->depth + steps; steps; steps--, d = find_maker(all, n, d))
        d->depth = depth--;
}

static void set_token_family(struct token_record *r, const struct stored_token *maker)
{
    memcpy(r->family, maker ? maker->record.family : r->id, sizeof r->family);
}

static void load_token_row(struct tokens *t, const struct token_record *r)
{
    struct stored_token *k = stored_token_new(t, r, NULL), *maker;
    struct quota_who who;
    struct account a;

    if (!k) { /* longer than the limit */
        LOG(WARN, "token.ignored", LOG_S("token", r->id));
        return;
    }
    maker = r->maker[0] ? find_token_id(t, str_from(r->maker)) : NULL;
    set_token_family(&k->record, maker);
    a = find_token_account(t, k);
    who = account_holder(&a);
    if (is_token_valid(&k->record))
        quota_charge(&t->owned, &who, 1, &k->owned);
    if (maker)
        list_append(&maker->made, &k->of_maker);
    add_stored_token(t, k);
}

/* No limit: limits refuse new tokens, and never prevent a start. */
static int load_token_rows(struct tokens *t, enum store_query_kind kind, int limit, struct err *e)
{
    struct store_query q = { .kind = kind, .limit = limit, .time_ns = clock_wall() };
    struct token_descent *all;
    size_t n;
    int r;

    arena_init(&q.arena, PTRDIFF_MAX);
    r = store_ask_now(t->control->store, &q, e);
    n = r < 0 ? 0 : q.n;
    all = new0_array(n + 1, sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i].record = &q.tokens[i];
    qsort(all, n, sizeof *all, compare_token_ids);
    for (size_t i = 0; i < n; i++)
        compute_depth(all, n, &all[i]);
    qsort(all, n, sizeof *all, compare_descent);
    for (size_t i = 0; i < n; i++)
        load_token_row(t, all[i].record);
    free(all);
    arena_done(&q.arena);
    return r;
}

int tokens_open(struct control *c, struct tokens **ret, struct err *e)
{
    struct tokens *t = new0(sizeof *t);
    int r;

    t->control = c;
    quota_init(
        &t->owned,
        &(struct quota_limits){ .total = TOKENS_MAX,
                                .reserve = TOKENS_MAX / QUOTA_RESERVE_PART,
                                .share = TOKENS_PER_OWNER,
                                .parts = { { .limit = quota_token_part(TOKENS_PER_OWNER) } } },
        "tokens", "a fixed limit", "a fixed limit");
    r = load_token_rows(t, STORE_TOKENS, 0, e);
    r = r < 0 ? r : load_token_rows(t, STORE_TOKENS_REVOKED, ENDED_MAX / 2, e);
    r = r < 0 ? r : load_token_rows(t, STORE_TOKENS_EXPIRED, ENDED_MAX / 2, e);
    if (r < 0) {
        tokens_close(t);
        return r;
    }
    c->tokens = t;
    *ret = t;
    return 0;
}

void tokens_close(struct tokens *t)
{
    if (!t)
        return;
    if (t->control->tokens == t)
        t->control->tokens = NULL;
    for (struct link *m; (m = list_take(&t->ops));) {
        struct token_op *op = container_of(m, struct token_op, link_);

        loop_later_stop(&op->later_);
        if (op->txn_.store)
            t->control->changes--;
        stored_token_free(take_ptr(op->token_));
        op->tokens_ = NULL;
    }
    for (struct link *m; (m = list_take(&t->all));) {
        struct stored_token *k = container_of(m, struct stored_token, link);

        link_leave(&k->ended_link);
        stored_token_free(k);
    }
    while (list_take(&t->watchers))
        ;
    map_done(&t->ids);
    map_done(&t->hashes);
    quota_done(&t->owned);
    free(t);
}

/* --- operations --- */

static void begin_token_op(struct tokens *t, struct token_op *op)
{
    op->tokens_ = t;
    op->token_ = NULL;
    op->ends_ = NULL;
    op->n_ends_ = 0;
    op->txn_ = (struct store_txn){ 0 };
    op->later_ = (struct loop_later){ 0 };
    op->link_ = (struct link){ 0 };
    buf_init(&op->detail_, DETAIL_MAX);
    list_append(&t->ops, &op->link_);
}

static void finish_token_op(struct token_op *op, int r, const struct err *e)
{
    link_leave(&op->link_);
    op->tokens_ = NULL;
    op->done(op, r, e);
}

static void on_token_refused(struct loop_later *l)
{
    struct token_op *op = container_of(l, struct token_op, later_);

    finish_token_op(op, op->r_, &op->err_);
}

/* For results that do not need the store. */
static void finish_token_op_later(struct token_op *op, int r, const struct err *e)
{
    op->r_ = r;
    if (e)
        op->err_ = *e;
    (void)loop_later(op->tokens_->control->loop, &op->later_, on_token_refused, NULL);
}

/* with: the token whose revocation ended this one; NULL: none. */
static void fill_token_event(struct event_record *v, struct buf *detail, const struct actor *who,
                             const char *type, const struct token_record *k, const char *with)
{
    struct json_writer w;

    buf_init(detail, DETAIL_MAX);
    json_writer_init(&w, detail, JSON_COMPACT);
    json_begin_object(&w);
    json_field_cstr(&w, "token", k->id);
    json_field_text(&w, "name", k->name);
    json_field_optional(&w, "with", with);
    json_end_object(&w);
    (void)json_writer_finish(&w, NULL); /* all members are short */
    event_fill(v, who, k->owner, type, "");
    v->detail = buf_str(detail);
}

static void begin_token_txn(struct token_op *op)
{
    struct control *c = op->tokens_->control;

    c->changes++;
    store_txn_begin(&op->txn_, c->store);
}

/* --- creating --- */

static void on_token_stored(struct store_txn *x, int r, const struct err *e)
{
    struct token_op *op = container_of(x, struct token_op, txn_);
    struct tokens *t = op->tokens_;
    struct stored_token *k = take_ptr(op->token_);
    struct err why;
    bool ended;

    if (!t) { /* tokens_close() freed the token */
        buf_done(&op->detail_);
        return;
    }
    ended = k->record.revoked_ns; /* revoked with its maker meanwhile */
    t->control->changes--;
    if (r >= 0)
        control_publish_first(t->control, x, &op->event_);
    buf_done(&op->detail_);
    if (r < 0)
        stored_token_free(k);
    else
        add_stored_token(t, k);
    if (r >= 0 && ended) {
        r = err_set(&why, ERR_DENIED, "the requesting token has expired or was revoked");
        e = &why;
    }
    finish_token_op(op, r, e);
}

static bool is_generation_full(struct tokens *t, const struct stored_token *maker)
{
    int n = 0;

    for (const struct stored_token *k = maker; k && n < TOKEN_GENERATIONS_MAX; n++)
        k = k->record.maker[0] ? find_token_id(t, str_from(k->record.maker)) : NULL;
    return n == TOKEN_GENERATIONS_MAX;
}

/* A token expires no later than its maker, and is revoked with it. */
static int check_token_maker(struct tokens *t, struct token_op *op, struct stored_token **ret,
                             struct err *e)
{
    struct token_record *r = &op->record;
    struct stored_token *maker = r->maker[0] ? find_token_id(t, str_from(r->maker)) : NULL;

    *ret = maker;
    if (!r->maker[0])
        return 0;
    if (!maker || !is_token_valid(&maker->record))
        return err_set(e, ERR_DENIED, "the requesting token has expired or was revoked");
    if (is_generation_full(t, maker))
        return err_set(e, ERR_QUOTA,
                       "token %s is %d generations away from the user who made the first, the "
                       "maximum: make this token with an earlier one",
                       maker->record.id, TOKEN_GENERATIONS_MAX);
    if (maker->record.expires_ns && (!r->expires_ns || r->expires_ns > maker->record.expires_ns))
        r->expires_ns = maker->record.expires_ns;
    return 0;
}

static int prepare_token(struct tokens *t, const struct actor *by, struct token_op *op,
                         struct err *e)
{
    struct stored_token *maker;
    int r = check_token_maker(t, op, &maker, e);

    r = r < 0 ? r : event_share_check(t->control, op->record.owner, by, e);
    r = r < 0 ? r : id_make("tok_", op->record.id, e);
    if (r >= 0)
        /* E2B's clients accept only hexadecimal keys. */
        r = crypto_random_text(op->e2b ? "e2b_" : "sbt_", op->e2b ? CRYPTO_HEX : CRYPTO_BASE32,
                               op->secret, e);
    if (r < 0)
        return r;
    crypto_sha256(str_from(op->secret), op->record.hash);
    set_token_family(&op->record, maker);
    op->record.created_ns = clock_wall();
    op->record.revoked_ns = 0;
    op->token_ = stored_token_new(t, &op->record, e);
    if (!op->token_)
        return -(int)ERR_TOO_BIG;
    r = take_token_quota(t, op->token_, e);
    if (r < 0)
        stored_token_free(take_ptr(op->token_));
    else if (maker)
        list_append(&maker->made, &op->token_->of_maker);
    return r;
}

void tokens_create(struct tokens *t, const struct actor *who, struct token_op *op)
{
    struct err e;
    int r;

    begin_token_op(t, op);
    r = prepare_token(t, who, op, &e);
    if (r < 0) {
        finish_token_op_later(op, r, &e);
        return;
    }
    begin_token_txn(op);
    store_put_token(&op->txn_, &op->record);
    fill_token_event(&op->event_, &op->detail_, who, "token.created", &op->record, NULL);
    store_add_event(&op->txn_, &op->event_);
    store_commit(&op->txn_, on_token_stored);
}

/* --- revoking --- */

static void free_token_endings(struct token_op *op)
{
    for (size_t i = 0; i < op->n_ends_; i++)
        buf_done(&op->ends_[i].detail);
    free(take_ptr(op->ends_));
    op->n_ends_ = 0;
}

static void on_revocation_stored(struct store_txn *x, int r, const struct err *e)
{
    struct token_op *op = container_of(x, struct token_op, txn_);
    struct tokens *t = op->tokens_;

    if (!t) {
        free_token_endings(op);
        return;
    }
    t->control->changes--;
    for (size_t i = 0; r >= 0 && i < op->n_ends_; i++) {
        struct stored_token *k = find_token_id(t, str_from(op->ends_[i].id));

        if (k) /* if this fails, the tokens stay unusable in memory, and the caller must retry */
            k->ended = true;
        op->ends_[i].event.seq = op->txn_.first_seq + (int64_t)i;
        control_publish(t->control, &op->ends_[i].event);
    }
    free_token_endings(op);
    finish_token_op(op, r, e);
}

/* The token, and all that were made with it, directly or not; invalid from now on. */
static struct stored_token **collect_made(struct stored_token *first, size_t *ret_n)
{
    size_t n = 1, room = 16;
    struct stored_token **all = new0_array(room, sizeof(struct stored_token *));

    all[0] = first;
    for (size_t i = 0; i < n; i++) {
        if (!all[i]->record.revoked_ns)
            all[i]->record.revoked_ns = clock_wall();
        if (link_joined(&all[i]->link)) /* else it is not on disk yet */
            schedule_expiry(all[i]);
        LIST_EACH (struct stored_token, k, &all[i]->made, of_maker) {
            if (k->ended)
                continue;
            if (n == room) {
                room *= 2;
                all = reallocarray(all, room, sizeof(struct stored_token *));
                if (!all)
                    abort();
            }
            all[n++] = k;
        }
    }
    *ret_n = n;
    return all;
}

static void revoke_all(struct token_op *op, struct stored_token *first, const struct actor *who)
{
    size_t n;
    struct stored_token **all = collect_made(first, &n);

    op->ends_ = new0_array(n, sizeof *op->ends_);
    op->n_ends_ = n;
    begin_token_txn(op);
    for (size_t i = 0; i < n; i++) {
        struct token_ending *x = &op->ends_[i];
        const struct token_record *r = &all[i]->record;

        memcpy(x->id, r->id, sizeof x->id);
        fill_token_event(&x->event, &x->detail, who, "token.revoked", r,
                         i ? first->record.id : NULL);
        store_end_token(&op->txn_, r->id, r->revoked_ns);
        store_add_event(&op->txn_, &x->event);
    }
    free(all);
    store_commit(&op->txn_, on_revocation_stored);
}

void tokens_revoke(struct tokens *t, const struct caller *who, struct token_op *op)
{
    struct stored_token *k = find_token_id(t, str_from(op->record.id));
    struct err e;

    begin_token_op(t, op);
    if (!k || !caller_sees(who, k->record.owner, &k->record.labels)) {
        finish_token_op_later(op, err_set(&e, ERR_NOT_FOUND, "there is no token %s", op->record.id),
                              &e);
        return;
    }
    if (k->ended) {
        op->record = k->record;
        finish_token_op_later(op, 0, NULL);
        return;
    }
    revoke_all(op, k, &who->actor);
    op->record = k->record;
}
