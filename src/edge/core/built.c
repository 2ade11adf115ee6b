/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/built.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "edge/core/internal.h"
#include "edge/core/template.h"
#include "control/owner/owner_share.h"
#include "control/snapshot/snapshots.h"
#include "lib/json/reader.h"

#define SETTING "e2b.templates"

enum { TEXT_MAX = 4 << 20 };

#define AT(member) JSON_AT(struct built, member)

static const struct json_field built_fields[] = {
    { "id", JSON_KIND_STR, AT(id), .required = true, .max = ID_MAX - 1 },
    { "build", JSON_KIND_STR, AT(build), .required = true, .max = ID_MAX - 1 },
    { "name", JSON_KIND_STR, AT(name), .required = true, .max = BUILT_NAME_MAX },
    { "snapshot", JSON_KIND_STR, AT(snapshot), .required = true, .max = ID_MAX - 1 },
    { "user", JSON_KIND_STR, AT(user), .preset = "''" },
    { "workdir", JSON_KIND_STR, AT(workdir), .preset = "''" },
    { "start", JSON_KIND_STR, AT(start), .preset = "''" },
    { "ready", JSON_KIND_STR, AT(ready), .preset = "''" },
    { "env", JSON_KIND_MAP, AT(env), .max = REQUEST_ENV_MAX },
    { "created_ns", JSON_KIND_INT, AT(created_ns), .min = 0, .max = INT64_MAX },
};

struct templates_document {
    struct json_objects all;
};

static const struct json_field document_fields[] = {
    { "templates", JSON_KIND_OBJECTS, JSON_AT(struct templates_document, all), .max = BUILT_MAX,
      .item_size = sizeof(struct built), JSON_FIELDS(built_fields) },
};

struct templates {
    struct arena arena;
    struct templates_document document;
};

static void templates_free(struct templates *t)
{
    if (t)
        arena_done(&t->arena);
    free(t);
}

static int read_templates_json(struct str text, struct templates **ret, struct err *e)
{
    const struct json_limits limits = { .bytes = TEXT_MAX, .depth = 8 };
    struct templates *t = new0(sizeof *t);
    const struct json *v;
    int r;

    arena_init(&t->arena, 4 * TEXT_MAX);
    r = json_read(text, limits, &t->arena, &v, e);
    if (r >= 0)
        r = json_bind(v, document_fields, COUNT_OF(document_fields), &t->document, &t->arena, e);
    if (r < 0)
        templates_free(t);
    else
        *ret = t;
    return r < 0 ? r : 0;
}

int built_open(struct api *a, struct err *e)
{
    struct store_query q = { .kind = STORE_SETTING, .text = STR(SETTING) };
    int r;

    arena_init(&q.arena, 4 * TEXT_MAX);
    r = store_ask_now(control_store(a->control), &q, e);
    if (r >= 0)
        r = read_templates_json(q.setting ? str_from(q.setting) : STR("{}"), &a->templates, e);
    arena_done(&q.arena);
    return err_wrap(e, r, "loading the templates of E2B clients");
}

void built_close(struct api *a)
{
    templates_free(take_ptr(a->templates));
}

/* --- lookup --- */

static const struct built *template_at(const struct api *a, size_t i)
{
    return (const struct built *)a->templates->document.all.p + i;
}

static size_t count_templates(const struct api *a)
{
    return a->templates ? a->templates->document.all.n : 0; /* NULL: closed */
}

static const struct snapshot *find_template_snapshot(const struct call *c, const struct built *b)
{
    return snapshot_find(c->api->control, &c->caller, str_from(b->snapshot));
}

/* A name means a template of the caller's owner, as names of snapshots do (snapshot_find()). */
static bool is_template_called(const struct call *c, const struct built *b, struct str name)
{
    const struct snapshot *s = find_template_snapshot(c, b);

    return s && (str_eq(name, str_from(b->id)) || (str_eq(name, str_from(b->name)) &&
                                                   strcmp(s->record.owner, c->caller.owner) == 0));
}

const struct built *built_find(const struct call *c, struct str name)
{
    for (size_t i = 0; i < count_templates(c->api); i++) {
        const struct built *b = template_at(c->api, i);

        if (is_template_called(c, b, name))
            return b;
    }
    return NULL;
}

const struct built *built_of_snapshot(const struct api *a, const char *snapshot)
{
    for (size_t i = 0; i < count_templates(a); i++)
        if (strcmp(template_at(a, i)->snapshot, snapshot) == 0)
            return template_at(a, i);
    return NULL;
}

const struct built *built_of_build(const struct api *a, const char *build)
{
    for (size_t i = 0; i < count_templates(a); i++)
        if (strcmp(template_at(a, i)->build, build) == 0)
            return template_at(a, i);
    return NULL;
}

