/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/ledger.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/random.h"
#include "lib/crypto/secret.h"
#include "lib/json/reader.h"
#include "domain/store/sqlite/internal.h"

#define SETTING_KEY "audit.key"

enum { FIELDS_MAX = 8 << 10, DETAIL_TREE = 4 << 20, DETAIL_BYTES = 1 << 20, CHAIN_COLUMN = 11 };

const char *const ledger_fault_names[LEDGER_FAULTS_] = {
    [LEDGER_CHANGED] = "changed",           [LEDGER_MISSING] = "missing",
    [LEDGER_UNCHAINED] = "unchained",       [LEDGER_CUT_FORGED] = "cut_forged",
    [LEDGER_HEAD_GONE] = "head_missing",    [LEDGER_HEAD_FORGED] = "head_forged",
    [LEDGER_SHORT] = "end_missing",         [LEDGER_UNEXPECTED] = "unexpected",
    [LEDGER_OLDER] = "older_than_expected",
};

static const unsigned char nothing[LEDGER_SIZE];

static struct str ledger_bytes(const void *p, size_t n)
{
    return (struct str){ p, n };
}

/* --- codes --- */

/* The MAC over the kind and the values: numbers and bytes as they are, texts behind their length. */
static void code_values(struct crypto_hmac *mac, struct str kind, const struct db_value *v,
                        size_t size, unsigned char ret[static LEDGER_SIZE])
{
    AUTO(buf_done) struct buf b = BUF_INIT(FIELDS_MAX + size);
    int64_t n = (int64_t)kind.n;

    buf_add(&b, ledger_bytes(&n, sizeof n));
    buf_add(&b, kind);
    for (; v->kind != DB_END; v++) {
        n = v->kind == DB_TEXT ? (int64_t)v->text.n : v->number;
        if (v->kind != DB_BYTES)
            buf_add(&b, ledger_bytes(&n, sizeof n));
        buf_add(&b, v->text);
    }
    crypto_hmac_of(mac, buf_str(&b), ret);
}

static void code_event(struct crypto_hmac *mac, const unsigned char before[static LEDGER_SIZE],
                       int64_t seq, const struct event_record *v,
                       unsigned char ret[static LEDGER_SIZE])
{
    code_values(mac, STR("event"),
                DB_WITH(db_bytes(before, LEDGER_SIZE), db_int(seq), db_int(v->time_ns),
                        db_text(str_from(v->type)), db_text(str_from(v->sandbox)),
                        db_text(str_from(v->owner)), db_int(v->from), db_int(v->to),
                        db_int(v->actor.kind), db_text(str_from(v->actor.id)),
                        db_text(str_from(v->reason)), db_text(v->detail)),
                v->detail.n, ret);
}

static void code_head(struct crypto_hmac *mac, const struct ledger_head *h, int64_t pruned_ns,
                      unsigned char ret[static LEDGER_SIZE])
{
    code_values(mac, STR("head"),
                DB_WITH(db_int(h->first), db_int(h->seq), db_int(pruned_ns),
                        db_bytes(h->digest, LEDGER_SIZE)),
                0, ret);
}

static void code_cut(struct crypto_hmac *mac, const struct ledger_cut *c,
                     unsigned char ret[static LEDGER_SIZE])
{
    code_values(mac, STR("cut"),
                DB_WITH(db_int(c->first), db_int(c->last), db_bytes(c->digest, LEDGER_SIZE)), 0,
                ret);
}

static void code_egress_head(struct crypto_hmac *mac, const struct egress_head_record *h,
                             unsigned char ret[static LEDGER_SIZE])
{
    code_values(mac, STR("egress head"),
                DB_WITH(db_text(str_from(h->sandbox)), db_int((int64_t)h->seq),
                        db_bytes(h->digest, LEDGER_SIZE), db_int((int64_t)h->cut_seq),
                        db_bytes(h->cut_digest, LEDGER_SIZE), db_int(h->time_ns)),
                0, ret);
}

static bool same_code(const void *a, const void *b)
{
    return crypto_equal(ledger_bytes(a, LEDGER_SIZE), ledger_bytes(b, LEDGER_SIZE));
}

