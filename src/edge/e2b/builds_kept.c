/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the known builds in one setting, so that a build which the daemon's end interrupted is
 * reported as failed to clients that poll it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/e2b/builds.h"
#include "edge/e2b/internal.h"
#include "lib/json/reader.h"
#include "base/log.h"
#include "base/own.h"

/* The analyser does not see that the store owns the transaction. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#define SETTING "e2b.builds"

enum { ONE_MAX = 48 << 10, TEXT_MAX = 2 << 20 };
static_assert(BUILDS_MAX * ONE_MAX < TEXT_MAX, "all of them fit");

struct kept_build {
    const char *id, *template, *name, *owner, *family;
    const char *box, *replaced, *reason, *step; /* "" if absent */
    struct json_map labels;
    enum build_state state;
};

#define AT(member)   JSON_AT(struct kept_build, member)
#define ID(at)       JSON_KIND_STR, AT(at), .required = true, .max = ID_MAX - 1
#define OPTIONAL(at) JSON_KIND_STR, AT(at), .preset = "''"

static const struct json_field kept_fields[] = {
    { "id", ID(id) },
    { "template", ID(template) },
    { "name", JSON_KIND_STR, AT(name), .required = true, .max = BUILT_NAME_MAX },
    { "owner", JSON_KIND_STR, AT(owner), .required = true, .max = OWNER_MAX - 1 },
    { "family", OPTIONAL(family), .max = ID_MAX - 1 },
    { "box", OPTIONAL(box), .max = ID_MAX - 1 },
    { "replaced", OPTIONAL(replaced), .max = ID_MAX - 1 },
    { "reason", OPTIONAL(reason) },
    { "step", OPTIONAL(step) },
    { "labels", JSON_KIND_MAP, AT(labels), .max = REQUEST_LABELS_MAX },
    { "state", JSON_KIND_ENUM, AT(state), .required = true, .names = build_state_names },
};

struct kept_builds {
    struct json_objects all;
};

static const struct json_field document_fields[] = {
    { "builds", JSON_KIND_OBJECTS, JSON_AT(struct kept_builds, all), .max = BUILDS_MAX,
      .item_size = sizeof(struct kept_build), JSON_FIELDS(kept_fields) },
};

/* --- to the store --- */

struct builds_save_op {
    struct store_txn txn;
    built_fn *done; /* may be NULL */
    void *user;
};

static void on_builds_saved(struct store_txn *t, int r, const struct err *e)
{
    struct builds_save_op *s = container_of(t, struct builds_save_op, txn);

    if (s->done)
        s->done(s->user, r, e);
    else if (r < 0)
        LOG(WARN, "e2b.builds_not_kept", LOG_S("error", e->msg));
    free(s);
}

/* Writes each build to a buffer of its own, so that one that cannot be written does not affect the
 * others. */
static void write_kept_build(const struct e2b_build *b, struct json_writer *all)
{
    const struct kept_build k = { b->id,     b->template, b->name,     b->owner,
                                  b->family, b->box_id,   b->replaced, b->reason,
                                  b->failed, b->labels,   b->state };
    struct buf text AUTO(buf_done) = BUF_INIT(ONE_MAX);
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_unbind(&k, kept_fields, COUNT_OF(kept_fields), &w);
    if (json_writer_finish(&w, &e) < 0)
        LOG(WARN, "e2b.builds_not_kept", LOG_S("build", b->id), LOG_S("error", e.msg));
    else
        json_put_written(all, buf_str(&text));
}

