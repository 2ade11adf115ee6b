/* SPDX-License-Identifier: Apache-2.0 */
/* The queries, run on a reader's connection. The table at the end has one row per kind. */
#include "base/own.h"
#include "lib/json/reader.h"
#include "lib/secrets/keyring.h"
#include "domain/store/sqlite/internal.h"

enum { FIRST_ROWS = 16, PREFIX_ROWS = 2, PREFIX_SEEN_MAX = 1000, LABELS_MAX = 256 << 10 };
enum { EVENT_TYPE_COLUMN = 2 };

/* Makes room for one more row, which is zeroed. */
static int find_row_room(struct store_query *q, size_t size, void **ret, struct err *e)
{
    if (q->n == 0 || (q->n >= FIRST_ROWS && (q->n & (q->n - 1)) == 0)) {
        size_t room = q->n == 0 ? FIRST_ROWS : q->n * 2;
        void *grown = arena_array(&q->arena, room, size);

        if (!grown)
            return err_set(e, ERR_TOO_BIG, "the answer exceeds %zu bytes", q->arena.max);
        if (q->n)
            memcpy(grown, q->rows, q->n * size);
        q->rows = grown;
    }
    *ret = (char *)q->rows + q->n * size;
    return 0;
}

int query_add(struct store_query *q, const void *row, size_t size, struct err *e)
{
    void *room;
    int r = find_row_room(q, size, &room, e);

    if (r < 0)
        return r;
    memcpy(room, row, size);
    q->n++;
    return 0;
}

static int read_query_row(struct db *d, struct store_query *q, const struct row_shape *s,
                          sqlite3_stmt *st, struct err *e)
{
    void *record;
    int r = find_row_room(q, s->size, &record, e);

    if (r >= 0)
        r = row_read(d, s, st, &q->arena, record, e);
    if (r >= 0)
        q->n++;
    return r;
}

static bool is_query_full(const struct store_query *q)
{
    return q->limit > 0 && q->n >= (size_t)q->limit;
}

typedef bool row_filter_fn(const struct store_query *q, sqlite3_stmt *st);

/* Adds the rows that pass the filter (NULL: all) to the answer. */
static int read_query_rows(struct db *d, struct store_query *q, enum sql sql,
                           const struct row_shape *s, const struct db_value *with,
                           row_filter_fn *fits, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_start(d, sql, with, &st, e);

    if (r < 0)
        return r;
    while (!is_query_full(q) && (r = db_step(d, st, e)) > 0) {
        r = !fits || fits(q, st) ? read_query_row(d, q, s, st, e) : 0;
        if (r < 0)
            break;
    }
    db_end(st);
    return r < 0 ? r : 0;
}

static int64_t query_row_limit(const struct store_query *q)
{
    return q->limit > 0 ? q->limit : -1;
}

/* ---- sandboxes */

