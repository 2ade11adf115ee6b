/* SPDX-License-Identifier: Apache-2.0 */
/* Seals secrets in the store (lib/secrets/keyring.h): environment variables in requests of sandboxes,
 * start requests of background processes, arguments and results of held calls, and settings, which
 * include the key of E2B's tokens. A sealed text is bound to its table, column and record. */
#include "base/log.h"
#include "base/own.h"
#include "lib/secrets/env.h"
#include "domain/store/sqlite/internal.h"

#define ERASED      "{}"          /* the request of a process whose sandbox is destroyed */
#define SETTING_KEY "secrets.key" /* number of the key that all secrets are sealed with */

enum { NAME_MAX_ = 192 };

struct str seal_name(const char *what, const char *id, char buf[static NAME_MAX_])
{
    int n = snprintf(buf, NAME_MAX_, "%s %s", what, id);

    return (struct str){ buf, n < 0 ? 0 : n < NAME_MAX_ ? (size_t)n : NAME_MAX_ - 1 };
}

/* --- one text --- */

int seal_text(struct keyring *k, enum row_kind kind, unsigned depth, struct str name,
              struct str text, struct buf *out, struct err *e)
{
    if (kind == ROW_ENV)
        return env_seal(k, name, text, depth, out, e);
    return text.n ? keyring_seal(k, name, text, out, e) : 0;
}

int unseal_text(struct keyring *k, enum row_kind kind, unsigned depth, struct str name,
                struct str text, struct buf *out, struct err *e)
{
    struct err why = { 0 };
    bool lost = false;
    int r;

    if (kind == ROW_ENV || (kind == ROW_WHOLE && !sealed_is(text))) {
        r = env_unseal(k, name, text, depth, out, &lost, &why);
    } else if (sealed_is(text)) {
        lost = keyring_unseal(k, name, text, out, &why) < 0;
        r = 0;
    } else {
        r = buf_add(out, text);
    }
    if (lost)
        LOG(ERROR, "secrets.unreadable", LOG_STR("record", name), LOG_S("error", why.msg));
    return r < 0 ? err_set(e, ERR_TOO_BIG, "the sealed text of " STR_FMT " has more than %zu bytes",
                           STR_ARG(name), out->max)
                 : 0;
}

/* --- in SQL, for all rows of a table --- */

static struct str sql_value_text(sqlite3_value *v)
{
    const void *p = sqlite3_value_blob(v);

    return (struct str){ p ? p : "", p ? (size_t)sqlite3_value_bytes(v) : 0 };
}