/* False, and zeros in ret, if the column has another size. */
static bool column_bytes(sqlite3_stmt *st, int column, unsigned char ret[static LEDGER_SIZE])
{
    const void *p = sqlite3_column_blob(st, column);
    bool good = p && sqlite3_column_bytes(st, column) == LEDGER_SIZE;

    memcpy(ret, good ? p : nothing, LEDGER_SIZE);
    return good;
}

/* --- writing --- */

const struct ledger_head *ledger_chain_event(struct ledger *l, const struct event_record *v)
{
    struct ledger_head *h = &l->at.head;

    if (!l->on)
        return NULL;
    h->seq++;
    code_event(&l->mac, h->digest, h->seq, v, h->digest);
    l->at.moved = true;
    return h;
}

int ledger_skip_inserted(struct ledger *l, struct db *d, struct err *e)
{
    int64_t most = 0;
    int r = db_number(d, "SELECT coalesce(max(seq), 0) FROM events", &most, e);

    if (r >= 0 && l->at.head.seq < most)
        l->at.head.seq = most;
    return r;
}

int ledger_write_head(struct ledger *l, struct db *d, struct err *e)
{
    const struct ledger_head *h = &l->at.head;
    unsigned char code[LEDGER_SIZE];
    int r;

    if (!l->on)
        return 0;
    code_head(&l->mac, h, l->at.pruned_ns, code);
    r = db_run(d, SQL_PUT_LEDGER,
               DB_WITH(db_int(h->first), db_int(h->seq), db_bytes(h->digest, LEDGER_SIZE),
                       db_int(l->at.pruned_ns), db_bytes(code, LEDGER_SIZE)),
               e);
    if (r >= 0)
        l->at.moved = false;
    return r;
}

bool ledger_knows_head(struct crypto_hmac *mac, const struct egress_head_record *h)
{
    unsigned char code[LEDGER_SIZE];

    code_egress_head(mac, h, code);
    return same_code(code, h->mac);
}

/* Keeps the stored cut if h has none, and the stored line if it is later than h's: a truncated log
 * does not lower its stored head. */
static int join_egress_head(struct ledger *l, struct egress_head_record *h, struct db *d,
                            struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(FIELDS_MAX);
    struct egress_head_record old = { 0 };
    sqlite3_stmt *st;
    int r = db_first(d, SQL_EGRESS_HEAD, DB_WITH(db_text(str_from(h->sandbox))), &st, e);

    if (r <= 0)
        return r;
    r = row_read(d, &egress_head_shape, st, &a, &old, NULL);
    db_end(st);
    if (r < 0 || !ledger_knows_head(&l->mac, &old))
        return 0;
    if (!h->cut_seq) {
        h->cut_seq = old.cut_seq;
        memcpy(h->cut_digest, old.cut_digest, LEDGER_SIZE);
    }
    if (h->seq < old.seq) {
        h->seq = old.seq;
        memcpy(h->digest, old.digest, LEDGER_SIZE);
    }
    return 0;
}

int ledger_put_egress_head(struct ledger *l, const struct egress_head_record *h, struct db *d,
                           struct err *e)
{
    struct egress_head_record coded = *h;
    int r;

    if (!l->on)
        return 0;
    r = join_egress_head(l, &coded, d, e);
    if (r < 0)
        return r;
    code_egress_head(&l->mac, &coded, coded.mac);
    return row_write(d, SQL_PUT_EGRESS_HEAD, &egress_head_shape, &coded, NULL, e);
}

/* --- removing --- */

/* 1: found, with a valid MAC. 0: absent. -ERR_DENIED: the MAC is invalid. */
static int find_cut(struct db *d, struct crypto_hmac *mac, enum sql sql, int64_t seq,
                    struct ledger_cut *ret, struct err *e)
{
    unsigned char found[LEDGER_SIZE], code[LEDGER_SIZE];
    sqlite3_stmt *st;
    int r = db_first(d, sql, DB_WITH(db_int(seq)), &st, e);

    if (r <= 0)
        return r;
    ret->first = sqlite3_column_int64(st, 0);
    ret->last = sqlite3_column_int64(st, 1);
    column_bytes(st, 2, ret->digest);
    column_bytes(st, 3, found);
    db_end(st);
    code_cut(mac, ret, code);
    return same_code(code, found)
               ? 1
               : err_set(e, ERR_DENIED, "the retention cut of the events has an invalid MAC");
}

