#include "control/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hook.h"
#include "base/log.h"
#include "base/own.h"
#include "control/plane.h"

/* What a sandbox that is no more has written. */
struct cleared {
    struct link link;
    char id[ID_MAX];
};

/* What is done at the start, in this order. */
enum { STEP_LIST = 1, STEP_SWEEP };

enum { FORCED_MAX = 1024 }; /* layers that are let go of at a time */

static void next_job(struct control *c);

struct layer *layer_known(struct control *c, const char *name)
{
    struct index_entry *v = index_find(&c->layers.known, str_from(name));

    return v ? container_of(v, struct layer, entry) : NULL;
}

static struct layer *add(struct control *c, const char *name)
{
    struct layer *l = calloc(1, sizeof *l);

    if (!l)
        abort();
    snprintf(l->record.name, sizeof l->record.name, "%s", name);
    l->entry.id = l->record.name;
    index_add(&c->layers.known, &l->entry);
    return l;
}

static void forget(struct control *c, struct layer *l)
{
    link_leave(&l->link);
    link_leave(&l->waiting);
    index_remove(&c->layers.known, &l->entry);
    free(l);
}

bool layer_used(struct control *c, const char *name)
{
    const struct layer *l = layer_known(c, name);

    return l && l->refs;
}

bool layer_is_captured(const char *name)
{
    return strncmp(name, "lay_", 4) == 0;
}

void layer_keep_row(struct control *c, const struct layer_record *r)
{
    struct layer *l = layer_known(c, r->name);

    if (!l)
        l = add(c, r->name);
    l->record = *r;
    l->on_record = true;
    l->leaving = false;
}

void layer_lose_row(struct control *c, struct layer *l)
{
    l->on_record = l->leaving = false;
    l->record.measure[0] = '\0';
    if (!l->refs && !link_joined(&l->link))
        forget(c, l);
}

void layer_ref(struct control *c, const char *name)
{
    struct layer *l = layer_known(c, name);

    if (!l)
        l = add(c, name);
    l->refs++;
    if (!link_joined(&l->link))
        return;
    link_leave(&l->link); /* it was on its way out, and its row may be gone */
    l->record.measure[0] = '\0';
    layer_made(c, name);
}

/* Layers of images are somebody else's to remove. */
static void doom(struct control *c, struct layer *l)
{
    measuring_forget(c, l);
    if (layer_is_captured(l->record.name) && !c->on_closed) {
        list_append(&c->layers.doomed, &l->link);
        next_job(c);
    } else if (!l->on_record) {
        forget(c, l);
    }
}

void layer_unref(struct control *c, const char *name)
{
    struct layer *l = layer_known(c, name);

    if (l && l->refs && --l->refs == 0)
        doom(c, l);
}

void layers_ref(struct control *c, const struct json_strs *names)
{
    for (size_t i = 0; i < names->n; i++)
        layer_ref(c, names->p[i]);
}

void layers_unref(struct control *c, const struct json_strs *names)
{
    for (size_t i = 0; i < names->n; i++)
        layer_unref(c, names->p[i]);
}

int layers_stack(const char *first, const struct json_strs *below, struct arena *a,
                 struct json_strs *ret, struct err *e)
{
    const char **p = arena_array(a, below->n + 1, sizeof *p);

    if (below->n + 1 > LAYERS_OF_SNAPSHOT_MAX)
        return err_set(
            e, ERR_TOO_BIG,
            "it stands on %zu layers of snapshots, and there may be %d: restore an older "
            "snapshot, or copy what is needed to a new sandbox",
            below->n, LAYERS_OF_SNAPSHOT_MAX - 1);
    if (!p || !(p[0] = arena_dup(a, str_from(first))))
        return err_set(e, ERR_TOO_BIG, "too many layers");
    for (size_t i = 0; i < below->n; i++)
        if (!(p[i + 1] = arena_dup(a, str_from(below->p[i]))))
            return err_set(e, ERR_TOO_BIG, "too many layers");
    *ret = (struct json_strs){ p, below->n + 1 };
    return 0;
}

int layers_join(const struct json_strs *names, struct buf *out)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < names->n; i++)
        r = buf_addf(out, "%s%s", i ? " " : "", names->p[i]);
    return r;
}

static void clear_box(struct control *c, const char *id)
{
    struct cleared *b = calloc(1, sizeof *b);

    if (!b)
        abort();
    snprintf(b->id, sizeof b->id, "%s", id);
    list_append(&c->layers.boxes, &b->link);
}

void layers_clear_box(struct control *c, const char *id)
{
    if (!c->layers.on_disk || c->on_closed)
        return;
    clear_box(c, id);
    next_job(c);
}

/* --- keepers, one at a time --- */

