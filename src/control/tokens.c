#include "control/tokens.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/plane.h"
#include "crypto/hash.h"
#include "crypto/random.h"
#include "crypto/secret.h"

enum {
    BUCKETS = 4096,
    LABELS_MAX = 64 << 10,
    DETAIL_MAX = 4 << 10,
};

struct token {
    struct token_record record;
    struct arena arena; /* its labels */
    struct token *next; /* in its bucket */
    bool ended;         /* its revocation is on disk */
    struct link link;
};

struct tokens {
    struct control *control;
    struct list all;
    struct list ops; /* struct token_op: under way */
    size_t n;
    struct token *buckets[BUCKETS];
};

/* --- the table --- */

static struct token **bucket(struct tokens *t, const unsigned char *hash)
{
    return &t->buckets[(hash[0] | (unsigned)hash[1] << 8) % BUCKETS];
}

static struct token *token_new(const struct token_record *r, struct err *e)
{
    struct token *k = calloc(1, sizeof *k);
    struct json_pair *labels;

    if (!k)
        abort();
    arena_init(&k->arena, LABELS_MAX);
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
    k->ended = r->revoked_ns;
    return k;
}

static void token_free(struct token *k)
{
    if (!k)
        return;
    arena_done(&k->arena);
    free(k);
}

static void add(struct tokens *t, struct token *k)
{
    struct token **at = bucket(t, k->record.hash);

    k->next = *at;
    *at = k;
    list_append(&t->all, &k->link);
    t->n++;
}

static void forget(struct tokens *t, struct token *k)
{
    struct token **at = bucket(t, k->record.hash);

    while (*at != k)
        at = &(*at)->next;
    *at = k->next;
    link_leave(&k->link);
    t->n--;
    token_free(k);
}

static bool is_good(const struct token_record *r)
{
    return !r->revoked_ns && (!r->expires_ns || clock_wall() < r->expires_ns);
}