/* Stores the run as a cut, merged with the adjacent cuts. A forged cut remains, for the next
 * verification to find. */
int ledger_note_cut(struct ledger *l, struct ledger_cut *run, struct db *d, struct err *e)
{
    unsigned char code[LEDGER_SIZE];
    struct ledger_cut other;
    int r;

    if (!l->on || !run->last)
        return 0;
    r = find_cut(d, &l->mac, SQL_CUT, run->first - 1, &other, e);
    if (r > 0) {
        run->first = other.first;
        r = db_run(d, SQL_DELETE_CUT, DB_WITH(db_int(other.last)), e);
    }
    if (r >= 0 || r == -ERR_DENIED)
        r = find_cut(d, &l->mac, SQL_CUT_FIRST, run->last + 1, &other, e);
    if (r > 0) {
        run->last = other.last;
        memcpy(run->digest, other.digest, LEDGER_SIZE);
        r = db_run(d, SQL_DELETE_CUT, DB_WITH(db_int(other.last)), e);
    }
    code_cut(&l->mac, run, code);
    if (r >= 0 || r == -ERR_DENIED)
        r = db_run(d, SQL_PUT_CUT,
                   DB_WITH(db_int(run->first), db_int(run->last),
                           db_bytes(run->digest, LEDGER_SIZE), db_bytes(code, LEDGER_SIZE)),
                   e);
    *run = (struct ledger_cut){ 0 };
    return r;
}

int ledger_cut_event(struct ledger *l, struct ledger_cut *run, int64_t seq, sqlite3_stmt *st,
                     int column, struct db *d, struct err *e)
{
    unsigned char digest[LEDGER_SIZE];
    int r = 0;

    if (!l->on)
        return 0;
    column_bytes(st, column, digest);
    if (run->last && run->last != seq - 1)
        r = ledger_note_cut(l, run, d, e);
    if (!run->last)
        run->first = seq;
    run->last = seq;
    memcpy(run->digest, seq < l->at.head.first ? nothing : digest, LEDGER_SIZE);
    return r;
}

/* --- checking --- */

static void note_ledger_fault(struct ledger_walk *w, enum ledger_fault fault, int64_t seq,
                              int64_t to, int64_t time_ns)
{
    size_t i = w->n_findings++;

    if (i < LEDGER_FINDINGS_MAX)
        w->findings[i] = (struct ledger_finding){ fault, seq, to, time_ns };
}

/* Reads the stored head: 1, or 0 if there is none. */
static int find_ledger_head(struct db *d, struct ledger_head *ret, int64_t *ret_pruned_ns,
                            unsigned char ret_mac[static LEDGER_SIZE], struct err *e)
{
    sqlite3_stmt *st;
    int r = db_first(d, SQL_LEDGER, NULL, &st, e);

    if (r <= 0)
        return r;
    ret->first = sqlite3_column_int64(st, 0);
    ret->seq = sqlite3_column_int64(st, 1);
    column_bytes(st, 2, ret->digest);
    *ret_pruned_ns = sqlite3_column_int64(st, 3);
    column_bytes(st, 4, ret_mac);
    db_end(st);
    return 1;
}

/* Reads the head. Reports a missing or forged one in the first step only. */
static int read_ledger_head(struct db *d, struct crypto_hmac *mac, struct ledger_walk *w,
                            struct err *e)
{
    unsigned char found[LEDGER_SIZE], code[LEDGER_SIZE];
    int r;

    w->head = (struct ledger_head){ 0 };
    r = find_ledger_head(d, &w->head, &w->pruned_ns, found, e);
    if (r < 0 || w->began_)
        return r;
    if (r == 0) {
        note_ledger_fault(w, LEDGER_HEAD_GONE, 0, 0, 0);
        return 0;
    }
    code_head(mac, &w->head, w->pruned_ns, code);
    if (!same_code(code, found))
        note_ledger_fault(w, LEDGER_HEAD_FORGED, w->head.seq, w->head.seq, 0);
    return 0;
}

