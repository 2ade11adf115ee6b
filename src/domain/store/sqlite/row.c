/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/row.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/own.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"
#include "domain/store/sqlite/internal.h"

enum { MAP_TEXT_MAX = 1 << 20 };

/* Columns of the struct RECORD. */
#define IN_(member, k, c)                                                                          \
    {                                                                                              \
        .kind = (k), .offset = offsetof(struct RECORD, member),                                    \
        .size = sizeof(((struct RECORD *)NULL)->member), .count = (c), .label = #member            \
    }
#define IN(member, kind)         IN_(member, ROW_##kind, 0)
#define IN_ENUM(member, end)     IN_(member, ROW_ENUM, end)
#define IN_ENV(member, kind, at) IN_(member, ROW_##kind, at)

#define RECORD sandbox_record
static const struct row_column sandbox_columns[] = {
    IN(id, TEXT),
    IN(owner, TEXT),
    IN_ENUM(state, SANDBOX_STATE_COUNT_),
    IN(profile, TEXT),
    IN(profile_version, I64),
    IN(extension, TEXT),
    IN(host, TEXT),
    IN(created_ns, I64),
    IN(updated_ns, I64),
    IN(ready_ns, I64),
    IN(finished_ns, I64),
    IN(ttl_ns, I64),
    IN(ttl_max_ns, I64),
    IN(idle_ns, I64),
    IN(deadline_ns, I64),
    IN(boot, TEXT),
    IN(reason, TEXT),
    IN(step, TEXT),
    IN_ENV(request, ENV, 1),
    IN(detail, STR),
    IN(labels, MAP),
    IN(maker, TEXT),
    IN(family, TEXT),
    IN(name, TEXT),
};
#undef RECORD

#define RECORD event_record
static const struct row_column event_columns[] = {
    IN(seq, SEQ),       IN(time_ns, I64), IN(type, TEXT),  IN(sandbox, TEXT),
    IN(owner, TEXT),    IN(from, INT),    IN(to, INT),     IN_ENUM(actor.kind, ACTOR_KIND_COUNT_),
    IN(actor.id, TEXT), IN(reason, TEXT), IN(detail, STR),
};
#undef RECORD

#define RECORD process_record
static const struct row_column process_columns[] = {
    IN(sandbox, TEXT),  IN(proc, U32),   IN_ENV(spec, WHOLE, 2), IN(started_ns, I64),
    IN(exited_ns, I64), IN(ended, BOOL), IN(how, INT),           IN(status, INT),
};
#undef RECORD

#define RECORD egress_record
static const struct row_column egress_columns[] = {
    IN(sandbox, TEXT),  IN(generation, I64), IN(endpoints, U32), IN(policy, STR),
    IN(approved, TEXT), IN(admin, INT),      IN(most, U32),
};
#undef RECORD

#define RECORD token_record
static const struct row_column token_columns[] = {
    IN(id, TEXT),
    IN(hash, BYTES),
    IN(name, TEXT),
    IN(owner, TEXT),
    IN_ENUM(actor, ACTOR_KIND_COUNT_),
    IN(verbs, I64),
    IN(labels, MAP),
    IN(gateway, BOOL),
    IN(created_ns, I64),
    IN(expires_ns, I64),
    IN(revoked_ns, I64),
    IN_ENUM(role, ROLE_COUNT_),
    IN(terms.preset, TEXT),
    IN(terms.per_hour, I64),
    IN(terms.per_day, I64),
    IN(terms.concurrent, I64),
    IN(terms.calls, I64),
    IN(terms.network, STR),
    IN_ENUM(terms.filesystem, TOKEN_FILES_COUNT_),
    IN(terms.duration_s, I64),
    IN(terms.memory_mb, I64),
    IN(terms.cpu_milli, I64),
    IN(egress, U32),
    IN(maker, TEXT),
};
#undef RECORD

#define RECORD host_record
static const struct row_column host_columns[] = {
    IN(name, TEXT),
    IN(address, TEXT),
    IN(added_ns, I64),
    IN(labels, MAP),
};
#undef RECORD

#define RECORD idempotency_record
static const struct row_column idempotency_columns[] = {
    IN(owner, TEXT), IN(key, TEXT), IN(body, BYTES), IN(sandbox, TEXT), IN(created_ns, I64),
};
#undef RECORD

#define RECORD peer_record
static const struct row_column peer_columns[] = {
    IN(id, TEXT),
    IN(hash, BYTES),
    IN(owner, TEXT),
    IN_ENUM(actor.kind, ACTOR_KIND_COUNT_),
    IN(actor.id, TEXT),
    IN(uid, I64),
    IN_ENUM(role, ROLE_COUNT_),
    IN(client, TEXT),
    IN(created_ns, I64),
    IN(seen_ns, I64),
    IN(ended_ns, I64),
    IN(labels, MAP),
};
#undef RECORD

