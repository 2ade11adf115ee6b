#include "control/tokens.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/event_share.h"
#include "control/owner_share.h"
#include "control/plane.h"
#include "crypto/hash.h"
#include "crypto/random.h"
#include "crypto/secret.h"

enum {
    BUCKETS = 4096,
    LABELS_MAX = (64 << 10) + TOKEN_NETWORK_MAX,
    DETAIL_MAX = 4 << 10,
    OVER_MAX = 1000, /* that have ended, and are still known */
    LOOK_S = 600,    /* the wall clock may be set: it is looked at so often */
};

struct token {
    struct tokens *tokens;
    struct token_record record;
    struct arena arena; /* its labels */
    struct token *next; /* in its bucket */
    bool ended;         /* its revocation is on disk */
    bool over;          /* whoever wants to know was told that it has ended */
    struct link link;
    struct link over_link;
    struct index_entry entry; /* by id */
    struct quota_hold owned;  /* from the moment it is asked for until it is over */
    struct loop_timer expiry;
    struct list made; /* struct token: by this one; also those that are on their way to disk */
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
    struct list over; /* struct token: the earliest first */
    size_t n_over;
    struct list ops; /* struct token_op: under way */
    struct list watchers;
    struct token *buckets[BUCKETS];
    struct index ids;
    struct quota owned; /* by owner */
};

/* --- the table --- */

static struct token **bucket(struct tokens *t, const unsigned char *hash)
{
    return &t->buckets[(hash[0] | (unsigned)hash[1] << 8) % BUCKETS];
}

static struct token *token_new(struct tokens *t, const struct token_record *r, struct err *e)
{
    struct token *k = calloc(1, sizeof *k);
    struct json_pair *labels;

    if (!k)
        abort();
    arena_init(&k->arena, LABELS_MAX);
    k->tokens = t;
    k->record = *r;
    labels = arena_array(&k->arena, r->labels.n + 1, sizeof *labels);
    for (size_t i = 0; labels && i < r->labels.n; i++) {
        labels[i].key = arena_dup(&k->arena, str_from(r->labels.p[i].key));
        labels[i].value = arena_dup(&k->arena, str_from(r->labels.p[i].value));
        if (!labels[i].key || !labels[i].value)
            labels = NULL;
    }
    if (!labels) {
        arena_done(&k->arena);
        free(k);
        (void)err_set(e, ERR_TOO_BIG, "labels: more than %d bytes", LABELS_MAX);
        return NULL;
    }
    k->record.labels.p = labels;
    k->record.terms.network.p = arena_dup(&k->arena, r->terms.network);
    if (!k->record.terms.network.p)
        abort(); /* its length was checked */
    k->ended = r->revoked_ns;
    return k;
}

static void token_free(struct token *k)
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

static bool is_good(const struct token_record *r)
{
    return !r->revoked_ns && (!r->expires_ns || clock_wall() < r->expires_ns);
}

static struct token *find_id(struct tokens *t, struct str id)
{
    struct index_entry *v = index_find(&t->ids, id);

    return v ? container_of(v, struct token, entry) : NULL;
}

static void forget(struct tokens *t, struct token *k)
{
    struct token **at = bucket(t, k->record.hash);

    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    link_leave(&k->link);
    if (k->over) {
        link_leave(&k->over_link);
        t->n_over--;
    }
    index_remove(&t->ids, &k->entry);
    token_free(k);
}

/* It counts no longer, and whoever waits for its end is told. */
static void end_token(struct token *k)
{
    struct tokens *t = k->tokens;
    struct link *next, *earliest;

    k->over = true;
    quota_drop(&k->owned);
    list_append(&t->over, &k->over_link);
    t->n_over++;
    for (struct link *m = list_first(&t->watchers); m; m = next) {
        struct token_watcher *w = container_of(m, struct token_watcher, link_);

        next = list_after(&t->watchers, m);
        w->ended(w, &k->record);
    }
    earliest = list_first(&t->over);
    if (earliest && t->n_over > OVER_MAX)
        forget(t, container_of(earliest, struct token, over_link));
}