static void check_expected(struct ledger_walk *w, const struct ledger_head *at, int64_t time_ns)
{
    if (!w->expect.seq || w->expect.seq != at->seq)
        return;
    if (same_code(w->expect.digest, at->digest))
        w->expected = true;
    else
        note_ledger_fault(w, LEDGER_UNEXPECTED, at->seq, at->seq, time_ns);
}

/* Checks that a cut accounts for the events between the last one and `seq`; else notes a fault. */
static int pass_gap(struct db *d, struct crypto_hmac *mac, struct ledger_walk *w,
                    enum ledger_fault fault, int64_t seq, int64_t time_ns, struct err *e)
{
    int64_t next = w->last_.seq + 1 > w->head.first ? w->last_.seq + 1 : w->head.first;
    struct ledger_cut cut;
    int r;

    if (seq <= next)
        return 0;
    r = find_cut(d, mac, SQL_CUT, seq - 1, &cut, e);
    if (r == -ERR_DENIED)
        note_ledger_fault(w, LEDGER_CUT_FORGED, next, seq - 1, time_ns);
    if (r < 0)
        return r == -ERR_DENIED ? 0 : r;
    if (r == 0 || cut.first > next)
        note_ledger_fault(w, fault, next, r ? cut.first - 1 : seq - 1, time_ns);
    if (r > 0) {
        w->last_.seq = cut.last;
        memcpy(w->last_.digest, cut.digest, LEDGER_SIZE);
        check_expected(w, &w->last_, 0);
    }
    return 0;
}

static int check_event(struct db *d, struct crypto_hmac *mac, struct ledger_walk *w,
                       sqlite3_stmt *st, const struct event_record *v, struct err *e)
{
    int64_t seq = sqlite3_column_int64(st, 0), time_ns = sqlite3_column_int64(st, 1);
    unsigned char found[LEDGER_SIZE], code[LEDGER_SIZE];
    bool has = column_bytes(st, CHAIN_COLUMN, found);
    int r = pass_gap(d, mac, w, LEDGER_MISSING, seq, time_ns, e);
    bool gap = w->last_.seq != seq - 1 && seq > w->head.first; /* reported already */

    if (r < 0)
        return r;
    if (seq < w->head.first) {
        w->unchained++;
        memcpy(found, nothing, LEDGER_SIZE);
    } else if (!has) {
        note_ledger_fault(w, LEDGER_UNCHAINED, seq, seq, time_ns);
        memcpy(found, w->last_.digest, LEDGER_SIZE); /* the next event may be linked to that */
    } else if (time_ns >= w->since_ns) {
        w->events++;
        if (v)
            code_event(mac, w->last_.digest, seq, v, code);
        if (!gap && (!v || !same_code(code, found)))
            note_ledger_fault(w, LEDGER_CHANGED, seq, seq, time_ns);
    }
    w->last_.seq = seq;
    memcpy(w->last_.digest, found, LEDGER_SIZE);
    check_expected(w, &w->last_, time_ns);
    return 0;
}

/* Checks that the chain ends at the head. */
static int check_ledger_end(struct db *d, struct crypto_hmac *mac, struct ledger_walk *w,
                            struct err *e)
{
    int r = 0;

    w->finished = true;
    if (!w->head.first)
        return 0;
    if (w->last_.seq < w->head.seq) /* retention may have removed the rest */
        r = pass_gap(d, mac, w, LEDGER_SHORT, w->head.seq + 1, 0, e);
    if (r < 0)
        return r;
    if (w->last_.seq > w->head.seq ||
        (w->last_.seq == w->head.seq && !same_code(w->last_.digest, w->head.digest)))
        note_ledger_fault(w, LEDGER_HEAD_FORGED, w->head.seq, w->last_.seq, 0);
    if (w->expect.seq > w->head.seq)
        note_ledger_fault(w, LEDGER_OLDER, w->expect.seq, w->head.seq, 0);
    return 0;
}

/* --- anchors --- */