static int write_kept_builds(struct api *a, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_begin_array(&w, "builds");
    LIST_EACH (const struct e2b_build, b, &e2b_state_of(a)->builds, link)
        write_kept_build(b, &w);
    json_end_array(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

void builds_save(struct api *a, built_fn *done, void *user)
{
    struct buf text AUTO(buf_done) = BUF_INIT(TEXT_MAX);
    struct builds_save_op *s = new0(sizeof *s);
    struct err e;
    int r;

    *s = (struct builds_save_op){ .done = done, .user = user };
    r = e2b_state_of(a)->builds_closed ? err_set(&e, ERR_BUSY, "the daemon is stopping")
                                       : write_kept_builds(a, &text, &e);
    if (r < 0) {
        on_builds_saved(&s->txn, r, &e);
        return;
    }
    store_txn_begin(&s->txn, control_store(a->control));
    store_set(&s->txn, SETTING, text.p);
    store_commit(&s->txn, on_builds_saved);
}

/* --- and from it --- */

static void on_stale_snapshot_deleted(struct snapshot_delete_op *op, int r, const struct err *e)
{
    if (r < 0)
        LOG(WARN, "e2b.snapshot_left", LOG_S("snapshot", op->id_), LOG_S("error", e->msg));
    free(op);
}

struct sweep {
    struct api *api;
    const struct e2b_build *build;
};

/* Deletes a snapshot of the interrupted build that is neither a template's nor named by its
 * owner. */
static void delete_stale_snapshot(const struct snapshot *s, void *user)
{
    const struct sweep *w = user;
    const struct snapshot_record *r = &s->record;
    struct snapshot_delete_op *op;

    if ((strcmp(r->sandbox, w->build->box_id) != 0 && strcmp(r->id, w->build->replaced) != 0) ||
        r->name[0] || built_of_snapshot(w->api, r->id))
        return;
    op = new0(sizeof *op);
    op->done = on_stale_snapshot_deleted;
    snapshot_delete(w->api->control, s, op);
}

/* Decides on a build that was running when the daemon ended. Its sandbox was one-shot and is
 * destroyed already. */
static void settle_interrupted_build(struct api *a, struct e2b_build *b)
{
    static const struct caller all = { .admin = true };
    struct sweep w = { a, b };

    if (built_of_build(a, b->id))
        b->state = BUILD_READY;
    else
        build_fail(b, "the daemon stopped during the build; build the template again");
    snapshots_each(a->control, &all, delete_stale_snapshot, &w);
}

static void restore_build(struct api *a, const struct kept_build *k)
{
    struct e2b_build *b = build_alloc();

    snprintf(b->id, sizeof b->id, "%s", k->id);
    snprintf(b->template, sizeof b->template, "%s", k->template);
    snprintf(b->name, sizeof b->name, "%s", k->name);
    snprintf(b->owner, sizeof b->owner, "%s", k->owner);
    snprintf(b->family, sizeof b->family, "%s", k->family);
    snprintf(b->box_id, sizeof b->box_id, "%s", k->box);
    snprintf(b->replaced, sizeof b->replaced, "%s", k->replaced);
    snprintf(b->reason, sizeof b->reason, "%s", k->reason);
    snprintf(b->failed, sizeof b->failed, "%s", k->step);
    b->labels = k->labels;
    if (!json_map_copy(&b->labels, &b->arena))
        abort(); /* bounded by json_bind() */
    b->state = k->state;
    if (b->state < BUILD_READY)
        settle_interrupted_build(a, b);
    list_append(&e2b_state_of(a)->builds, &b->link);
}

static int read_kept_builds(struct api *a, struct str text, struct arena *arena, struct err *e)
{
    const struct json_limits limits = { .bytes = TEXT_MAX, .depth = 8 };
    struct kept_builds d = { 0 };
    const struct json *v;
    int r = json_read(text, limits, arena, &v, e);

    if (r >= 0)
        r = json_bind(v, document_fields, COUNT_OF(document_fields), &d, arena, e);
    for (size_t i = 0; r >= 0 && i < d.all.n; i++)
        restore_build(a, (const struct kept_build *)d.all.p + i);
    return r;
}

int builds_open(struct api *a, struct err *e)
{
    struct store_query q = { .kind = STORE_SETTING, .text = STR(SETTING) };
    int r;

    arena_init(&q.arena, (size_t)8 * TEXT_MAX);
    r = store_ask_now(control_store(a->control), &q, e);
    if (r >= 0 && q.setting)
        r = read_kept_builds(a, str_from(q.setting), &q.arena, e);
    arena_done(&q.arena);
    if (r >= 0 && list_first(&e2b_state_of(a)->builds))
        builds_save(a, NULL, NULL);
    return err_wrap(e, r, "loading the builds of E2B clients");
}