static void on_token_due(struct loop_timer *x);

static void watch_expiry(struct token *k)
{
    int64_t left = k->record.expires_ns - clock_wall();

    if (is_good(&k->record) && !k->record.expires_ns)
        return;
    if (!is_good(&k->record))
        left = 0;
    if (left > LOOK_S * NS_PER_S)
        left = LOOK_S * NS_PER_S;
    loop_timer_stop(&k->expiry);
    (void)loop_timer_start(control_loop(k->tokens->control), &k->expiry, clock_mono() + left,
                           on_token_due, NULL);
}

static void on_token_due(struct loop_timer *x)
{
    struct token *k = container_of(x, struct token, expiry);

    if (is_good(&k->record))
        watch_expiry(k);
    else if (!k->over)
        end_token(k);
}

static void add_token(struct tokens *t, struct token *k)
{
    struct token **at = bucket(t, k->record.hash);

    k->next = *at;
    *at = k;
    list_append(&t->all, &k->link);
    k->entry.id = k->record.id;
    index_add(&t->ids, &k->entry);
    watch_expiry(k);
}

/* A token that a user made counts in no family's part: a user can make as many as the owner may
 * have. */
static struct account find_token_account(const struct tokens *t, const struct token *k)
{
    const struct token_record *r = &k->record;

    return account_of(t->control, r->owner, r->maker[0] ? r->family : "");
}

/* Before it is on its way to disk, so that any number of requests at once stay within it. */
static int take_place(struct tokens *t, struct token *k, struct err *e)
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

const struct token_record *tokens_find(struct tokens *t, struct str secret)
{
    unsigned char hash[CRYPTO_SHA256_SIZE];

    crypto_sha256(secret, hash);
    for (struct token *k = *bucket(t, hash); k; k = k->next)
        if (memcmp(k->record.hash, hash, sizeof hash) == 0) /* nobody can choose a hash */
            return is_good(&k->record) ? &k->record : NULL;
    return NULL;
}

const char *tokens_family(struct tokens *t, const char *id)
{
    const struct token *k = t ? find_id(t, str_from(id)) : NULL;

    return k ? k->record.family : id;
}

const struct token_record *tokens_by_id(struct tokens *t, struct str id)
{
    const struct token *k = find_id(t, id);

    return k && is_good(&k->record) ? &k->record : NULL;
}

void tokens_each(struct tokens *t, void (*each)(void *user, const struct token_record *r),
                 void *user)
{
    for (struct link *m = list_first(&t->all); m; m = list_after(&t->all, m)) {
        const struct token *k = container_of(m, struct token, link);

        if (!k->record.revoked_ns)
            each(user, &k->record);
    }
}

/* --- opening and closing --- */

/* A token comes after its maker, which it ends with, whatever the wall clock was when they were
 * made. */
struct descent {
    const struct token_record *record;
    size_t depth; /* 1: its maker is not among these; 0: not known yet */
};

static int by_id(const void *a, const void *b)
{
    const struct descent *x = a, *y = b;

    return strcmp(x->record->id, y->record->id);
}

static int by_descent(const void *a, const void *b)
{
    const struct descent *x = a, *y = b;
    int64_t older = x->record->created_ns, newer = y->record->created_ns;

    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return (older > newer) - (older < newer);
}

static struct descent *find_maker(struct descent *all, size_t n, const struct descent *d)
{
    struct token_record key = { 0 };

    memcpy(key.id, d->record->maker, sizeof key.id);
    return key.id[0] ? bsearch(&(struct descent){ .record = &key }, all, n, sizeof *all, by_id)
                     : NULL;
}

