/* What the store keeps of builds: one setting with all that are known. So one that a daemon's end
 * interrupts has failed, and whoever waits for it is told. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/e2b/builds.h"
#include "api/e2b/inside.h"
#include "json/reader.h"
#include "base/log.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what the store owns */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#define SETTING "e2b.builds"

enum { ONE_MAX = 48 << 10, TEXT_MAX = 2 << 20 };
static_assert(BUILDS_MAX * ONE_MAX < TEXT_MAX, "all of them fit");

struct kept {
    const char *id, *template, *name, *owner, *family;
    const char *box, *replaced, *reason, *step; /* "": none */
    struct json_map labels;
    enum build_state state;
};

#define AT(member)   JSON_AT(struct kept, member)
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

struct document {
    struct json_objects all;
};

static const struct json_field document_fields[] = {
    { "builds", JSON_KIND_OBJECTS, JSON_AT(struct document, all), .max = BUILDS_MAX,
      .item_size = sizeof(struct kept), JSON_FIELDS(kept_fields) },
};

/* --- to the store --- */

struct saving {
    struct store_txn txn;
    built_fn *done; /* may be NULL */
    void *user;
};

static void saved(struct store_txn *t, int r, const struct err *e)
{
    struct saving *s = container_of(t, struct saving, txn);

    if (s->done)
        s->done(s->user, r, e);
    else if (r < 0)
        LOG(WARN, "e2b.builds_not_kept", LOG_S("error", e->msg));
    free(s);
}

/* By itself: what cannot be written of one is not missing of all the others. */
static void write_one(const struct build *b, struct json_writer *all)
{
    const struct kept k = { b->id,       b->template, b->name,   b->owner,  b->family, b->box_id,
                            b->replaced, b->reason,   b->failed, b->labels, b->state };
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

static int write_text(struct api *a, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("builds"));
    json_begin_array(&w);
    for (struct link *m = list_first(&a->e2b_builds); m; m = list_after(&a->e2b_builds, m))
        write_one(container_of(m, struct build, link), &w);
    json_end_array(&w);
    json_end_object(&w);
    return json_writer_finish(&w, e);
}

void builds_keep(struct api *a, built_fn *done, void *user)
{
    struct buf text AUTO(buf_done) = BUF_INIT(TEXT_MAX);
    struct saving *s = calloc(1, sizeof *s);
    struct err e;
    int r;

    if (!s)
        abort();
    *s = (struct saving){ .done = done, .user = user };
    r = a->e2b_builds_closed ? err_set(&e, ERR_BUSY, "the daemon is ending")
                             : write_text(a, &text, &e);
    if (r < 0) {
        saved(&s->txn, r, &e);
        return;
    }
    store_txn_begin(&s->txn, control_store(a->control));
    store_set(&s->txn, SETTING, text.p);
    store_commit(&s->txn, saved);
}

/* --- and from it --- */

static void dropped(struct unsnap_op *op, int r, const struct err *e)
{
    if (r < 0)
        LOG(WARN, "e2b.snapshot_left", LOG_S("snapshot", op->id_), LOG_S("error", e->msg));
    free(op);
}

struct sweep {
    struct api *api;
    const struct build *build;
};

/* Nobody knows of it: neither as a template, nor by a name. */
static void drop_left(const struct snapshot *s, void *user)
{
    const struct sweep *w = user;
    const struct snapshot_record *r = &s->record;
    struct unsnap_op *op;

    if ((strcmp(r->sandbox, w->build->box_id) != 0 && strcmp(r->id, w->build->replaced) != 0) ||
        r->name[0] || built_of_snapshot(w->api, r->id))
        return;
    op = calloc(1, sizeof *op);
    if (!op)
        abort();
    op->done = dropped;
    snapshot_delete(w->api->control, s, op);
}

/* Its sandbox was for one use, and is gone by itself. */
static void settle(struct api *a, struct build *b)
{
    static const struct caller all = { .admin = true };
    struct sweep w = { a, b };

    if (built_of_build(a, b->id))
        b->state = BUILD_READY;
    else
        build_fail(b, "the daemon ended while it was built: build it again");
    snapshots_each(a->control, &all, drop_left, &w);
}

static void take_up(struct api *a, const struct kept *k)
{
    struct build *b = build_alloc();

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
        abort(); /* they were bounded when they were read */
    b->state = k->state;
    if (b->state < BUILD_READY)
        settle(a, b);
    list_append(&a->e2b_builds, &b->link);
}

static int read_text(struct api *a, struct str text, struct arena *arena, struct err *e)
{
    const struct json_limits limits = { .bytes = TEXT_MAX, .depth = 8 };
    struct document d = { 0 };
    const struct json *v;
    int r = json_read(text, limits, arena, &v, e);

    if (r >= 0)
        r = json_bind(v, document_fields, COUNT_OF(document_fields), &d, arena, e);
    for (size_t i = 0; r >= 0 && i < d.all.n; i++)
        take_up(a, (const struct kept *)d.all.p + i);
    return r;
}

int builds_open(struct api *a, struct err *e)
{
    struct store_query q = { .kind = STORE_SETTING, .text = STR(SETTING) };
    int r;

    arena_init(&q.arena, (size_t)8 * TEXT_MAX);
    r = store_ask_now(control_store(a->control), &q, e);
    if (r >= 0 && q.setting)
        r = read_text(a, str_from(q.setting), &q.arena, e);
    arena_done(&q.arena);
    if (r >= 0 && list_first(&a->e2b_builds))
        builds_keep(a, NULL, NULL);
    return err_wrap(e, r, "builds of E2B's clients");
}
