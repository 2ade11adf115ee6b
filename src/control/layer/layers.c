/* SPDX-License-Identifier: Apache-2.0 */
#include "control/layer/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "control/layer/digest_queue.h"
#include "control/plane/plane.h"

/* The writable directory of a destroyed sandbox. */
struct cleared_box {
    struct link link;
    char id[ID_MAX];
};

/* Steps after a start, in this order. */
enum { STEP_LIST = 1, STEP_SWEEP };

enum { FORCED_MAX = 1024 }; /* layers in one transaction */

/* A layer worker costs some milliseconds of processor time. Boxes wait this long for others, so
 * that sandboxes destroyed at a high rate share workers. */
enum { CLEAR_DELAY_NS = 100 * (int)NS_PER_MS };

static void start_next_layers_job(struct control *c);

struct layer *layer_known(struct control *c, const char *name)
{
    struct map_entry *v = map_find(&c->layers->known, str_from(name));

    return v ? container_of(v, struct layer, entry) : NULL;
}

struct layer *layer_on_record(struct control *c, const char *name)
{
    struct layer *l = layer_known(c, name);

    return l && l->on_record && !l->leaving ? l : NULL;
}

static struct layer *add_known_layer(struct control *c, const char *name)
{
    struct layer *l = new0(sizeof *l);

    snprintf(l->record.name, sizeof l->record.name, "%s", name);
    l->entry.id = l->record.name;
    map_add(&c->layers->known, &l->entry);
    return l;
}

static void forget_layer(struct control *c, struct layer *l)
{
    link_leave(&l->link);
    link_leave(&l->waiting);
    map_remove(&c->layers->known, &l->entry);
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

void layer_set_row(struct control *c, const struct layer_record *r)
{
    struct layer *l = layer_known(c, r->name);

    if (!l)
        l = add_known_layer(c, r->name);
    l->record = *r;
    l->on_record = true;
    l->leaving = false;
}

void layer_delete_row(struct control *c, struct layer *l)
{
    l->on_record = l->leaving = false;
    l->record.digest[0] = '\0';
    if (!l->refs && !link_joined(&l->link))
        forget_layer(c, l);
}

void layer_ref(struct control *c, const char *name)
{
    struct layer *l = layer_known(c, name);

    if (!l)
        l = add_known_layer(c, name);
    l->refs++;
    if (!link_joined(&l->link))
        return;
    link_leave(&l->link); /* its removal was pending, and its row may be gone */
    l->record.digest[0] = '\0';
    digest_queue_add(c, name);
}

void layer_unref(struct control *c, const char *name)
{
    struct layer *l = layer_known(c, name);

    if (!l || !l->refs || --l->refs)
        return;
    digest_queue_forget(c, l);
    if (layer_is_captured(name) && !c->on_closed) {
        list_append(&c->layers->doomed, &l->link);
        start_next_layers_job(c);
    } else if (!l->on_record) { /* layers of images are removed by image_jobs.c */
        forget_layer(c, l);
    }
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

static int fail_layer_memory(const struct json_strs *below, const struct arena *a, struct err *e)
{
    return err_set(e, ERR_TOO_BIG, "%zu layers need more memory than the allowed %zu bytes",
                   below->n + 1, a->max);
}

int layers_stack(const char *first, const struct json_strs *below, struct arena *a,
                 struct json_strs *ret, struct err *e)
{
    const char **p = arena_array(a, below->n + 1, sizeof *p);

    if (below->n + 1 > LAYERS_OF_SNAPSHOT_MAX)
        return err_set(e, ERR_TOO_BIG,
                       "it is built on %zu layers of snapshots, the maximum is %d: restore an "
                       "older snapshot, or copy the needed files to a new sandbox",
                       below->n, LAYERS_OF_SNAPSHOT_MAX - 1);
    if (!p)
        return fail_layer_memory(below, a, e);
    p[0] = first;
    if (below->n)
        memcpy(p + 1, below->p, below->n * sizeof *p);
    *ret = (struct json_strs){ p, below->n + 1 };
    return json_strs_copy(ret, a) ? 0 : fail_layer_memory(below, a, e);
}

void layers_list(const struct json_strs *names, char to[][LAYER_NAME_MAX], uint64_t *n)
{
    for (size_t i = 0; i < names->n && *n < LAYERS_STACK_MAX; i++)
        snprintf(to[(*n)++], LAYER_NAME_MAX, "%s", names->p[i]);
}

int layers_join(const struct json_strs *names, struct buf *out)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < names->n; i++)
        r = buf_addf(out, "%s%s", i ? " " : "", names->p[i]);
    return r;
}

static void queue_box_clear(struct control *c, const char *id)
{
    struct cleared_box *b = new0(sizeof *b);

    snprintf(b->id, sizeof b->id, "%s", id);
    list_append(&c->layers->boxes, &b->link);
}

static void on_clear_due(struct loop_timer *t)
{
    start_next_layers_job(container_of(t, struct layers, clear_due)->control);
}

void layers_clear_box(struct control *c, const char *id)
{
    struct loop_timer *due = &c->layers->clear_due;

    if (!c->layers->on_disk || c->on_closed)
        return;
    queue_box_clear(c, id);
    if (!loop_timer_started(due) &&
        loop_timer_start(c->loop, due, clock_mono() + CLEAR_DELAY_NS, on_clear_due, NULL) < 0)
        start_next_layers_job(c);
}