/* Of d and of every maker above it; each is walked over once. */
static void measure_depth(struct descent *all, size_t n, struct descent *d)
{
    struct descent *at = d, *up;
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

/* For the caller to free. */
static struct descent *sort_by_descent(const struct token_record *records, size_t n)
{
    struct descent *all = calloc(n ? n : 1, sizeof *all);

    if (!all)
        abort();
    for (size_t i = 0; i < n; i++)
        all[i].record = &records[i];
    qsort(all, n, sizeof *all, by_id);
    for (size_t i = 0; i < n; i++)
        measure_depth(all, n, &all[i]);
    qsort(all, n, sizeof *all, by_descent);
    return all;
}

static void join_family(struct token_record *r, const struct token *maker)
{
    memcpy(r->family, maker ? maker->record.family : r->id, sizeof r->family);
}

static void load_token(struct tokens *t, const struct token_record *r)
{
    struct token *k = token_new(t, r, NULL), *maker;
    struct quota_who who;
    struct account a;

    if (!k) { /* longer than we store */
        LOG(WARN, "token.ignored", LOG_S("token", r->id));
        return;
    }
    maker = r->maker[0] ? find_id(t, str_from(r->maker)) : NULL;
    join_family(&k->record, maker);
    a = find_token_account(t, k);
    who = account_holder(&a);
    if (is_good(&k->record))
        quota_charge(&t->owned, &who, 1, &k->owned);
    if (maker)
        list_append(&maker->made, &k->of_maker);
    add_token(t, k);
}

/* However many there are: a count refuses new ones, and never keeps a daemon from starting. */
static int load_tokens(struct tokens *t, enum store_query_kind kind, int limit, struct err *e)
{
    struct store_query q = { .kind = kind, .limit = limit, .time_ns = clock_wall() };
    struct descent *all;
    int r;

    arena_init(&q.arena, PTRDIFF_MAX);
    r = store_ask_now(control_store(t->control), &q, e);
    all = r >= 0 ? sort_by_descent(q.tokens, q.n) : NULL;
    for (size_t i = 0; r >= 0 && i < q.n; i++)
        load_token(t, all[i].record);
    free(all);
    arena_done(&q.arena);
    return r;
}

int tokens_open(struct control *c, struct tokens **ret, struct err *e)
{
    struct tokens *t = calloc(1, sizeof *t);
    int r;

    if (!t)
        abort();
    t->control = c;
    quota_init(
        &t->owned,
        &(struct quota_limits){ .total = TOKENS_MAX,
                                .reserve = TOKENS_MAX / QUOTA_RESERVE_PART,
                                .share = TOKENS_PER_OWNER,
                                .parts = { { .limit = quota_token_part(TOKENS_PER_OWNER) } } },
        "tokens", "a fixed limit", "a fixed limit");
    r = load_tokens(t, STORE_TOKENS, 0, e);
    if (r >= 0)
        r = load_tokens(t, STORE_TOKENS_REVOKED, OVER_MAX / 2, e);
    if (r >= 0)
        r = load_tokens(t, STORE_TOKENS_EXPIRED, OVER_MAX / 2, e);
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
        token_free(take_ptr(op->token_));
        op->tokens_ = NULL;
    }
    for (struct link *m; (m = list_take(&t->all));) {
        struct token *k = container_of(m, struct token, link);

        link_leave(&k->over_link);
        token_free(k);
    }
    while (list_take(&t->watchers))
        ;
    index_done(&t->ids);
    quota_done(&t->owned);
    free(t);
}

/* --- changing --- */

static void begin(struct tokens *t, struct token_op *op)
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

static void finish(struct token_op *op, int r, const struct err *e)
{
    link_leave(&op->link_);
    op->tokens_ = NULL;
    op->done(op, r, e);
}

static void refused(struct loop_later *l)
{
    struct token_op *op = container_of(l, struct token_op, later_);

    finish(op, op->r_, &op->err_);
}

/* For what is decided without the store. */
static void finish_later(struct token_op *op, int r, const struct err *e)
{
    op->r_ = r;
    if (e)
        op->err_ = *e;
    (void)loop_later(control_loop(op->tokens_->control), &op->later_, refused, NULL);
}

