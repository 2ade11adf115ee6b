/* SPDX-License-Identifier: Apache-2.0 */
/* The queries: one function per kind, run on a reader's connection. */
#include "base/own.h"
#include "lib/json/reader.h"
#include "lib/secrets/keyring.h"
#include "domain/store/internal.h"
#include "domain/store/row.h"

enum { FIRST_ROWS = 16, PREFIX_ROWS = 2, PREFIX_SEEN_MAX = 1000, LABELS_MAX = 256 << 10 };

/* Returns room for one more record, or NULL if the arena is full. */
static void *add_query_row(struct store_query *q, const struct row_shape *s)
{
    if (q->n == 0 || (q->n >= FIRST_ROWS && (q->n & (q->n - 1)) == 0)) {
        size_t room = q->n == 0 ? FIRST_ROWS : q->n * 2;
        void *grown = arena_array(&q->arena, room, s->size);

        if (!grown)
            return NULL;
        if (q->n)
            memcpy(grown, q->rows, q->n * s->size);
        q->rows = grown;
    }
    return (char *)q->rows + q->n * s->size;
}

static int read_query_row(struct store_query *q, const struct row_shape *s, sqlite3_stmt *st,
                          struct err *e)
{
    void *record = add_query_row(q, s);
    int r;

    if (!record)
        return err_set(e, ERR_TOO_BIG, "the answer exceeds %zu bytes", q->arena.max);
    r = row_read(s, st, &q->arena, record, q->keys_, e);
    if (r >= 0)
        q->n++;
    return r;
}

static int read_query_rows(struct store_query *q, const struct row_shape *s, struct db *d,
                           sqlite3_stmt *st, struct err *e)
{
    int r;

    while ((r = db_step(d, st, e)) > 0) {
        r = read_query_row(q, s, st, e);
        if (r < 0) {
            db_end(st);
            return r;
        }
    }
    return r;
}

static int query_row_limit(const struct store_query *q)
{
    return q->limit > 0 ? q->limit : -1;
}

/* ---- sandboxes */

static int find_sandbox(struct db *d, struct store_query *q, struct str id, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_SANDBOX, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, id);
    db_bind(st, 2, q->owner);
    return read_query_rows(q, &sandbox_shape, d, st, e);
}

static int query_sandbox_row(struct db *d, struct store_query *q, struct err *e)
{
    return find_sandbox(d, q, q->text, e);
}

static bool sandbox_has_label(const struct sandbox_record *b, const struct json_pair *wanted)
{
    for (size_t i = 0; i < b->labels.n; i++)
        if (strcmp(b->labels.p[i].key, wanted->key) == 0)
            return strcmp(b->labels.p[i].value, wanted->value) == 0;
    return false;
}

static bool has_all_labels(const struct sandbox_record *b, const struct json_map *wanted)
{
    for (size_t i = 0; i < wanted->n; i++)
        if (!sandbox_has_label(b, &wanted->p[i]))
            return false;
    return true;
}

/* Keeps at most two sandboxes, live ones first. True if both are live. */
static bool keep_best(struct store_query *q, const struct sandbox_record *b)
{
    size_t lives = 0;

    while (lives < q->n && q->sandboxes[lives].state != SANDBOX_DESTROYED)
        lives++;
    if (b->state != SANDBOX_DESTROYED) {
        q->sandboxes[1] = q->sandboxes[lives];
        q->sandboxes[lives++] = *b;
        q->n += q->n < PREFIX_ROWS;
    } else if (q->n < PREFIX_ROWS) {
        q->sandboxes[q->n++] = *b;
    }
    return lives == PREFIX_ROWS;
}

/* Visits all sandboxes with the prefix. 1 if it stopped early, after two live ones. */
static int walk_prefix(struct db *d, struct store_query *q, sqlite3_stmt *st, struct err *e)
{
    int r;

    for (int seen = 0; (r = db_step(d, st, e)) > 0; seen++) {
        struct sandbox_record b = { 0 };

        if (seen == PREFIX_SEEN_MAX)
            return err_set(e, ERR_INVALID,
                           "'" STR_FMT
                           "' is a prefix of more than %d sandbox ids; give a longer prefix",
                           STR_ARG(q->text), PREFIX_SEEN_MAX);
        r = row_read(&sandbox_shape, st, &q->arena, &b, d->keys, e);
        if (r < 0)
            return r;
        if ((!q->owner.n || str_eq(q->owner, str_from(b.owner))) &&
            has_all_labels(&b, &q->labels) && keep_best(q, &b))
            return 1;
    }
    return r;
}