const struct built *built_of_sandbox(struct call *c)
{
    struct create_request q;

    if (!count_templates(c->api))
        return NULL;
    q = template_original_request(sandbox_view(c->sandbox).record, &c->arena);
    return q.snapshot ? built_of_snapshot(c->api, q.snapshot) : NULL;
}

void built_each(const struct call *c, void (*each)(void *user, const struct built *b), void *user)
{
    for (size_t i = 0; i < count_templates(c->api); i++)
        if (find_template_snapshot(c, template_at(c->api, i)))
            each(user, template_at(c->api, i));
}

/* --- changes --- */

struct templates_save_op {
    struct store_txn txn;
    built_fn *done;
    void *user;
};

static void on_templates_saved(struct store_txn *t, int r, const struct err *e)
{
    struct templates_save_op *s = container_of(t, struct templates_save_op, txn);

    s->done(s->user, r, e);
    free(s);
}

/* Writes all templates except `without`, and `new`. */
static int write_templates_json(const struct api *a, const struct built *new, const char *without,
                                struct buf *out, struct err *e)
{
    struct built *all = new0_array(count_templates(a) + 1, sizeof *all);
    struct templates_document d = { { all, 0 } };
    struct json_writer w;
    int r;

    for (size_t i = 0; i < count_templates(a); i++)
        if (!without || strcmp(template_at(a, i)->id, without) != 0)
            all[d.all.n++] = *template_at(a, i);
    if (new)
        all[d.all.n++] = *new;
    json_writer_init(&w, out, JSON_COMPACT);
    json_unbind(&d, document_fields, COUNT_OF(document_fields), &w);
    r = json_writer_finish(&w, e);
    if (r >= 0 && d.all.n > BUILT_MAX)
        r = err_set(e, ERR_QUOTA, "there are %d templates, the limit of this daemon; delete some",
                    BUILT_MAX);
    free(all);
    return r;
}

/* Replaces the templates in memory at once, so that the next change builds on this one. If the
 * commit fails, the caller deletes the new snapshot, and the template is then invisible. */
static void save_templates(struct api *a, const struct built *new, const char *without,
                           built_fn *done, void *user)
{
    struct buf text AUTO(buf_done) = BUF_INIT(TEXT_MAX);
    struct templates *next = NULL;
    struct templates_save_op *s;
    struct err e;
    int r = a->templates ? write_templates_json(a, new, without, &text, &e)
                         : err_set(&e, ERR_BUSY, "the daemon is stopping");

    if (r >= 0)
        r = read_templates_json(buf_str(&text), &next, &e);
    if (r < 0) {
        done(user, r, &e);
        return;
    }
    s = new0(sizeof *s);
    if (buf_add_c(&text, '\0') < 0)
        abort();
    templates_free(a->templates);
    a->templates = next;
    *s = (struct templates_save_op){ .done = done, .user = user };
    store_txn_begin(&s->txn, control_store(a->control));
    store_set(&s->txn, SETTING, text.p);
    store_commit(&s->txn, on_templates_saved);
}

/* A template belongs to the owner of its snapshot. */
static int check_owner_templates(const struct api *a, const char *owner, const char *family,
                                 const char *instead, struct err *e)
{
    struct account of = account_of(a->control, owner, family);
    struct caller who = { .admin = false };
    size_t n = 0, related = 0;

    if (of.exempt)
        return 0;
    snprintf(who.owner, sizeof who.owner, "%s", owner);
    for (size_t i = 0; i < count_templates(a); i++) {
        const struct built *b = template_at(a, i);
        const struct snapshot *s = snapshot_find(a->control, &who, str_from(b->snapshot));
        struct account other;

        if (!s || (instead && strcmp(b->id, instead) == 0))
            continue;
        other = account_of(a->control, s->record.owner, s->record.family);
        n += account_is(&other, &of);
        related += of.part.n && str_eq(str_from(s->record.family), of.part);
    }
    if (n >= BUILT_PER_OWNER)
        return err_set(e, ERR_QUOTA, "%s has %zu templates, the limit of one owner; delete some",
                       of.name, n);
    if (related >= quota_token_part(BUILT_PER_OWNER))
        return err_set(e, ERR_QUOTA,
                       "this token's family has %zu templates (limit of a token family: seven "
                       "eighths of the owner's %d); delete some",
                       related, BUILT_PER_OWNER);
    return 0;
}

void built_put(struct api *a, const char *owner, const char *family, const struct built *new,
               const char *instead, built_fn *done, void *user)
{
    struct err e;
    int r = a->templates ? check_owner_templates(a, owner, family, instead, &e) : 0;

    if (r < 0)
        done(user, r, &e);
    else
        save_templates(a, new, instead, done, user);
}

void built_remove(struct api *a, const char *id, built_fn *done, void *user)
{
    save_templates(a, NULL, id, done, user);
}