/* --- layer workers, one at a time --- */

static void on_disk_layer_listed(struct layer_job *j, const char *text)
{
    struct control *c = container_of(j, struct layers, job)->control;

    if (layer_is_captured(text) && layer_name_valid(text) && !layer_known(c, text))
        list_append(&c->layers->doomed, &add_known_layer(c, text)->link);
    if (!box_name_valid(text))
        return;
    c->layers->on_disk = true; /* regardless of the configuration */
    if (!control_knows(c, text))
        queue_box_clear(c, text);
}

static void on_layers_job_done(struct layer_job *j, int r, const struct err *e,
                               const struct layers_said *said)
{
    struct control *c = container_of(j, struct layers, job)->control;

    if (r < 0) /* the next start does it */
        LOG(WARN, "layers.job_failed", LOG_S("error", e->msg));
    start_next_layers_job(c);
}

static const struct layer_worker_events events = { .line = on_disk_layer_listed,
                                                   .done = on_layers_job_done };

/* As many as fit in one job. */
static bool take_cleared_boxes(struct control *c, struct layers_job *ret)
{
    struct link *m;

    layers_job_fill(ret, LAYERS_CLEAR, NULL);
    while (ret->n_below < LAYERS_STACK_MAX && (m = list_take(&c->layers->boxes))) {
        struct cleared_box *b = container_of(m, struct cleared_box, link);

        snprintf(ret->below[ret->n_below++], LAYER_NAME_MAX, "%s", b->id);
        free(b);
    }
    return ret->n_below > 0;
}

/* If the transaction failed, it is uncertain whether records still name these layers: they are
 * kept. */
static void on_doomed_forced(struct store_txn *t, int r, const struct err *e)
{
    struct control *c = container_of(t, struct layers, txn)->control;
    struct link *m;

    c->layers->forcing = false;
    if (r < 0) { /* the next start does it */
        LOG(WARN, "layers.job_failed", LOG_S("error", e->msg));
        while ((m = list_first(&c->layers->leaving)))
            forget_layer(c, container_of(m, struct layer, link));
    }
    start_next_layers_job(c);
}

/* The rows of the layers are removed in the same transaction. */
static void force_doomed(struct control *c)
{
    struct link *m;

    if (c->layers->forcing || list_first(&c->layers->leaving) || !list_first(&c->layers->doomed))
        return;
    c->layers->forcing = true;
    store_txn_begin(&c->layers->txn, c->store);
    for (int i = 0; i < FORCED_MAX && (m = list_take(&c->layers->doomed)); i++) {
        list_append(&c->layers->leaving, m);
        store_remove_layer(&c->layers->txn, container_of(m, struct layer, link)->record.name);
    }
    fault_point("layers.forget");
    store_force(&c->layers->txn);
    store_commit(&c->layers->txn, on_doomed_forced);
}

static bool take_layers_job(struct control *c, struct layers_job *ret)
{
    struct link *m;
    struct layer *l;

    if (c->layers->steps == STEP_LIST || c->layers->steps == STEP_SWEEP) {
        layers_job_fill(ret, c->layers->steps == STEP_LIST ? LAYERS_LIST : LAYERS_SWEEP, NULL);
        c->layers->steps = c->layers->steps == STEP_LIST ? STEP_SWEEP : 0;
        return true;
    }
    if (take_cleared_boxes(c, ret))
        return true;
    force_doomed(c);
    m = c->layers->forcing ? NULL : list_first(&c->layers->leaving);
    if (!m)
        return false;
    l = container_of(m, struct layer, link);
    LOG(INFO, "layer.removing", LOG_S("layer", l->record.name));
    layers_job_fill(ret, LAYERS_REMOVE, l->record.name);
    forget_layer(c, l);
    return true;
}

static void start_next_layers_job(struct control *c)
{
    struct layers_job job;
    struct err e;

    if (!c->open || c->on_closed || c->layers->job.running || !c->supervisor.layer_worker)
        return;
    while (take_layers_job(c, &job)) {
        if (layer_worker_start(c, &c->layers->job, &events, &job, NULL, 0, &e) >= 0)
            return;
        LOG(WARN, "layers.job_failed", LOG_S("error", e.msg));
    }
}

/* A row without references: the daemon died before they were stored, or just after they were
 * dropped. */
static void doom_unused_row(struct map_entry *v, void *control)
{
    struct layer *l = container_of(v, struct layer, entry);
    struct control *c = control;

    if (!l->refs && layer_is_captured(l->record.name) && !link_joined(&l->link))
        list_append(&c->layers->doomed, &l->link);
}

void layers_open(struct control *c)
{
    /* An unreadable record may name any layer. */
    c->layers->steps = c->unreadable ? STEP_SWEEP : STEP_LIST;
    if (!c->unreadable)
        map_each(&c->layers->known, doom_unused_row, c);
    start_next_layers_job(c);
}

static void free_layer(struct map_entry *v, void *user)
{
    struct layer *l = container_of(v, struct layer, entry);

    link_leave(&l->link);
    link_leave(&l->waiting);
    free(l);
}

void layers_close(struct control *c)
{
    loop_timer_stop(&c->layers->clear_due);
    layer_worker_cancel(&c->layers->job);
    for (struct link *m; (m = list_take(&c->layers->boxes));) /* the next start does it */
        free(container_of(m, struct cleared_box, link));
    map_each(&c->layers->known, free_layer, NULL);
    map_done(&c->layers->known);
}