static int query_prefix(struct db *d, struct store_query *q, struct err *e)
{
    char end[ID_MAX + 1];
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_PREFIX, &st, e);

    if (r < 0 || q->text.n >= ID_MAX) /* longer than any id */
        return r;
    q->sandboxes = arena_array(&q->arena, PREFIX_ROWS, sizeof *q->sandboxes);
    if (!q->sandboxes)
        return err_set(e, ERR_TOO_BIG, "the answer exceeds %zu bytes", q->arena.max);
    if (q->text.n)
        memcpy(end, q->text.p, q->text.n);
    end[q->text.n] = (char)0xff; /* above all characters of ids */
    db_bind(st, 1, q->text);
    db_bind(st, 2, (struct str){ end, q->text.n + 1 });
    r = walk_prefix(d, q, st, e);
    db_end(st);
    return r < 0 ? r : 0;
}

static bool is_made_from(const struct sandbox_record *b, struct str origin)
{
    for (unsigned i = 0; i < ROW_ORIGINS; i++) {
        AUTO(arena_done) struct arena a = ARENA_INIT(ROW_ORIGIN_BYTES);
        const char *from = row_made_from(b, i, &a);

        if (from && str_eq(origin, str_from(from)))
            return true;
    }
    return false;
}

/* Checks the conditions that the index does not cover. */
static bool sandbox_fits_query(const struct store_query *q, const struct sandbox_record *b)
{
    if (q->states && !(q->states & 1u << b->state))
        return false;
    if (q->profile.n && !str_eq(q->profile, str_from(b->profile)) &&
        !str_eq(q->profile, str_from(b->maker)) && !is_made_from(b, q->profile))
        return false;
    return has_all_labels(b, &q->labels);
}

static enum sql choose_page(const struct store_query *q)
{
    bool tag = q->labels.n || q->profile.n;
    enum sql down = tag ? (q->owner.n ? SQL_PAGE_TAG_OWNER : SQL_PAGE_TAG)
                        : (q->owner.n ? SQL_PAGE_OWNER : SQL_PAGE);

    return q->ascending ? down - SQL_PAGE + SQL_PAGE_UP : down;
}

static int64_t query_start_time(const struct store_query *q)
{
    if (q->after.id[0] || (q->ascending && q->after.created_ns))
        return q->after.created_ns;
    return q->ascending ? INT64_MIN : INT64_MAX;
}

static int prepare_page(struct db *d, const struct store_query *q, sqlite3_stmt **ret,
                        struct err *e)
{
    const uint32_t dead = 1u << SANDBOX_DESTROYED;
    sqlite3_stmt *st;
    int r = db_prepare(d, choose_page(q), &st, e);

    if (r < 0)
        return r;
    sqlite3_bind_int(st, 1, !q->states || q->states & ~dead);
    sqlite3_bind_int(st, 2, !q->states || q->states & dead);
    sqlite3_bind_int64(st, 3, query_start_time(q));
    db_bind(st, 4, str_from(q->after.id));
    if (q->owner.n)
        db_bind(st, 5, q->owner);
    if (q->labels.n || q->profile.n) {
        db_bind(st, 6, q->labels.n ? str_from(q->labels.p[0].key) : STR(""));
        db_bind(st, 7, q->labels.n ? str_from(q->labels.p[0].value) : q->profile);
    }
    *ret = st;
    return 0;
}

static int add_if_fit(struct db *d, struct store_query *q, struct str id, struct err *e)
{
    size_t before = q->n;
    int r = find_sandbox(d, q, id, e);

    if (r >= 0 && q->n > before && !sandbox_fits_query(q, &q->sandboxes[before])) {
        q->sandboxes[before] = (struct sandbox_record){ 0 };
        q->n = before;
    }
    return r;
}