static bool read_anchor(const struct json *v, struct ledger_anchor *ret)
{
    const struct json *box = json_get(v, STR("sandbox")), *seq = json_get(v, STR("seq")),
                      *digest = json_get(v, STR("digest"));
    AUTO(buf_done) struct buf bytes = BUF_INIT(LEDGER_SIZE);

    if (!box || box->type != JSON_STR || !str_copy(box->s, ret->sandbox, ID_MAX) || !seq ||
        seq->type != JSON_INT || seq->i <= 0 || !digest || digest->type != JSON_STR ||
        crypto_unhex(digest->s, &bytes, NULL) < 0 || bytes.n != LEDGER_SIZE)
        return false;
    ret->seq = (uint64_t)seq->i;
    memcpy(ret->digest, bytes.p, LEDGER_SIZE);
    return true;
}

static int find_anchors(struct store_query *q, const struct event_record *v, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(DETAIL_TREE);
    const struct json_limits limits = { .bytes = DETAIL_BYTES, .depth = 16 };
    const struct json *detail, *list;
    int r = 0;

    if (!v->detail.n ||
        !memmem(v->detail.p, v->detail.n, LEDGER_ANCHORS, sizeof LEDGER_ANCHORS - 1) ||
        json_read(v->detail, limits, &a, &detail, NULL) < 0)
        return 0;
    list = json_get(detail, STR(LEDGER_ANCHORS));
    if (!list || list->type != JSON_ARRAY)
        return 0;
    for (const struct json *item = json_first(list); r >= 0 && item != json_end(list); item++) {
        struct ledger_anchor one = { .event = v->seq, .time_ns = v->time_ns };

        if (read_anchor(item, &one))
            r = query_add(q, &one, sizeof one, e);
    }
    return r;
}

static int walk_events(struct db *d, struct crypto_hmac *mac, struct store_query *q, struct err *e)
{
    struct ledger_walk *w = q->walk;
    sqlite3_stmt *st;
    int n = 0;
    int r = db_start(d, SQL_CHAINED, DB_WITH(db_int(w->last_.seq), db_int(q->limit)), &st, e);

    if (r < 0)
        return r;
    while ((r = db_step(d, st, e)) > 0) {
        AUTO(arena_done) struct arena a = ARENA_INIT(STORE_TXN_MAX);
        struct event_record v = { 0 };
        bool readable = row_read(d, &event_shape, st, &a, &v, NULL) >= 0;

        n++;
        r = check_event(d, mac, w, st, readable ? &v : NULL, e);
        if (r >= 0 && readable && v.seq >= w->head.first)
            r = find_anchors(q, &v, e);
        if (r < 0) {
            db_end(st);
            return r;
        }
    }
    return r < 0 ? r : n;
}

int ledger_walk_on(struct db *d, struct store_query *q, struct err *e)
{
    AUTO(crypto_hmac_done) struct crypto_hmac mac = { 0 };
    int r;

    if (!q->ledger_key_) {
        q->walk->finished = true;
        return 0;
    }
    crypto_hmac_init(&mac, ledger_bytes(q->ledger_key_, LEDGER_SIZE));
    r = read_ledger_head(d, &mac, q->walk, e);
    q->walk->began_ = true;
    if (r >= 0)
        r = walk_events(d, &mac, q, e);
    if (r >= 0 && r < q->limit)
        r = check_ledger_end(d, &mac, q->walk, e);
    return r < 0 ? r : 0;
}

void ledger_explain(const struct ledger_finding *f, char *ret, size_t cap)
{
    long long seq = f->seq, to = f->to;

    switch (f->fault) {
    case LEDGER_CHANGED:
        snprintf(ret, cap, "event %lld was changed after it was written", seq);
        return;
    case LEDGER_MISSING:
        snprintf(ret, cap,
                 "events %lld to %lld are missing, and no retention cut accounts for them", seq,
                 to);
        return;
    case LEDGER_UNCHAINED:
        snprintf(ret, cap, "event %lld has no chain value: it was inserted, or its value removed",
                 seq);
        return;
    case LEDGER_CUT_FORGED:
        snprintf(ret, cap, "the retention cut of events %lld to %lld was written without the key",
                 seq, to);
        return;
    case LEDGER_HEAD_GONE:
        snprintf(ret, cap, "the head of the chain is missing");
        return;
    case LEDGER_HEAD_FORGED:
        snprintf(ret, cap, "the head of the chain (event %lld) does not match its events", seq);
        return;
    case LEDGER_SHORT:
        snprintf(ret, cap, "events %lld to %lld are missing at the end", seq, to);
        return;
    case LEDGER_UNEXPECTED:
        snprintf(ret, cap, "event %lld has another digest than expected: the chain was rewritten",
                 seq);
        return;
    case LEDGER_OLDER:
        snprintf(ret, cap,
                 "the chain ends at event %lld, before the expected %lld: an older copy is in its "
                 "place",
                 to, seq);
        return;
    case LEDGER_FAULTS_:
        break;
    }
    snprintf(ret, cap, "event %lld", seq);
}