#define RECORD approval_record
static const struct row_column approval_columns[] = {
    IN(id, TEXT),        IN(peer, TEXT),
    IN(owner, TEXT),     IN(uid, I64),
    IN(tool, TEXT),      IN(sandbox, TEXT),
    IN(version, TEXT),   IN(rule, TEXT),
    IN(tier, U32),       IN_ENUM(state, APPROVAL_STATE_COUNT_),
    IN(created_ns, I64), IN(expires_ns, I64),
    IN(decided_ns, I64), IN(finished_ns, I64),
    IN(approver, TEXT),  IN(reason, TEXT),
    IN(failed, BOOL),    IN(args, SEALED),
    IN(result, SEALED),  IN(request, STR),
    IN(labels, MAP),
};
#undef RECORD

#define RECORD grant_record
static const struct row_column grant_columns[] = {
    IN(id, TEXT),      IN(peer, TEXT),     IN(tool, TEXT), IN(sandbox, TEXT),
    IN(version, TEXT), IN(approver, TEXT), IN(uses, U32),  IN(expires_ns, I64),
};
#undef RECORD

#define RECORD snapshot_record
static const struct row_column snapshot_columns[] = {
    IN(id, TEXT),        IN(owner, TEXT),     IN(name, TEXT),
    IN(sandbox, TEXT),   IN(profile, TEXT),   IN(profile_version, I64),
    IN(created_ns, I64), IN(bytes, I64),      IN(entries, I64),
    IN(pause_ns, I64),   IN(image, STR),      IN(layers, STR),
    IN(labels, MAP),     IN(base, STR),       IN(digest, STR),
    IN(config, STR),     IN(family, TEXT),    IN(expires_ns, I64),
    IN(settings, STR),   IN(checkpoint, I64), IN(parent, I64),
    IN(changed, I64),    IN(cause, TEXT),
};
#undef RECORD

#define RECORD image_record
static const struct row_column image_columns[] = {
    IN(ref, TEXT),   IN(digest, TEXT), IN(id, TEXT),
    IN(config, STR), IN(layers, STR),  IN(created_ns, I64),
};
#undef RECORD

#define RECORD layer_record
static const struct row_column layer_columns[] = {
    IN(name, TEXT), IN(digest, TEXT), IN(bytes, I64), IN(entries, I64), IN(created_ns, I64),
};
#undef RECORD

#define RECORD egress_head_record
static const struct row_column egress_head_columns[] = {
    IN(sandbox, TEXT),     IN(seq, I64),     IN(digest, BYTES), IN(cut_seq, I64),
    IN(cut_digest, BYTES), IN(time_ns, I64), IN(mac, BYTES),
};
#undef RECORD