static void on_line(struct keeper_job *j, const char *text)
{
    struct control *c = container_of(j, struct control, layers.job);

    if (layer_is_captured(text) && layer_name_valid(text) && !layer_known(c, text))
        list_append(&c->layers.doomed, &add(c, text)->link);
    if (!box_name_valid(text))
        return;
    c->layers.on_disk = true; /* whatever is configured now */
    if (!control_knows(c, text))
        clear_box(c, text);
}

static void on_done(struct keeper_job *j, int r, const struct err *e,
                    const struct layers_said *said)
{
    struct control *c = container_of(j, struct control, layers.job);

    (void)said;
    if (r < 0) /* the next start does it */
        LOG(WARN, "layers.job_failed", LOG_S("error", e->msg));
    next_job(c);
}

static const struct keeper_events events = { .line = on_line, .done = on_done };

/* As many as go into one. */
static bool take_boxes(struct control *c, struct layers_job *ret)
{
    struct link *m;

    layers_job_fill(ret, LAYERS_CLEAR, NULL);
    while (ret->n_below < LAYERS_STACK_MAX && (m = list_take(&c->layers.boxes))) {
        struct cleared *b = container_of(m, struct cleared, link);

        snprintf(ret->below[ret->n_below++], LAYER_NAME_MAX, "%s", b->id);
        free(b);
    }
    return ret->n_below > 0;
}

/* Those that wait are kept as long as it is not certain that nobody names them. */
static void on_forced(struct store_txn *t, int r, const struct err *e)
{
    struct control *c = container_of(t, struct control, layers.txn);
    struct link *m;

    c->layers.forcing = false;
    if (r < 0) { /* the next start does it */
        LOG(WARN, "layers.job_failed", LOG_S("error", e->msg));
        while ((m = list_first(&c->layers.leaving)))
            forget(c, container_of(m, struct layer, link));
    }
    next_job(c);
}

/* Their rows, which they may have, go with that. */
static void force(struct control *c)
{
    struct link *m;

    if (c->layers.forcing || list_first(&c->layers.leaving) || !list_first(&c->layers.doomed))
        return;
    c->layers.forcing = true;
    store_txn_begin(&c->layers.txn, c->store);
    for (int i = 0; i < FORCED_MAX && (m = list_take(&c->layers.doomed)); i++) {
        list_append(&c->layers.leaving, m);
        store_remove_layer(&c->layers.txn, container_of(m, struct layer, link)->record.name);
    }
    hook_point("layers.forget");
    store_force(&c->layers.txn);
    store_commit(&c->layers.txn, on_forced);
}

static bool take_job(struct control *c, struct layers_job *ret)
{
    struct link *m;
    struct layer *l;

    if (c->layers.steps == STEP_LIST || c->layers.steps == STEP_SWEEP) {
        layers_job_fill(ret, c->layers.steps == STEP_LIST ? LAYERS_LIST : LAYERS_SWEEP, NULL);
        c->layers.steps = c->layers.steps == STEP_LIST ? STEP_SWEEP : 0;
        return true;
    }
    if (take_boxes(c, ret))
        return true;
    force(c);
    m = c->layers.forcing ? NULL : list_first(&c->layers.leaving);
    if (!m)
        return false;
    l = container_of(m, struct layer, link);
    LOG(INFO, "layer.removing", LOG_S("layer", l->record.name));
    layers_job_fill(ret, LAYERS_REMOVE, l->record.name);
    forget(c, l);
    return true;
}

static void next_job(struct control *c)
{
    struct layers_job job;
    struct err e;

    if (!c->open || c->on_closed || c->layers.job.running || !c->keeper)
        return;
    while (take_job(c, &job)) {
        if (keeper_start(c, &c->layers.job, &events, &job, NULL, 0, &e) >= 0)
            return;
        LOG(WARN, "layers.job_failed", LOG_S("error", e.msg));
    }
}

/* On record, and nobody names it: whoever did so died before, or just after it let go. */
static void look_at_row(struct index_entry *v, void *control)
{
    struct layer *l = container_of(v, struct layer, entry);
    struct control *c = control;

    if (!l->refs && layer_is_captured(l->record.name) && !link_joined(&l->link))
        list_append(&c->layers.doomed, &l->link);
}

void layers_open(struct control *c)
{
    /* A record that could not be read may name anything. */
    c->layers.steps = c->unreadable ? STEP_SWEEP : STEP_LIST;
    if (!c->unreadable)
        index_each(&c->layers.known, look_at_row, c);
    next_job(c);
}

static void drop(struct index_entry *v, void *user)
{
    struct layer *l = container_of(v, struct layer, entry);

    (void)user;
    link_leave(&l->link);
    link_leave(&l->waiting);
    free(l);
}

void layers_close(struct control *c)
{
    keeper_cancel(&c->layers.job);
    for (struct link *m; (m = list_take(&c->layers.boxes));) /* the next start does it */
        free(container_of(m, struct cleared, link));
    index_each(&c->layers.known, drop, NULL);
    index_done(&c->layers.known);
}