/* --- at the start --- */

static int read_ledger_key(struct store *s, bool *ret_found, struct err *e)
{
    struct store_query q = { .kind = STORE_SETTING, .text = STR(SETTING_KEY) };
    AUTO(buf_done) struct buf bytes = BUF_INIT(LEDGER_SIZE);
    int r = store_ask_now(s, &q, e);

    *ret_found = r >= 0 && q.setting && crypto_unhex(str_from(q.setting), &bytes, NULL) >= 0 &&
                 bytes.n == LEDGER_SIZE;
    if (*ret_found)
        memcpy(s->ledger.key, bytes.p, LEDGER_SIZE);
    if (bytes.n)
        crypto_wipe(bytes.p, bytes.n);
    arena_done(&q.arena);
    return r;
}

static int read_last_place(struct db *d, struct ledger_state *ret, bool *ret_found, struct err *e)
{
    unsigned char mac[LEDGER_SIZE];
    int64_t most = 0;
    int r = find_ledger_head(d, &ret->head, &ret->pruned_ns, mac, e);

    if (r < 0)
        return r;
    *ret_found = r > 0;
    r = db_number(d,
                  "SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0),"
                  " coalesce((SELECT max(seq) FROM events), 0))",
                  &most, e);
    if (r >= 0 && ret->head.seq < most) /* events behind the head are found by a verification */
        ret->head.seq = most;
    return r;
}

/* Begins the chain with the next event. */
static int begin_ledger(struct store *s, bool has_key, struct err *e)
{
    AUTO(buf_done) struct buf hex = BUF_INIT(CRYPTO_SHA256_HEX);
    struct ledger *l = &s->ledger;
    struct store_txn t;
    int r;

    l->at.head.first = l->at.head.seq + 1;
    memset(l->at.head.digest, 0, LEDGER_SIZE);
    l->at.moved = true;
    store_txn_begin(&t, s);
    t.durable = true;
    if (!has_key) {
        crypto_hex(ledger_bytes(l->key, LEDGER_SIZE), &hex);
        buf_add(&hex, ledger_bytes("", 1));
        store_set(&t, SETTING_KEY, hex.p);
    }
    r = store_commit_now(&t, e);
    if (hex.n)
        crypto_wipe(hex.p, hex.n);
    return r;
}

int store_open_ledger(struct store *s, struct err *e)
{
    struct ledger *l = &s->ledger;
    bool has_key, has_head = false;
    int r = read_ledger_key(s, &has_key, e);

    if (r >= 0)
        r = read_last_place(&s->writer.db, &l->at, &has_head, e);
    if (r >= 0 && !has_key)
        r = crypto_random(l->key, LEDGER_SIZE, e);
    if (r < 0)
        return err_wrap(e, r, "opening the chain of events");
    crypto_hmac_init(&l->mac, ledger_bytes(l->key, LEDGER_SIZE));
    l->on = true;
    if (has_head && !has_key)
        LOG(ERROR, "audit.key_lost", LOG_I("seq", l->at.head.seq + 1));
    if (!has_head || !has_key)
        r = begin_ledger(s, has_key, e);
    return err_wrap(e, r, "beginning the chain of events");
}

const unsigned char *store_ledger_key(const struct store *s)
{
    return s->ledger.on ? s->ledger.key : NULL;
}

void ledger_done(struct ledger *l)
{
    crypto_hmac_done(&l->mac);
    crypto_wipe(l->key, sizeof l->key);
    l->on = false;
}