static bool has_all_labels(const struct sandbox_record *b, const struct json_map *wanted)
{
    for (size_t i = 0; i < wanted->n; i++) {
        const char *value = json_map_get(&b->labels, wanted->p[i].key);

        if (!value || strcmp(value, wanted->p[i].value) != 0)
            return false;
    }
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
        r = row_read(d, &sandbox_shape, st, &q->arena, &b, e);
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
    int r;

    if (q->text.n >= ID_MAX) /* longer than any id */
        return 0;
    q->sandboxes = arena_array(&q->arena, PREFIX_ROWS, sizeof *q->sandboxes);
    if (!q->sandboxes)
        return err_set(e, ERR_TOO_BIG, "the answer exceeds %zu bytes", q->arena.max);
    if (q->text.n)
        memcpy(end, q->text.p, q->text.n);
    end[q->text.n] = (char)0xff; /* above all characters of ids */
    r = db_start(d, SQL_PREFIX,
                 DB_WITH(db_text(q->text), db_text((struct str){ end, q->text.n + 1 })), &st, e);
    if (r < 0)
        return r;
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

static int start_page(struct db *d, const struct store_query *q, sqlite3_stmt **ret, struct err *e)
{
    const uint32_t dead = 1u << SANDBOX_DESTROYED;
    const struct json_pair *label = q->labels.n ? &q->labels.p[0] : NULL;
    bool tag = q->labels.n || q->profile.n, first = !q->after.id[0];
    enum sql sql = tag ? (q->owner.n ? SQL_PAGE_TAG_OWNER : SQL_PAGE_TAG)
                       : (q->owner.n ? SQL_PAGE_OWNER : SQL_PAGE);
    int64_t from = q->after.created_ns;

    if (first && (!q->ascending || !from))
        from = q->ascending ? INT64_MIN : INT64_MAX;
    return db_start(d, q->ascending ? sql - SQL_PAGE + SQL_PAGE_UP : sql,
                    DB_WITH(db_int(!q->states || q->states & ~dead),
                            db_int(!q->states || q->states & dead), db_int(from),
                            db_text(str_from(q->after.id)), db_text(q->owner),
                            db_text(label ? str_from(label->key) : STR("")),
                            db_text(label ? str_from(label->value) : q->profile)),
                    ret, e);
}

/* Adds the sandbox if it meets the conditions that the index does not cover. */
static int add_if_fit(struct db *d, struct store_query *q, struct str id, struct err *e)
{
    const struct db_value *with = DB_WITH(db_text(id), db_text(q->owner));
    size_t before = q->n;
    int r = read_query_rows(d, q, SQL_SANDBOX, &sandbox_shape, with, NULL, e);
    const struct sandbox_record *b;

    if (r < 0 || q->n == before)
        return r;
    b = &q->sandboxes[before];
    if ((q->states && !(q->states & 1u << b->state)) ||
        (q->profile.n && !str_eq(q->profile, str_from(b->profile)) &&
         !str_eq(q->profile, str_from(b->maker)) && !is_made_from(b, q->profile)) ||
        !has_all_labels(b, &q->labels)) {
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
    r = start_page(d, q, &st, e);
    if (r < 0)
        return r;
    while (!is_query_full(q) && (r = db_step(d, st, e)) > 0) {
        r = add_if_fit(d, q, str_from((const char *)sqlite3_column_text(st, 1)), e);
        if (r < 0)
            break;
    }
    db_end(st);
    return r < 0 ? r : 0;
}

/* ---- events */

/* The labels of the event's sandbox are the column behind its own. */
static bool event_has_labels(const struct store_query *q, sqlite3_stmt *st)
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

static bool event_has_type(const struct store_query *q, sqlite3_stmt *st)
{
    const char *type = (const char *)sqlite3_column_text(st, EVENT_TYPE_COLUMN);

    return !q->text.n || (type && str_eq(q->text, str_from(type)));
}

static bool event_fits_query(const struct store_query *q, sqlite3_stmt *st)
{
    return event_has_type(q, st) && (q->sandbox.n || !q->labels.n || event_has_labels(q, st));
}

/* Events of a type have an index of their own; those of an owner or a sandbox are compared,
 * as an owner has a bounded number. */
static enum sql find_events_sql(const struct store_query *q)
{
    bool by_labels = !q->sandbox.n && q->labels.n;
    enum sql sql = q->sandbox.n ? SQL_EVENTS_SANDBOX
                   : by_labels  ? (q->owner.n ? SQL_EVENTS_OWNER_LABELS : SQL_EVENTS_LABELS)
                   : q->owner.n ? SQL_EVENTS_OWNER
                   : q->text.n  ? SQL_EVENTS_TYPE
                                : SQL_EVENTS;

    return q->latest ? (enum sql)(sql + 1) : sql;
}

/* The seq from which on the events of the sandbox (empty: of all) are at or after since_ns. Events
 * are numbered in the order of time, so a binary search finds it without an index. */
static int find_time(struct db *d, struct str sandbox, int64_t since_ns, int64_t *ret,
                     struct err *e)
{
    int64_t low = 0, high = INT64_MAX;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        sqlite3_stmt *st;
        int r = db_first(d, sandbox.n ? SQL_EVENT_FROM : SQL_EVENT_AT,
                         DB_WITH(db_text(sandbox), db_int(middle)), &st, e);

        if (r < 0)
            return r;
        if (r > 0 && sqlite3_column_int64(st, 1) < since_ns)
            low = sqlite3_column_int64(st, 0) + 1;
        else
            high = middle;
        db_end(st);
    }
    *ret = low;
    return 0;
}

static int query_events(struct db *d, struct store_query *q, struct err *e)
{
    bool compares = q->text.n || (!q->sandbox.n && q->labels.n);
    int64_t from = 0, to = INT64_MAX;
    int r = q->time_ns ? find_time(d, q->sandbox, q->time_ns, &from, e) : 0;

    if (r >= 0 && q->until_ns)
        r = find_time(d, q->sandbox, q->until_ns, &to, e);
    if (r < 0)
        return r;
    if (q->before_seq && q->before_seq < to)
        to = q->before_seq;
    if (from > q->after_seq)
        q->after_seq = from - 1;
    return read_query_rows(d, q, find_events_sql(q), &event_shape,
                           DB_WITH(db_int(q->after_seq), db_int(compares ? -1 : query_row_limit(q)),
                                   db_text(q->sandbox), db_text(q->owner), db_int(to),
                                   db_text(q->text),
                                   db_int(q->text.n ? COMMANDS_TOO : q->commands)),
                           compares ? event_fits_query : NULL, e);
}

/* Replaces `owner` by the next one in the index: 1, or 0 if it was the last. */
static int find_next_owner(struct db *d, char owner[static OWNER_MAX], struct err *e)
{
    sqlite3_stmt *st;
    int r = db_first(d, SQL_EVENT_OWNER, DB_WITH(db_text(str_from(owner))), &st, e);

    if (r <= 0)
        return r;
    if (!str_copy(str_from((const char *)sqlite3_column_text(st, 0)), owner, OWNER_MAX))
        r = err_set(e, ERR_BUG, "an event's owner has more than %d bytes", OWNER_MAX);
    db_end(st);
    return r;
}

/* Costs a search per owner and an index entry per counted event. */
static int query_event_counts(struct db *d, struct store_query *q, struct err *e)
{
    struct store_count count = { .owner = "" };
    sqlite3_stmt *st;
    int64_t from;
    int r = find_time(d, STR(""), q->time_ns, &from, e);

    while (r >= 0 && (r = find_next_owner(d, count.owner, e)) > 0) {
        r = db_first(d, SQL_EVENT_COUNT, DB_WITH(db_text(str_from(count.owner)), db_int(from)), &st,
                     e);
        if (r <= 0)
            continue;
        count.n = (uint64_t)sqlite3_column_int64(st, 0);
        db_end(st);
        r = count.n ? query_add(q, &count, sizeof count, e) : 0;
    }
    return r;
}

static int query_history(struct db *d, struct store_query *q, struct err *e)
{
    bool to_the_end = !q->ascending && q->time_ns == INT64_MAX;
    int64_t at = INT64_MAX;
    int r = 0;

    if (!to_the_end)
        r = find_time(d, q->sandbox, q->ascending ? q->time_ns : q->time_ns + 1, &at, e);
    if (r < 0)
        return r;
    return read_query_rows(
        d, q, q->ascending ? SQL_HISTORY : SQL_HISTORY_DOWN, &event_shape,
        DB_WITH(db_text(q->sandbox), db_int(at), db_text(q->text), db_int(query_row_limit(q))),
        NULL, e);
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
    const struct db_value *one = DB_WITH(db_text(q->sandbox));
    const struct db_value *page = DB_WITH(db_int(query_row_limit(q)), db_text(q->text));
    int r;

    if (!q->ledger_key_)
        return 0;
    r = read_query_rows(d, q, q->sandbox.n ? SQL_EGRESS_HEAD : SQL_EGRESS_HEADS, &egress_head_shape,
                        q->sandbox.n ? one : page, NULL, e);
    crypto_hmac_init(&mac, (struct str){ (const char *)q->ledger_key_, LEDGER_SIZE });
    for (size_t i = 0; r >= 0 && i < q->n; i++)
        q->egress_heads[i].genuine = ledger_knows_head(&mac, &q->egress_heads[i]);
    return r;
}

/* ---- settings */

/* On the arena of the query; NULL, or unchanged: no key can open it, so it counts as not set. */
static int read_setting_value(struct db *d, struct store_query *q, struct str setting,
                              struct str value, const char **ret, struct err *e)
{
    AUTO(buf_done) struct buf plain = BUF_INIT(value.n + 1);
    char name[192], key[128];
    int r = 0;

    if (d->keys && sealed_is(value)) {
        if (!str_copy(setting, key, sizeof key))
            return err_set(e, ERR_INVALID,
                           "the name of the setting '%.60s' has more than %zu bytes", setting.p,
                           sizeof key - 1);
        r = unseal_text(d->keys, ROW_SEALED, 0, seal_name("setting value", key, name), value,
                        &plain, e);
        value = buf_str(&plain);
        if (r < 0 || !value.n)
            return r;
    }
    *ret = arena_dup(&q->arena, value);
    return 1;
}

static int query_setting(struct db *d, struct store_query *q, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_first(d, SQL_SETTING, DB_WITH(db_text(q->text)), &st, e);

    if (r <= 0)
        return r;
    r = read_setting_value(d, q, q->text, str_from((const char *)sqlite3_column_text(st, 0)),
                           &q->setting, e);
    db_end(st);
    q->n = r > 0;
    return r < 0 || !q->n || q->setting
               ? r
               : err_set(e, ERR_TOO_BIG,
                         "the setting '%.60s' needs more memory than the allowed %zu bytes",
                         q->text.n ? q->text.p : "", q->arena.max);
}

static int add_setting(struct db *d, struct store_query *q, sqlite3_stmt *st, struct err *e)
{
    struct str value = str_from((const char *)sqlite3_column_text(st, 0));
    struct store_setting s = { .key = arena_dup(
                                   &q->arena, str_from((const char *)sqlite3_column_text(st, 1))) };
    int r = read_setting_value(d, q, str_from(s.key), value, &s.value, e);

    if (r <= 0)
        return r;
    return s.key && s.value ? query_add(q, &s, sizeof s, e)
                            : err_set(e, ERR_TOO_BIG, "the answer exceeds %zu bytes", q->arena.max);
}

static int query_settings(struct db *d, struct store_query *q, struct err *e)
{
    char end[64];
    sqlite3_stmt *st;
    int r;

    if (!str_copy(q->text, end, sizeof end) || !str_ends(q->text, STR(".")))
        return err_set(e, ERR_BUG, "internal error: '" STR_FMT "' is no prefix of settings",
                       STR_ARG(q->text));
    end[q->text.n - 1] = '.' + 1;
    r = db_start(d, SQL_SETTINGS, DB_WITH(db_text(q->text), db_text(str_from(end))), &st, e);
    if (r < 0)
        return r;
    while ((r = db_step(d, st, e)) > 0 && (r = add_setting(d, q, st, e)) >= 0)
        ;
    db_end(st);
    return r < 0 ? r : 0;
}

/* ---- all kinds */

/* The member of the query that a parameter is bound to. */
enum bind {
    BIND_END_,
    BIND_TEXT,
    BIND_OWNER,
    BIND_SANDBOX,
    BIND_LIMIT,
    BIND_TIME,
    BIND_SEQ,
    BIND_AFTER_TIME,
    BIND_AFTER_ID,
    BINDS_MAX = 4,
};

static struct db_value value_of_bind(const struct store_query *q, enum bind b)
{
    switch (b) {
    case BIND_TEXT:
        return db_text(q->text);
    case BIND_OWNER:
        return db_text(q->owner);
    case BIND_SANDBOX:
        return db_text(q->sandbox);
    case BIND_LIMIT:
        return db_int(query_row_limit(q));
    case BIND_TIME:
        return db_int(q->time_ns);
    case BIND_SEQ:
        return db_int(q->after_seq);
    case BIND_AFTER_TIME:
        return db_int(q->after.id[0] ? q->after.created_ns : INT64_MAX);
    case BIND_AFTER_ID:
        return db_text(str_from(q->after.id));
    default:
        return (struct db_value){ .kind = DB_END };
    }
}

/* A kind is one statement with the rows it returns and its parameters, or a function. */
static const struct query_kind {
    int (*run)(struct db *d, struct store_query *q, struct err *e);
    const struct row_shape *shape;
    enum sql sql, sql_owner; /* sql_owner: with an owner, if it differs */
    enum bind binds[BINDS_MAX];
} query_kinds[] = {
#define ROWS(shape_, sql_, ...) .shape = &(shape_), .sql = (sql_), .binds = { __VA_ARGS__ }
    [STORE_SANDBOX] = { ROWS(sandbox_shape, SQL_SANDBOX, BIND_TEXT, BIND_OWNER) },
    [STORE_PREFIX] = { .run = query_prefix },
    [STORE_SANDBOXES] = { .run = query_page },
    [STORE_LIVE] = { ROWS(sandbox_shape, SQL_LIVE, BIND_LIMIT) },
    [STORE_DUE] = { ROWS(sandbox_shape, SQL_DUE, BIND_LIMIT) },
    [STORE_EVENTS] = { .run = query_events },
    [STORE_EVENT_COUNTS] = { .run = query_event_counts },
    [STORE_HISTORY] = { .run = query_history },
    [STORE_PROCESSES] = { ROWS(process_shape, SQL_PROCESSES, BIND_SANDBOX, BIND_LIMIT) },
    [STORE_EGRESS] = { ROWS(egress_shape, SQL_EGRESS, BIND_SANDBOX) },
    [STORE_TOKENS] = { ROWS(token_shape, SQL_TOKENS, BIND_LIMIT, BIND_TIME) },
    [STORE_TOKENS_REVOKED] = { ROWS(token_shape, SQL_TOKENS_REVOKED, BIND_LIMIT) },
    [STORE_TOKENS_EXPIRED] = { ROWS(token_shape, SQL_TOKENS_EXPIRED, BIND_LIMIT, BIND_TIME) },
    [STORE_HOSTS] = { ROWS(host_shape, SQL_HOSTS, BIND_LIMIT) },
    [STORE_IDEMPOTENCY] = { ROWS(idempotency_shape, SQL_IDEMPOTENCY, BIND_OWNER, BIND_TEXT) },
    [STORE_OUTBOX] = { ROWS(event_shape, SQL_OUTBOX, BIND_SEQ, BIND_LIMIT) },
    [STORE_SETTING] = { .run = query_setting },
    [STORE_SETTINGS] = { .run = query_settings },
    [STORE_PEERS] = { ROWS(peer_shape, SQL_PEERS, BIND_LIMIT) },
    [STORE_APPROVAL] = { ROWS(approval_shape, SQL_APPROVAL, BIND_TEXT, BIND_OWNER) },
    [STORE_APPROVALS_OPEN] = { ROWS(approval_shape, SQL_APPROVALS_OPEN, BIND_LIMIT) },
    [STORE_APPROVALS_WAITING] = { ROWS(approval_shape, SQL_APPROVALS_WAITING, BIND_LIMIT) },
    [STORE_APPROVALS] = { ROWS(approval_shape, SQL_APPROVALS, BIND_LIMIT, BIND_AFTER_TIME,
                               BIND_AFTER_ID, BIND_OWNER),
                          .sql_owner = SQL_APPROVALS_OWNER },
    [STORE_GRANTS] = { ROWS(grant_shape, SQL_GRANTS, BIND_LIMIT) },
    [STORE_SNAPSHOTS] = { ROWS(snapshot_shape, SQL_SNAPSHOTS, BIND_LIMIT) },
    [STORE_IMAGES] = { ROWS(image_shape, SQL_IMAGES, BIND_LIMIT, BIND_TEXT) },
    [STORE_LAYERS] = { ROWS(layer_shape, SQL_LAYERS, BIND_LIMIT, BIND_TEXT) },
    [STORE_LEDGER] = { .run = query_ledger },
    [STORE_EGRESS_HEADS] = { .run = query_egress_heads },
#undef ROWS
};

int query_run(struct db *d, struct store_query *q, struct err *e)
{
    const struct query_kind *k = q->kind < COUNT_OF(query_kinds) ? &query_kinds[q->kind] : NULL;
    struct db_value with[BINDS_MAX + 1] = { 0 };

    if (!k)
        return err_set(e, ERR_BUG, "internal error: unknown store query %d", (int)q->kind);
    if (k->run)
        return k->run(d, q, e);
    for (size_t i = 0; i < BINDS_MAX; i++)
        with[i] = value_of_bind(q, k->binds[i]);
    return read_query_rows(d, q, k->sql_owner && q->owner.n ? k->sql_owner : k->sql, k->shape, with,
                           NULL, e);
}