static void give_text(sqlite3_context *c, struct buf *b, int r)
{
    if (r < 0)
        sqlite3_result_error(c, "sealing failed", -1);
    else
        sqlite3_result_text64(c, b->p ? b->p : "", b->n, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static bool is_current(struct keyring *k, struct str text, unsigned depth)
{
    struct str value = text;

    if (depth && !env_find(text, depth, &value))
        return true;
    if (depth && value.n > 2 && value.p[0] == '"')
        value = (struct str){ value.p + 1, value.n - 2 };
    return !text.n || sealed_key(value) == keyring_active(k);
}

/* reseal(WHAT, ID, DEPTH, TEXT): seals TEXT with the active key. DEPTH > 0: only its "env" at that
 * depth; 0: the whole text; < 0: the whole text, of which older versions sealed only "env" at the
 * depth -DEPTH. A text that no key opens is returned unchanged. */
static void on_reseal(sqlite3_context *c, int n, sqlite3_value **v)
{
    struct keyring *k = sqlite3_user_data(c);
    struct str text = sql_value_text(v[3]);
    AUTO(buf_done) struct buf plain = BUF_INIT(text.n + 1), out = BUF_INIT(2 * text.n + 256);
    int depth_code = sqlite3_value_int(v[2]);
    unsigned depth = depth_code > 0 ? (unsigned)depth_code : 0;
    enum row_kind kind = depth ? ROW_ENV : ROW_SEALED;
    char name[NAME_MAX_];
    struct str place = seal_name((const char *)sqlite3_value_text(v[0]),
                                 (const char *)sqlite3_value_text(v[1]), name);
    bool lost = false;
    int r = 0;

    if (is_current(k, text, depth)) {
        sqlite3_result_value(c, v[3]);
        return;
    }
    if (depth)
        r = env_unseal(k, place, text, depth, &plain, &lost, NULL);
    else if (sealed_is(text))
        lost = keyring_unseal(k, place, text, &plain, NULL) < 0;
    else if (depth_code < 0)
        r = env_unseal(k, place, text, (unsigned)-depth_code, &plain, &lost, NULL);
    else
        r = buf_add(&plain, text);
    if (r >= 0 && !lost)
        r = seal_text(k, kind, depth, place, buf_str(&plain), &out, NULL);
    if (lost)
        sqlite3_result_value(c, v[3]);
    else
        give_text(c, &out, r);
}

/* erase_env(DEPTH, TEXT): removes "env" at that depth. */
static void on_erase_env(sqlite3_context *c, int n, sqlite3_value **v)
{
    struct str text = sql_value_text(v[1]);
    AUTO(buf_done) struct buf out = BUF_INIT(text.n + 3);

    give_text(c, &out, env_erase(text, (unsigned)sqlite3_value_int(v[0]), &out));
}

int seal_all(struct db *d, struct err *e)
{
    char sql[160];
    int r = db_exec(
        d,
        "UPDATE sandboxes SET request = erase_env(1, request) WHERE live = 0"
        " AND request <> erase_env(1, request);"
        "UPDATE processes SET spec = '" ERASED "' WHERE spec <> '" ERASED "'"
        " AND sandbox IN (SELECT id FROM sandboxes WHERE live = 0);"
        "UPDATE sandboxes SET request = reseal('sandbox request', id, 1, request) WHERE live = 1;"
        "UPDATE processes SET spec = reseal('process spec', sandbox, -2, spec)"
        " WHERE spec <> '" ERASED "';"
        "UPDATE approvals SET args = reseal('held call args', id, 0, args),"
        " result = reseal('held call result', id, 0, result);"
        "UPDATE settings SET value = reseal('setting value', key, 0, value) WHERE key"
        " <> '" SETTING_KEY "';",
        e);

    snprintf(sql, sizeof sql,
             "INSERT INTO settings (key, value) VALUES ('" SETTING_KEY "', '%u')"
             " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
             (unsigned)keyring_active(d->keys));
    return r < 0 ? r : db_exec(d, sql, e);
}

int seal_erase_specs(struct db *d, const char *sandbox, struct err *e)
{
    return db_run(d, SQL_ERASE_SPECS, DB_WITH(db_text(str_from(sandbox)), db_text(STR(ERASED))), e);
}

bool seal_applies(struct str setting)
{
    return !str_eq(setting, STR(SETTING_KEY));
}

/* --- at the start --- */

/* Seals a store of an older version, which has secrets in plain text, also in free pages: hence
 * VACUUM. */
static int seal_old(struct db *d, struct err *e)
{
    int64_t sealed_with = 0, in_clear = 0;
    int r = db_number(d,
                      "SELECT coalesce((SELECT CAST(value AS INTEGER) FROM settings WHERE key = "
                      "'" SETTING_KEY "'), 0)",
                      &sealed_with, e);

    if (r >= 0) /* of a version that sealed only variables of processes */
        r = db_number(d,
                      "SELECT EXISTS (SELECT 1 FROM processes WHERE spec <> '" ERASED "'"
                      " AND substr(spec, 1, 7) <> 'sealed:')",
                      &in_clear, e);
    if (r < 0 || (sealed_with == keyring_active(d->keys) && !in_clear))
        return r;
    r = db_exec(d, "BEGIN IMMEDIATE", e);
    if (r >= 0)
        r = seal_all(d, e);
    if (r >= 0)
        r = db_exec(d, "COMMIT", e);
    if (r >= 0 && (!sealed_with || in_clear))
        r = db_exec(d, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", e);
    if (r >= 0)
        r = db_force(d, e);
    if (r >= 0)
        LOG(INFO, "secrets.sealed", LOG_I("key", keyring_active(d->keys)));
    return r;
}

int store_seal_with(struct store *s, struct keyring *k, struct err *e)
{
    const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
    struct db *d = &s->writer.db;
    int rc, r;

    s->writer.db.keys = s->maintenance.db.keys = k;
    for (size_t i = 0; i < STORE_READERS; i++)
        s->readers[i].db.keys = k;
    rc = sqlite3_create_function(d->h, "reseal", 4, flags, k, on_reseal, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_create_function(d->h, "erase_env", 2, flags | SQLITE_DETERMINISTIC, NULL,
                                     on_erase_env, NULL, NULL);
    r = rc == SQLITE_OK ? seal_old(d, e) : db_fail(d, rc, e);
    return err_wrap(e, r, "sealing the secrets of the store");
}