static void write_detail(struct buf *out, const struct token_record *k, const char *with)
{
    struct json_writer w;

    buf_init(out, DETAIL_MAX);
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("token"));
    json_put_str(&w, str_from(k->id));
    json_key(&w, STR("name"));
    json_put_lossy(&w, str_from(k->name));
    if (with) {
        json_key(&w, STR("with"));
        json_put_str(&w, str_from(with));
    }
    json_end_object(&w);
    (void)json_writer_finish(&w, NULL); /* all are short */
}

/* with: the token that this one ended with; NULL: none. */
static void fill_event(struct event_record *v, struct buf *detail, const struct actor *who,
                       const char *type, const struct token_record *k, const char *with)
{
    write_detail(detail, k, with);
    *v = (struct event_record){
        .time_ns = clock_wall(), .from = -1, .to = -1, .actor = *who, .detail = buf_str(detail)
    };
    snprintf(v->type, sizeof v->type, "%s", type);
    snprintf(v->owner, sizeof v->owner, "%s", k->owner);
}

static void begin_commit(struct token_op *op)
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
    struct token *k = take_ptr(op->token_);
    struct err gone;
    bool ended;

    if (!t) { /* tokens_close() freed the token */
        buf_done(&op->detail_);
        return;
    }
    ended = k->record.revoked_ns; /* with its maker, meanwhile */
    t->control->changes--;
    op->event_.seq = op->txn_.first_seq;
    if (r >= 0)
        control_publish(t->control, &op->event_);
    buf_done(&op->detail_);
    if (r < 0)
        token_free(k);
    else
        add_token(t, k);
    if (r >= 0 && ended) {
        r = err_set(&gone, ERR_DENIED, "the token that asks has ended");
        e = &gone;
    }
    finish(op, r, e);
}

/* It has no more time than the token that makes it, and ends with it. */
static bool is_generation_full(struct tokens *t, const struct token *maker)
{
    int n = 0;

    for (const struct token *k = maker; k && n < TOKEN_GENERATIONS_MAX; n++)
        k = k->record.maker[0] ? find_id(t, str_from(k->record.maker)) : NULL;
    return n == TOKEN_GENERATIONS_MAX;
}

static int take_maker(struct tokens *t, struct token_op *op, struct token **ret, struct err *e)
{
    struct token_record *r = &op->record;
    struct token *maker = r->maker[0] ? find_id(t, str_from(r->maker)) : NULL;

    *ret = maker;
    if (!r->maker[0])
        return 0;
    if (!maker || !is_good(&maker->record))
        return err_set(e, ERR_DENIED, "the token that asks has ended");
    if (is_generation_full(t, maker))
        return err_set(e, ERR_QUOTA,
                       "token %s is %d tokens away from the user who made the first: a token that "
                       "is nearer must make this one",
                       maker->record.id, TOKEN_GENERATIONS_MAX);
    if (maker->record.expires_ns && (!r->expires_ns || r->expires_ns > maker->record.expires_ns))
        r->expires_ns = maker->record.expires_ns;
    return 0;
}

static int prepare(struct tokens *t, const struct actor *by, struct token_op *op, struct err *e)
{
    struct token *maker;
    int r = take_maker(t, op, &maker, e);

    if (r >= 0)
        r = event_share_check(t->control, op->record.owner, by, e);
    if (r >= 0)
        r = id_make("tok_", op->record.id, e);
    if (r >= 0)
        /* E2B's clients only take hexadecimal ones. */
        r = crypto_random_text(op->e2b ? "e2b_" : "sbt_", op->e2b ? CRYPTO_HEX : CRYPTO_BASE32,
                               op->secret, e);
    if (r < 0)
        return r;
    crypto_sha256(str_from(op->secret), op->record.hash);
    join_family(&op->record, maker);
    op->record.created_ns = clock_wall();
    op->record.revoked_ns = 0;
    op->token_ = token_new(t, &op->record, e);
    if (!op->token_)
        return -(int)ERR_TOO_BIG;
    r = take_place(t, op->token_, e);
    if (r < 0)
        token_free(take_ptr(op->token_));
    else if (maker)
        list_append(&maker->made, &op->token_->of_maker);
    return r;
}

