/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of existing files by the toolbox: replaces text, sets permissions. PID 1's file
 * operations do it: no program of the sandbox runs. */
#include <stdio.h>

#include "edge/daytona/internal.h"
#include "base/own.h"
#include "edge/core/file_put.h"
#include "edge/core/file_take.h"

enum { FILES_MAX = 1022, TEXT_MAX = 128 << 10, FILE_MAX = 32 << 20 };

/* --- replace --- */

struct replacement {
    struct json_strs files;
    const char *pattern, *value;
};

#define AT(member) JSON_AT(struct replacement, member)

static const struct json_field replace_fields[] = {
    { "files", JSON_KIND_STRS, AT(files), .required = true, .max = FILES_MAX },
    { "pattern", JSON_KIND_STR, AT(pattern), .required = true, .min = 1, .max = TEXT_MAX - 1 },
    { "newValue", JSON_KIND_STR, AT(value), .required = true, .max = TEXT_MAX - 1 },
};

struct replacing {
    struct call *call;
    struct replacement asked;
    size_t next; /* of the current file */
    const char *paths[2];
    struct file_take take;
    struct file_put put;
    struct buf changed; /* the new contents */
    struct buf text;    /* the answer */
    struct json_writer writer;
};

static void replace_in_next(struct replacing *k);

static void settle_file(struct replacing *k, const struct err *e)
{
    json_begin_object(&k->writer);
    json_field_text(&k->writer, "file", k->paths[0]);
    json_field_bool(&k->writer, "success", !e);
    if (e)
        json_field_text(&k->writer, "error", e->msg);
    json_end_object(&k->writer);
    k->next++;
    replace_in_next(k);
}

static void on_file_written(struct file_put *p, const struct err *e)
{
    settle_file(container_of(p, struct replacing, put), e);
}

/* Replaces all occurrences; returns their number, or -ERR_TOO_BIG. */
static int substitute_text(const struct replacement *q, struct str from, struct buf *ret,
                           struct err *e)
{
    struct str old = str_from(q->pattern), new = str_from(q->value);
    int found = 0, r = 0;

    buf_clear(ret);
    while (r >= 0 && from.n) {
        const char *at = memmem(from.p, from.n, old.p, old.n);
        size_t before = at ? (size_t)(at - from.p) : from.n;

        r = buf_add(ret, (struct str){ from.p, before });
        if (r >= 0 && at)
            r = buf_add(ret, new);
        before += at ? old.n : 0;
        from = (struct str){ from.p + before, from.n - before };
        found += at != NULL;
    }
    if (r < 0)
        return err_set(e, ERR_TOO_BIG, "the changed file would exceed %d bytes", FILE_MAX);
    return found;
}

/* Files without the text are not written. */
static void on_file_read(struct file_take *t, const struct err *e)
{
    struct replacing *k = container_of(t, struct replacing, take);
    struct err why;
    int n;

    if (e) {
        settle_file(k, e);
        return;
    }
    n = substitute_text(&k->asked, buf_str(&t->data), &k->changed, &why);
    if (n <= 0)
        settle_file(k, n < 0 ? &why : NULL);
    else
        file_put_start(&k->put, k->call, k->paths, DAYTONA_USER, buf_str(&k->changed),
                       on_file_written);
}

static void replace_in_next(struct replacing *k)
{
    if (!k->call->x)
        return;
    if (k->next == k->asked.files.n) {
        json_end_array(&k->writer);
        call_answer_written(k->call, &k->writer, &k->text, NULL);
        return;
    }
    k->paths[0] = daytona_path(k->call, str_from(k->asked.files.p[k->next]));
    file_take_start(&k->take, k->call, START_READ, k->paths, DAYTONA_USER, 0, on_file_read);
}

static void replace_in_files(struct call *c)
{
    struct replacement q = { 0 };
    struct replacing *k;

    if (!daytona_read_body(c, replace_fields, COUNT_OF(replace_fields), &q))
        return;
    for (size_t i = 0; i < q.files.n; i++)
        if (!daytona_path(c, str_from(q.files.p[i])))
            return;
    k = call_state(c, sizeof *k, NULL);
    k->call = c;
    k->asked = q;
    call_own_buf(c, &k->changed, FILE_MAX);
    call_own_buf(c, &k->text, CALL_ANSWER_MAX);
    json_writer_init(&k->writer, &k->text, JSON_COMPACT);
    json_begin_array(&k->writer);
    replace_in_next(k);
}

/* --- permissions --- */

enum { SETTINGS_MAX = 3, SETTING_MAX = 256 };

struct permitting {
    struct file_take take;
    const char *argv[2 + SETTINGS_MAX];
    size_t n;
};

static void on_permissions_set(struct file_take *t, const struct err *e)
{
    if (e)
        call_fail(t->call, e);
    else
        daytona_answer_done(t->call);
}

/* Returns false after it has answered the call. */
static bool add_permission_setting(struct call *c, struct permitting *k, const char *name)
{
    struct str value = { NULL, 0 };
    char text[SETTING_MAX + 16];

    if (call_query(c, name, &value) < 0)
        return false;
    if (!value.n)
        return true;
    if (value.n > SETTING_MAX || memchr(value.p, 0, value.n))
        return call_fail_with(c, 400, "BAD_REQUEST", "%s: longer than %d bytes or contains NUL",
                              name, SETTING_MAX);
    snprintf(text, sizeof text, "%s=" STR_FMT, name, STR_ARG(value));
    k->argv[k->n++] = arena_dup(&c->own, str_from(text));
    return true;
}

static void set_file_permissions(struct call *c)
{
    const char *path = daytona_query_path(c, "path");
    struct permitting *k;

    if (!path)
        return;
    k = call_state(c, sizeof *k, NULL);
    k->argv[k->n++] = path;
    if (!add_permission_setting(c, k, "mode") || !add_permission_setting(c, k, "owner") ||
        !add_permission_setting(c, k, "group"))
        return;
    file_take_start(&k->take, c, k->n == 1 ? START_STAT : START_PERMIT, k->argv, DAYTONA_USER, 0,
                    on_permissions_set);
}

#define ROW(path, flags, handler)                                                                  \
    DAYTONA_ROUTE(H1_POST, VERB_FILES, DAYTONA_INSIDE "/files" path, flags, handler)

const struct route routes_daytona_file_tools[] = {
    ROW("/replace", ROUTE_JSON, replace_in_files),
    ROW("/permissions", 0, set_file_permissions),
    { .path = NULL },
};