/* Room for one more, if need be by forgetting the oldest that is good for nothing. */
static bool make_room(struct tokens *t)
{
    struct link *m = list_first(&t->all);

    if (t->n < TOKENS_MAX)
        return true;
    for (; m; m = list_after(&t->all, m)) {
        struct token *k = container_of(m, struct token, link);

        if (!is_good(&k->record)) {
            forget(t, k);
            return true;
        }
    }
    return false;
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

static struct token *find_id(struct tokens *t, const char *id, const char *owner)
{
    for (struct link *m = list_first(&t->all); m; m = list_after(&t->all, m)) {
        struct token *k = container_of(m, struct token, link);

        if (strcmp(k->record.id, id) == 0)
            return !owner[0] || strcmp(k->record.owner, owner) == 0 ? k : NULL;
    }
    return NULL;
}

const struct token_record *tokens_by_id(struct tokens *t, struct str id)
{
    char text[ID_MAX];
    const struct token *k = str_copy(id, text, sizeof text) ? find_id(t, text, "") : NULL;

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

static int by_age(const void *a, const void *b)
{
    const struct token_record *x = a, *y = b;

    return (x->created_ns > y->created_ns) - (x->created_ns < y->created_ns);
}

int tokens_open(struct control *c, struct tokens **ret, struct err *e)
{
    struct store_query q = { .kind = STORE_TOKENS };
    struct tokens *t = calloc(1, sizeof *t);
    int r;

    if (!t)
        abort();
    t->control = c;
    arena_init(&q.arena, (size_t)1 << 30);
    r = store_ask_now(control_store(c), &q, e);
    if (r >= 0 && q.n)
        qsort(q.tokens, q.n, sizeof *q.tokens, by_age);
    for (size_t i = 0; r >= 0 && i < q.n; i++) {
        struct token *k = make_room(t) ? token_new(&q.tokens[i], e) : NULL;

        if (k)
            add(t, k);
        else
            r = err_set(e, ERR_TOO_BIG, "the store has more than %d tokens", TOKENS_MAX);
    }
    arena_done(&q.arena);
    if (r < 0) {
        tokens_close(t);
        return r;
    }
    *ret = t;
    return 0;
}

void tokens_close(struct tokens *t)
{
    if (!t)
        return;
    for (struct link *m; (m = list_take(&t->ops));) {
        struct token_op *op = container_of(m, struct token_op, link_);

        loop_later_stop(&op->later_);
        if (op->txn_.store)
            t->control->changes--;
        token_free(take_ptr(op->token_));
        op->tokens_ = NULL;
    }
    for (struct link *m; (m = list_take(&t->all));)
        token_free(container_of(m, struct token, link));
    free(t);
}

/* --- changing --- */

static void begin(struct tokens *t, struct token_op *op)
{
    op->tokens_ = t;
    op->token_ = NULL;
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

static void write_detail(struct token_op *op, const struct token_record *k)
{
    struct json_writer w;

    json_writer_init(&w, &op->detail_, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("token"));
    json_put_str(&w, str_from(k->id));
    json_key(&w, STR("name"));
    json_put_lossy(&w, str_from(k->name));
    json_end_object(&w);
    (void)json_writer_finish(&w, NULL); /* both are short */
}

/* The token and its event, in one transaction. */
static void commit(struct token_op *op, const struct actor *who, const char *type,
                   const struct token_record *k, store_done_fn *done)
{
    struct control *c = op->tokens_->control;
    struct event_record *v = &op->event_;

    write_detail(op, k);
    *v = (struct event_record){ .time_ns = clock_wall(),
                                .from = -1,
                                .to = -1,
                                .actor = *who,
                                .detail = buf_str(&op->detail_) };
    snprintf(v->type, sizeof v->type, "%s", type);
    snprintf(v->owner, sizeof v->owner, "%s", k->owner);
    c->changes++;
    store_txn_begin(&op->txn_, c->store);
    store_put_token(&op->txn_, k);
    store_add_event(&op->txn_, v);
    store_commit(&op->txn_, done);
}

/* Tells it; false if the tokens were closed meanwhile. */
static bool committed(struct token_op *op, int r)
{
    struct tokens *t = op->tokens_;

    if (t) {
        t->control->changes--;
        op->event_.seq = op->txn_.first_seq;
        if (r >= 0)
            control_publish(t->control, &op->event_);
    }
    buf_done(&op->detail_);
    return t;
}

static void created(struct store_txn *x, int r, const struct err *e)
{
    struct token_op *op = container_of(x, struct token_op, txn_);
    struct tokens *t = op->tokens_;
    struct token *k = take_ptr(op->token_);

    if (!committed(op, r))
        return;
    if (r < 0)
        token_free(k);
    else
        add(t, k);
    finish(op, r, e);
}

static int prepare(struct tokens *t, struct token_op *op, struct err *e)
{
    int r;

    if (!make_room(t))
        return err_set(e, ERR_TOO_BIG, "there are %d tokens: revoke some first", TOKENS_MAX);
    r = id_make("tok_", op->record.id, e);
    if (r >= 0)
        /* E2B's clients only take hexadecimal ones. */
        r = crypto_random_text(op->e2b ? "e2b_" : "sbt_", op->e2b ? CRYPTO_HEX : CRYPTO_BASE32,
                               op->secret, e);
    if (r < 0)
        return r;
    crypto_sha256(str_from(op->secret), op->record.hash);
    op->record.created_ns = clock_wall();
    op->record.revoked_ns = 0;
    op->token_ = token_new(&op->record, e);
    return op->token_ ? 0 : -(int)ERR_TOO_BIG;
}

void tokens_create(struct tokens *t, const struct actor *who, struct token_op *op)
{
    struct err e;
    int r;

    begin(t, op);
    r = prepare(t, op, &e);
    if (r < 0)
        finish_later(op, r, &e);
    else
        commit(op, who, "token.created", &op->record, created);
}

static void revoked(struct store_txn *x, int r, const struct err *e)
{
    struct token_op *op = container_of(x, struct token_op, txn_);
    struct tokens *t = op->tokens_;
    struct token *k = t ? find_id(t, op->record.id, "") : NULL;

    if (!committed(op, r))
        return;
    if (r >= 0 && k) /* else it stays unusable here, and whoever asked must ask again */
        k->ended = true;
    finish(op, r, e);
}

void tokens_revoke(struct tokens *t, const struct actor *who, struct token_op *op)
{
    struct token *k = find_id(t, op->record.id, op->record.owner);
    struct err e;

    begin(t, op);
    if (!k) {
        finish_later(op, err_set(&e, ERR_NOT_FOUND, "there is no token %s", op->record.id), &e);
        return;
    }
    if (!k->record.revoked_ns)
        k->record.revoked_ns = clock_wall();
    op->record = k->record;
    if (k->ended)
        finish_later(op, 0, NULL);
    else
        commit(op, who, "token.revoked", &op->record, revoked);
}