void tokens_create(struct tokens *t, const struct actor *who, struct token_op *op)
{
    struct err e;
    int r;

    begin(t, op);
    r = prepare(t, who, op, &e);
    if (r < 0) {
        finish_later(op, r, &e);
        return;
    }
    begin_commit(op);
    store_put_token(&op->txn_, &op->record);
    fill_event(&op->event_, &op->detail_, who, "token.created", &op->record, NULL);
    store_add_event(&op->txn_, &op->event_);
    store_commit(&op->txn_, on_token_stored);
}

/* --- revoking --- */

static void free_ends(struct token_op *op)
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
        free_ends(op);
        return;
    }
    t->control->changes--;
    for (size_t i = 0; r >= 0 && i < op->n_ends_; i++) {
        struct token *k = find_id(t, str_from(op->ends_[i].id));

        if (k) /* else it stays unusable here, and whoever asked must ask again */
            k->ended = true;
        op->ends_[i].event.seq = op->txn_.first_seq + (int64_t)i;
        control_publish(t->control, &op->ends_[i].event);
    }
    free_ends(op);
    finish(op, r, e);
}

/* It, and whatever was made with it, and with those; from now on they are good for nothing. */
static struct token **collect_made(struct token *first, size_t *ret_n)
{
    size_t n = 1, room = 16;
    struct token **all = calloc(room, sizeof(struct token *));

    if (!all)
        abort();
    all[0] = first;
    for (size_t i = 0; i < n; i++) {
        if (!all[i]->record.revoked_ns)
            all[i]->record.revoked_ns = clock_wall();
        if (link_joined(&all[i]->link)) /* else it is not on disk yet */
            watch_expiry(all[i]);
        for (struct link *m = list_first(&all[i]->made); m; m = list_after(&all[i]->made, m)) {
            struct token *k = container_of(m, struct token, of_maker);

            if (k->ended)
                continue;
            if (n == room) {
                room *= 2;
                all = reallocarray(all, room, sizeof(struct token *));
                if (!all)
                    abort();
            }
            all[n++] = k;
        }
    }
    *ret_n = n;
    return all;
}

static void revoke_all(struct token_op *op, struct token *first, const struct actor *who)
{
    size_t n;
    struct token **all = collect_made(first, &n);

    op->ends_ = calloc(n, sizeof *op->ends_);
    if (!op->ends_)
        abort();
    op->n_ends_ = n;
    begin_commit(op);
    for (size_t i = 0; i < n; i++) {
        struct token_ending *x = &op->ends_[i];
        const struct token_record *r = &all[i]->record;

        memcpy(x->id, r->id, sizeof x->id);
        fill_event(&x->event, &x->detail, who, "token.revoked", r, i ? first->record.id : NULL);
        store_end_token(&op->txn_, r->id, r->revoked_ns);
        store_add_event(&op->txn_, &x->event);
    }
    free(all);
    store_commit(&op->txn_, on_revocation_stored);
}

void tokens_revoke(struct tokens *t, const struct caller *who, struct token_op *op)
{
    struct token *k = find_id(t, str_from(op->record.id));
    struct err e;

    begin(t, op);
    if (!k || !caller_sees(who, k->record.owner, &k->record.labels)) {
        finish_later(op, err_set(&e, ERR_NOT_FOUND, "there is no token %s", op->record.id), &e);
        return;
    }
    if (k->ended) {
        op->record = k->record;
        finish_later(op, 0, NULL);
        return;
    }
    revoke_all(op, k, &who->actor);
    op->record = k->record;
}