static int query_page(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r;

    for (size_t i = 0; i < q->labels.n; i++)
        if (!*q->labels.p[i].key)
            return err_set(e, ERR_INVALID, "label names must not be empty");
    r = prepare_page(d, q, &st, e);
    if (r < 0)
        return r;
    while ((q->limit <= 0 || q->n < (size_t)q->limit) && (r = db_step(d, st, e)) > 0) {
        r = add_if_fit(d, q, str_from((const char *)sqlite3_column_text(st, 1)), e);
        if (r < 0)
            break;
    }
    db_end(st);
    return r < 0 ? r : 0;
}

/* ---- lists whose only parameter is a limit */

static int query_list(struct db *d, struct store_query *q, enum sql sql, const struct row_shape *s,
                      struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    sqlite3_bind_int(st, 1, query_row_limit(q));
    return read_query_rows(q, s, d, st, e);
}

static int query_live(struct db *d, struct store_query *q, struct err *e)
{
    return query_list(d, q, SQL_LIVE, &sandbox_shape, e);
}

static int query_due(struct db *d, struct store_query *q, struct err *e)
{
    return query_list(d, q, SQL_DUE, &sandbox_shape, e);
}

static int query_tokens_by(struct db *d, struct store_query *q, enum sql sql, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    sqlite3_bind_int(st, 1, query_row_limit(q));
    if (sql != SQL_TOKENS_REVOKED)
        sqlite3_bind_int64(st, 2, q->time_ns);
    return read_query_rows(q, &token_shape, d, st, e);
}

static int query_tokens(struct db *d, struct store_query *q, struct err *e)
{
    return query_tokens_by(d, q, SQL_TOKENS, e);
}

static int query_tokens_revoked(struct db *d, struct store_query *q, struct err *e)
{
    return query_tokens_by(d, q, SQL_TOKENS_REVOKED, e);
}

static int query_tokens_expired(struct db *d, struct store_query *q, struct err *e)
{
    return query_tokens_by(d, q, SQL_TOKENS_EXPIRED, e);
}

static int query_hosts(struct db *d, struct store_query *q, struct err *e)
{
    return query_list(d, q, SQL_HOSTS, &host_shape, e);
}

/* ---- events */

/* The labels of the event's sandbox are the column behind its own. */
static bool has_labels(const struct store_query *q, sqlite3_stmt *st)
{
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)4 * LABELS_MAX);
    const struct json_limits limits = { .bytes = LABELS_MAX, .depth = 2 };
    const char *text = (const char *)sqlite3_column_text(st, event_shape.n);
    const struct json *all, *value;

    if (!text || json_read(str_from(text), limits, &a, &all, NULL) < 0)
        return false;
    for (size_t i = 0; i < q->labels.n; i++) {
        value = json_get(all, str_from(q->labels.p[i].key));
        if (!value || value->type != JSON_STR || !str_eq(value->s, str_from(q->labels.p[i].value)))
            return false;
    }
    return true;
}

static int query_labelled_events(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, q->owner.n ? SQL_EVENTS_OWNER_LABELS : SQL_EVENTS_LABELS, &st, e);

    if (r < 0)
        return r;
    sqlite3_bind_int64(st, 1, q->after_seq);
    if (q->owner.n)
        db_bind(st, 4, q->owner);
    while ((q->limit <= 0 || q->n < (size_t)q->limit) && (r = db_step(d, st, e)) > 0) {
        r = has_labels(q, st) ? read_query_row(q, &event_shape, st, e) : 0;
        if (r < 0)
            break;
    }
    db_end(st);
    return r < 0 ? r : 0;
}

static int query_events(struct db *d, struct store_query *q, struct err *e)
{
    enum sql sql = q->sandbox.n ? SQL_EVENTS_SANDBOX : q->owner.n ? SQL_EVENTS_OWNER : SQL_EVENTS;
    sqlite3_stmt *st;
    int r;

    if (q->labels.n && !q->sandbox.n)
        return query_labelled_events(d, q, e);
    r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    sqlite3_bind_int64(st, 1, q->after_seq);
    sqlite3_bind_int(st, 2, query_row_limit(q));
    if (q->sandbox.n)
        db_bind(st, 3, q->sandbox);
    if (sql != SQL_EVENTS)
        db_bind(st, 4, q->owner);
    return read_query_rows(q, &event_shape, d, st, e);
}