#define SHAPE(type, text)                                                                          \
    const struct row_shape type##_shape = { (text), type##_columns, (int)COUNT_OF(type##_columns), \
                                            sizeof(struct type##_record) }
SHAPE(sandbox, "sandbox");
SHAPE(event, "event");
SHAPE(process, "process");
SHAPE(egress, "egress policy");
SHAPE(token, "token");
SHAPE(host, "host");
SHAPE(idempotency, "idempotency key");
SHAPE(peer, "peer");
SHAPE(approval, "held call");
SHAPE(grant, "grant");
SHAPE(snapshot, "snapshot");
SHAPE(image, "image");
SHAPE(layer, "layer");
SHAPE(egress_head, "egress head");

/* ---- copying */

void *row_copy(const struct row_shape *s, const void *record, struct arena *a)
{
    char *copy = arena_alloc(a, s->size);
    bool good = copy != NULL;

    if (good)
        memcpy(copy, record, s->size);
    for (int i = 0; good && i < s->n; i++) {
        void *member = copy + s->columns[i].offset;

        if (s->columns[i].kind >= ROW_STR && s->columns[i].kind <= ROW_WHOLE) {
            struct str *text = member;

            text->p = arena_dup(a, *text);
            good = text->p != NULL;
        } else if (s->columns[i].kind == ROW_MAP) {
            good = json_map_copy(member, a);
        }
    }
    return good ? copy : NULL;
}

/* ---- writing */

static int bind_map(const struct json_map *m, sqlite3_stmt *st, int at, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MAP_TEXT_MAX);
    struct json_writer w;
    int r;

    if (m->n == 0)
        return sqlite3_bind_text(st, at, "{}", 2, SQLITE_STATIC);
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    for (size_t i = 0; i < m->n; i++) {
        json_key(&w, str_from(m->p[i].key));
        json_put_str(&w, str_from(m->p[i].value));
    }
    json_end_object(&w);
    r = json_writer_finish(&w, e);
    if (r < 0)
        return r;
    return sqlite3_bind_text64(st, at, text.p, text.n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static int bind_str(struct str s, sqlite3_stmt *st, int at)
{
    return sqlite3_bind_text64(st, at, s.n ? s.p : "", s.n, SQLITE_STATIC, SQLITE_UTF8);
}

/* SQLite's codes are positive, ours negative. */
static int bind_member(const struct row_column *c, const void *member, sqlite3_stmt *st, int at,
                       struct err *e)
{
    switch (c->kind) {
    case ROW_TEXT:
        return bind_str((struct str){ member, strnlen(member, c->size) }, st, at);
    case ROW_BYTES:
        return sqlite3_bind_blob(st, at, member, (int)c->size, SQLITE_STATIC);
    case ROW_STR:
    case ROW_SEALED:
    case ROW_WHOLE:
    case ROW_ENV:
        return bind_str(*(const struct str *)member, st, at);
    case ROW_MAP:
        return bind_map(member, st, at, e);
    case ROW_I64:
        return sqlite3_bind_int64(st, at, *(const int64_t *)member);
    case ROW_INT:
    case ROW_ENUM:
        return sqlite3_bind_int(st, at, *(const int *)member);
    case ROW_U32:
        return sqlite3_bind_int64(st, at, *(const uint32_t *)member);
    case ROW_BOOL:
        return sqlite3_bind_int(st, at, *(const bool *)member);
    case ROW_SEQ:
        return *(const int64_t *)member ? sqlite3_bind_int64(st, at, *(const int64_t *)member)
                                        : sqlite3_bind_null(st, at);
    }
    return SQLITE_MISUSE;
}

/* ---- sealing */

static bool is_sealed_kind(const struct row_column *c, const struct keyring *keys)
{
    return keys && (c->kind == ROW_SEALED || c->kind == ROW_ENV || c->kind == ROW_WHOLE);
}

/* The name that a sealed text is bound to: "sandbox request sbx_…". */
static struct str name_column(const struct row_shape *s, int i, const void *record,
                              char buf[static 192])
{
    const struct row_column *c = &s->columns[i];
    char what[64];

    snprintf(what, sizeof what, "%s %s", s->name, c->label);
    return seal_name(what, (const char *)record + s->columns[0].offset, buf);
}

static int bind_sealed(const struct row_shape *s, int i, const void *record, sqlite3_stmt *st,
                       struct keyring *keys, struct err *e)
{
    const struct row_column *c = &s->columns[i];
    const struct str *text = (const void *)((const char *)record + c->offset);
    AUTO(buf_done) struct buf out = BUF_INIT(2 * text->n + 256);
    char name[192];
    int r = seal_text(keys, c->kind, c->count, name_column(s, i, record, name), *text, &out, e);

    if (r < 0)
        return r;
    return sqlite3_bind_text64(st, i + 1, out.n ? out.p : "", out.n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static int bind_row(const struct row_shape *s, const void *record, sqlite3_stmt *st,
                    struct keyring *keys, struct err *e)
{
    for (int i = 0; i < s->n; i++) {
        const struct row_column *c = &s->columns[i];
        int r = is_sealed_kind(c, keys)
                    ? bind_sealed(s, i, record, st, keys, e)
                    : bind_member(c, (const char *)record + c->offset, st, i + 1, e);

        if (r > 0)
            return err_set(e, ERR_TOO_BIG, "a %s is too large for the store: %s", s->name,
                           sqlite3_errstr(r));
        if (r < 0)
            return err_wrap(e, r, "writing the labels of a %s", s->name);
    }
    return 0;
}

int row_write(struct db *d, enum sql id, const struct row_shape *s, const void *record,
              const struct db_value *more, struct err *e)
{
    sqlite3_stmt *st;
    int r = db_prepare(d, id, &st, e);

    if (r < 0)
        return r;
    r = bind_row(s, record, st, d->keys, e);
    if (r < 0) {
        db_end(st);
        return r;
    }
    db_bind(st, s->n + 1, more);
    return db_finish(d, st, e);
}

/* ---- reading */

static struct str column_str(sqlite3_stmt *st, int at)
{
    const void *p = sqlite3_column_blob(st, at); /* without conversion */

    return (struct str){ p, p ? (size_t)sqlite3_column_bytes(st, at) : 0 };
}

/* Each of these returns 0, -ERR_INVALID for a value that bind_row() would not write, or
 * -ERR_TOO_BIG if the arena is full. */

static int read_map_column(struct str text, struct arena *a, struct json_map *ret)
{
    const struct json_limits limits = { .bytes = MAP_TEXT_MAX, .depth = JSON_DEPTH_MAX };
    const struct json *tree;
    struct json_pair *p;
    size_t n = 0;
    int r = json_read(text, limits, a, &tree, NULL);

    if (r < 0)
        return r;
    if (tree->type != JSON_OBJECT)
        return -ERR_INVALID;
    p = arena_array(a, tree->list.n, sizeof *p);
    if (!p)
        return -ERR_TOO_BIG;
    for (const struct json *m = json_first(tree); m != json_end(tree); m++) {
        if (m->type != JSON_STR)
            return -ERR_INVALID;
        p[n++] = (struct json_pair){ m->key.p, m->s.p };
    }
    *ret = (struct json_map){ p, n };
    return 0;
}

static int read_str_column(struct str text, struct arena *a, struct str *ret)
{
    *ret = (struct str){ arena_dup(a, text), text.n };
    return ret->p ? 0 : -ERR_TOO_BIG;
}

static int read_number_column(const struct row_column *c, int64_t number, void *ret)
{
    bool fits = true;

    if (c->kind == ROW_INT) {
        fits = number >= INT32_MIN && number <= INT32_MAX;
        *(int *)ret = (int)number;
    } else if (c->kind == ROW_ENUM) {
        fits = number >= 0 && number < c->count;
        *(unsigned *)ret = (unsigned)number;
    } else if (c->kind == ROW_U32) {
        fits = number >= 0 && number <= UINT32_MAX;
        *(uint32_t *)ret = (uint32_t)number;
    } else if (c->kind == ROW_BOOL) {
        *(bool *)ret = number != 0;
    } else {
        *(int64_t *)ret = number;
    }
    return fits ? 0 : -ERR_INVALID;
}

static int read_row_member(const struct row_column *c, sqlite3_stmt *st, int at, struct arena *a,
                           void *member)
{
    struct str text;

    switch (c->kind) {
    case ROW_TEXT:
        return str_copy(column_str(st, at), member, c->size) ? 0 : -ERR_INVALID;
    case ROW_BYTES:
        text = column_str(st, at);
        if (text.n != c->size)
            return -ERR_INVALID;
        memcpy(member, text.p, text.n);
        return 0;
    case ROW_STR:
    case ROW_SEALED:
    case ROW_WHOLE:
    case ROW_ENV:
        return read_str_column(column_str(st, at), a, member);
    case ROW_MAP:
        return read_map_column(column_str(st, at), a, member);
    default:
        return read_number_column(c, sqlite3_column_int64(st, at), member);
    }
}

static int read_sealed(const struct row_shape *s, int i, sqlite3_stmt *st, struct arena *a,
                       void *record, struct keyring *keys)
{
    const struct row_column *c = &s->columns[i];
    struct str text = column_str(st, i);
    AUTO(buf_done) struct buf out = BUF_INIT(text.n + 3);
    char name[192];
    int r = unseal_text(keys, c->kind, c->count, name_column(s, i, record, name), text, &out, NULL);

    return r < 0 ? r : read_str_column(buf_str(&out), a, (void *)((char *)record + c->offset));
}

int row_read(struct db *d, const struct row_shape *s, sqlite3_stmt *st, struct arena *a,
             void *record, struct err *e)
{
    for (int i = 0; i < s->n; i++) {
        const struct row_column *c = &s->columns[i];
        int r = is_sealed_kind(c, d->keys)
                    ? read_sealed(s, i, st, a, record, d->keys)
                    : read_row_member(c, st, i, a, (char *)record + c->offset);

        if (r == -ERR_TOO_BIG)
            return err_set(e, ERR_TOO_BIG, "the answer exceeds %zu bytes", a->max);
        if (r < 0)
            return err_set(e, ERR_INVALID, "a %s in the store has an unreadable '%s'", s->name,
                           sqlite3_column_name(st, i));
    }
    return 0;
}

const char *row_made_from(const struct sandbox_record *b, enum row_origin what, struct arena *a)
{
    static const char *const keys[ROW_ORIGINS] = { "\"snapshot\"", "\"image\"" };
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };
    struct str key = str_from(keys[what]);
    const struct json *all, *v;

    if (!b->request.n || !memmem(b->request.p, b->request.n, key.p, key.n))
        return NULL; /* the usual case: no parsing necessary */
    if (json_read(b->request, limits, a, &all, NULL) < 0 || all->type != JSON_OBJECT)
        return NULL;
    v = json_get(all, (struct str){ key.p + 1, key.n - 2 });
    return v && v->type == JSON_STR && v->s.n ? arena_dup(a, v->s) : NULL;
}