/* The sandbox's first event with a seq of at least `at`: 1, or 0 if absent. */
static int event_from(struct db *d, struct str sandbox, int64_t at, int64_t *ret_seq,
                      int64_t *ret_time_ns, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_EVENT_FROM, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, sandbox);
    sqlite3_bind_int64(st, 2, at);
    r = db_step(d, st, e);
    if (r <= 0)
        return r;
    *ret_seq = sqlite3_column_int64(st, 0);
    *ret_time_ns = sqlite3_column_int64(st, 1);
    db_end(st);
    return 1;
}

/* The seq from which on the sandbox's events are at or after since_ns. Events are numbered in the
 * order of time, so a binary search finds it without an index. */
static int find_time(struct db *d, struct str sandbox, int64_t since_ns, int64_t *ret,
                     struct err *e)
{
    int64_t low = 0, high = INT64_MAX, seq, time_ns;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int r = event_from(d, sandbox, middle, &seq, &time_ns, e);

        if (r < 0)
            return r;
        if (r > 0 && time_ns < since_ns)
            low = seq + 1;
        else
            high = middle;
    }
    *ret = low;
    return 0;
}

/* The same for the events of all sandboxes. */
static int find_any_time(struct db *d, int64_t since_ns, int64_t *ret, struct err *e)
{
    int64_t low = 0, high = INT64_MAX;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        sqlite3_stmt *st;
        int r = db_prepare(d, SQL_EVENT_AT, &st, e);

        if (r < 0)
            return r;
        sqlite3_bind_int64(st, 1, middle);
        r = db_step(d, st, e);
        if (r < 0)
            return r;
        if (r > 0 && sqlite3_column_int64(st, 1) < since_ns)
            low = sqlite3_column_int64(st, 0) + 1;
        else
            high = middle;
        if (r > 0)
            db_end(st);
    }
    *ret = low;
    return 0;
}

/* Replaces `owner` by the next one in the index: 1, or 0 if it was the last. */
static int find_next_owner(struct db *d, char owner[static OWNER_MAX], struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_EVENT_OWNER, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, str_from(owner));
    r = db_step(d, st, e);
    if (r <= 0)
        return r;
    if (!str_copy(str_from((const char *)sqlite3_column_text(st, 0)), owner, OWNER_MAX))
        r = err_set(e, ERR_BUG, "an event's owner has more than %d bytes", OWNER_MAX);
    db_end(st);
    return r;
}

static int count_events_of(struct db *d, const char *owner, int64_t from, uint64_t *ret,
                           struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_EVENT_COUNT, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, str_from(owner));
    sqlite3_bind_int64(st, 2, from);
    r = db_step(d, st, e);
    if (r <= 0)
        return r;
    *ret = (uint64_t)sqlite3_column_int64(st, 0);
    db_end(st);
    return 0;
}

/* Costs a search per owner and an index entry per counted event. */
static int query_event_counts(struct db *d, struct store_query *q, struct err *e)
{
    struct store_count count = { .owner = "" };
    size_t room = 0;
    int64_t from;
    int r = find_any_time(d, q->time_ns, &from, e);

    while (r >= 0 && (r = find_next_owner(d, count.owner, e)) > 0) {
        r = count_events_of(d, count.owner, from, &count.n, e);
        if (r < 0 || !count.n)
            continue;
        if (q->n == room) {
            struct store_count *more = arena_array(&q->arena, 2 * room + 16, sizeof *more);

            if (!more)
                return err_set(e, ERR_TOO_BIG, "too many owners have events");
            if (q->n)
                memcpy(more, q->counts, q->n * sizeof *more);
            q->counts = more;
            room = 2 * room + 16;
        }
        q->counts[q->n++] = count;
    }
    return r;
}

static int query_history(struct db *d, struct store_query *q, struct err *e)
{
    bool to_the_end = !q->ascending && q->time_ns == INT64_MAX;
    int64_t at = INT64_MAX;
    sqlite3_stmt *st;
    int r = 0;

    if (!to_the_end)
        r = find_time(d, q->sandbox, q->ascending ? q->time_ns : q->time_ns + 1, &at, e);
    if (r >= 0)
        r = db_prepare(d, q->ascending ? SQL_HISTORY : SQL_HISTORY_DOWN, &st, e);
    if (r < 0)
        return r;
    db_bind(st, 1, q->sandbox);
    sqlite3_bind_int64(st, 2, at);
    db_bind(st, 3, q->text);
    sqlite3_bind_int(st, 4, query_row_limit(q));
    return read_query_rows(q, &event_shape, d, st, e);
}

static int query_outbox(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_OUTBOX, &st, e);

    if (r < 0)
        return r;
    sqlite3_bind_int64(st, 1, q->after_seq);
    sqlite3_bind_int(st, 2, query_row_limit(q));
    return read_query_rows(q, &event_shape, d, st, e);
}

/* ---- the others */

static int query_processes(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_PROCESSES, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, q->sandbox);
    sqlite3_bind_int(st, 2, query_row_limit(q));
    return read_query_rows(q, &process_shape, d, st, e);
}

static int query_egress(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_EGRESS, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, q->sandbox);
    return read_query_rows(q, &egress_shape, d, st, e);
}

static int query_idempotency(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_IDEMPOTENCY, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, q->owner);
    db_bind(st, 2, q->text);
    return read_query_rows(q, &idempotency_shape, d, st, e);
}

/* ---- trust */

static int query_peers(struct db *d, struct store_query *q, struct err *e)
{
    return query_list(d, q, SQL_PEERS, &peer_shape, e);
}

static int query_approval(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_APPROVAL, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, q->text);
    db_bind(st, 2, q->owner);
    return read_query_rows(q, &approval_shape, d, st, e);
}

static int query_approvals_open(struct db *d, struct store_query *q, struct err *e)
{
    return query_list(d, q, SQL_APPROVALS_OPEN, &approval_shape, e);
}

static int query_approvals_waiting(struct db *d, struct store_query *q, struct err *e)
{
    return query_list(d, q, SQL_APPROVALS_WAITING, &approval_shape, e);
}

static int query_approvals(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, q->owner.n ? SQL_APPROVALS_OWNER : SQL_APPROVALS, &st, e);

    if (r < 0)
        return r;
    sqlite3_bind_int(st, 1, query_row_limit(q));
    sqlite3_bind_int64(st, 2, q->after.id[0] ? q->after.created_ns : INT64_MAX);
    db_bind(st, 3, str_from(q->after.id));
    if (q->owner.n)
        db_bind(st, 4, q->owner);
    return read_query_rows(q, &approval_shape, d, st, e);
}

static int query_grants(struct db *d, struct store_query *q, struct err *e)
{
    return query_list(d, q, SQL_GRANTS, &grant_shape, e);
}

static int query_snapshots(struct db *d, struct store_query *q, struct err *e)
{
    return query_list(d, q, SQL_SNAPSHOTS, &snapshot_shape, e);
}

/* ---- images */

/* The records whose names are greater than q->text. */
static int query_behind(struct db *d, struct store_query *q, enum sql sql,
                        const struct row_shape *s, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, sql, &st, e);

    if (r < 0)
        return r;
    sqlite3_bind_int(st, 1, query_row_limit(q));
    db_bind(st, 2, q->text);
    return read_query_rows(q, s, d, st, e);
}

static int query_images(struct db *d, struct store_query *q, struct err *e)
{
    return query_behind(d, q, SQL_IMAGES, &image_shape, e);
}

static int query_layers(struct db *d, struct store_query *q, struct err *e)
{
    return query_behind(d, q, SQL_LAYERS, &layer_shape, e);
}

/* ---- the ledger */

static int query_ledger(struct db *d, struct store_query *q, struct err *e)
{
    int r = db_exec(d, "BEGIN", e); /* events and head of the same moment */

    if (r >= 0)
        r = ledger_walk_on(d, q, e);
    if (!sqlite3_get_autocommit(d->h))
        db_exec(d, "COMMIT", NULL);
    return r;
}

static int query_egress_heads(struct db *d, struct store_query *q, struct err *e)
{
    AUTO(crypto_hmac_done) struct crypto_hmac mac = { 0 };
    sqlite3_stmt *st;
    int r;

    if (!q->ledger_key_)
        return 0;
    if (q->sandbox.n) {
        r = db_prepare(d, SQL_EGRESS_HEAD, &st, e);
        if (r >= 0)
            db_bind(st, 1, q->sandbox);
        if (r >= 0)
            r = read_query_rows(q, &egress_head_shape, d, st, e);
    } else {
        r = query_behind(d, q, SQL_EGRESS_HEADS, &egress_head_shape, e);
    }
    crypto_hmac_init(&mac, (struct str){ (const char *)q->ledger_key_, LEDGER_SIZE });
    for (size_t i = 0; r >= 0 && i < q->n; i++)
        q->egress_heads[i].genuine = ledger_knows_head(&mac, &q->egress_heads[i]);
    return r;
}

/* A setting that no key can open counts as not set. */
static int read_setting_value(struct db *d, struct store_query *q, struct str value, struct err *e)
{
    AUTO(buf_done) struct buf plain = BUF_INIT(value.n + 1);
    char name[192], key[128];
    int r = 0;

    if (d->keys && sealed_is(value)) {
        if (!str_copy(q->text, key, sizeof key))
            return err_set(e, ERR_INVALID, "the name of a setting is too long");
        r = unseal_text(d->keys, ROW_SEALED, 0, seal_name("setting value", key, name), value,
                        &plain, e);
        value = buf_str(&plain);
        if (r < 0 || !value.n)
            return r;
    }
    q->setting = arena_dup(&q->arena, value);
    q->n = 1;
    return 0;
}

static int query_setting(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, SQL_SETTING, &st, e);

    if (r < 0)
        return r;
    db_bind(st, 1, q->text);
    r = db_step(d, st, e);
    if (r <= 0)
        return r;
    r = read_setting_value(d, q, str_from((const char *)sqlite3_column_text(st, 0)), e);
    db_end(st);
    return r < 0 || !q->n || q->setting ? r : err_set(e, ERR_TOO_BIG, "the setting is too large");
}

static int (*const queries[])(struct db *d, struct store_query *q, struct err *e) = {
    [STORE_SANDBOX] = query_sandbox_row,
    [STORE_PREFIX] = query_prefix,
    [STORE_SANDBOXES] = query_page,
    [STORE_LIVE] = query_live,
    [STORE_DUE] = query_due,
    [STORE_EVENTS] = query_events,
    [STORE_EVENT_COUNTS] = query_event_counts,
    [STORE_HISTORY] = query_history,
    [STORE_PROCESSES] = query_processes,
    [STORE_EGRESS] = query_egress,
    [STORE_TOKENS] = query_tokens,
    [STORE_TOKENS_REVOKED] = query_tokens_revoked,
    [STORE_TOKENS_EXPIRED] = query_tokens_expired,
    [STORE_HOSTS] = query_hosts,
    [STORE_IDEMPOTENCY] = query_idempotency,
    [STORE_OUTBOX] = query_outbox,
    [STORE_SETTING] = query_setting,
    [STORE_PEERS] = query_peers,
    [STORE_APPROVAL] = query_approval,
    [STORE_APPROVALS_OPEN] = query_approvals_open,
    [STORE_APPROVALS_WAITING] = query_approvals_waiting,
    [STORE_APPROVALS] = query_approvals,
    [STORE_GRANTS] = query_grants,
    [STORE_SNAPSHOTS] = query_snapshots,
    [STORE_IMAGES] = query_images,
    [STORE_LAYERS] = query_layers,
    [STORE_LEDGER] = query_ledger,
    [STORE_EGRESS_HEADS] = query_egress_heads,
};

int query_run(struct db *d, struct store_query *q, struct err *e)
{
    q->keys_ = d->keys;
    if (q->kind >= COUNT_OF(queries))
        return err_set(e, ERR_BUG, "internal error: unknown store query %d", (int)q->kind);
    return queries[q->kind](d, q, e);
}
