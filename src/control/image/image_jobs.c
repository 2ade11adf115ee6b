/* SPDX-License-Identifier: Apache-2.0 */
/* Removes images and unreferenced layers, and verifies layers. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "control/image/images_internal.h"
#include "control/layer/layers.h"
#include "domain/model/event.h"
#include "lib/tar/walk.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not track the ownership of list entries */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#define PART_KEPT_NS (24 * 3600 * NS_PER_S) /* an unfinished pull can be continued for a day */

struct image_job_layer {
    struct link link;
    char name[LAYER_NAME_MAX];
};

static void remove_next_layer(struct image_job *j);

/* who: NULL: the daemon itself; op may be NULL: no caller waits. */
static struct image_job *image_job_new(struct control *c, const struct caller *who,
                                       struct image_op *op)
{
    struct image_job *j = new0(sizeof *j);

    j->images = c->images;
    if (who)
        j->caller = *who;
    j->caller.labels = (struct json_map){ NULL, 0 }; /* borrowed, and not needed */
    list_append(&c->images->jobs, &j->link);
    j->op = op;
    if (op)
        op->job_ = j;
    return j;
}

static void image_job_free(struct image_job *j)
{
    struct link *m;

    while ((m = list_take(&j->names)))
        free(container_of(m, struct image_job_layer, link));
    link_leave(&j->link);
    free(j);
}

static void on_image_job_later(struct loop_later *l)
{
    struct image_job *j = container_of(l, struct image_job, later);
    struct image_op *op = take_ptr(j->op);
    struct err e = j->err;

    image_job_free(j);
    if (!op)
        return;
    op->job_ = NULL;
    op->done(op, -(int)e.code, e.code ? &e : NULL);
}

static void finish_image_job(struct image_job *j, int r, const struct err *e)
{
    if (r < 0 && !j->err.code) /* the first error counts */
        j->err = *e;
    loop_later(j->images->control->loop, &j->later, on_image_job_later, NULL);
}

/* A removal continues without its caller: the layer worker may remove the layer at any time, and
 * until then no other operation may create it. */
void image_job_cancel(struct image_job *j)
{
    if (j->op)
        j->op->job_ = NULL;
    j->op = NULL;
    if (!j->storing && !j->removing)
        image_job_drop(j);
}

/* Waits for a transaction that was begun. */
void image_job_drop(struct image_job *j)
{
    if (j->op)
        j->op->job_ = NULL;
    j->op = NULL;
    layer_worker_cancel(&j->layer_worker);
    digest_cancel(&j->digesting);
    loop_later_stop(&j->later);
    if (j->storing)
        link_leave(&j->link);
    else
        image_job_free(j);
}

static void add_layer_name(struct image_job *j, const char *name)
{
    struct image_job_layer *n = new0(sizeof *n);

    snprintf(n->name, sizeof n->name, "%s", name);
    list_append(&j->names, &n->link);
}

static bool take_layer_name(struct image_job *j)
{
    struct link *m = list_take(&j->names);
    struct image_job_layer *n;

    if (!m)
        return false;
    n = container_of(m, struct image_job_layer, link);
    snprintf(j->layer, sizeof j->layer, "%s", n->name);
    free(n);
    return true;
}

static int start_layer_job(struct image_job *j, const struct layer_worker_events *events,
                           enum layers_kind kind, const char *name)
{
    struct control *c = j->images->control;
    struct layer_charge charge = layer_charge_caller(c, &j->caller);
    struct layers_job job;
    struct err e;
    int r;

    layers_job_fill(&job, kind, name);
    charge.must = j->removing; /* the layer's row is gone */
    r = j->caller.owner[0]
            ? layer_worker_queue(c, &charge, &j->layer_worker, events, &job, NULL, 0, &e)
            : layer_worker_start(c, &j->layer_worker, events, &job, NULL, 0, &e);
    if (r < 0)
        finish_image_job(j, r, &e);
    return r;
}

/* True: the daemon is ending, and the job was freed. */
static bool end_image_txn(struct image_job *j)
{
    j->storing = false;
    j->images->control->changes--;
    if (link_joined(&j->link))
        return false;
    image_job_free(j);
    return true;
}

static void begin_image_txn(struct image_job *j)
{
    j->storing = true;
    j->images->control->changes++;
    store_txn_begin(&j->txn, j->images->control->store);
}

/* --- removing layers: the row, then the tree --- */

static void on_layer_tree_removed(struct layer_job *k, int r, const struct err *e,
                                  const struct layers_said *said)
{
    struct image_job *j = container_of(k, struct image_job, layer_worker);

    j->removing = false;
    image_makings_wake(j->images);
    if (r < 0) {
        finish_image_job(j, r, e);
        return;
    }
    if (j->op)
        j->op->removed++;
    remove_next_layer(j);
}

static const struct layer_worker_events removal = { .done = on_layer_tree_removed };

static void remove_layer_tree(struct image_job *j)
{
    j->removing = true;
    /* The error was reported; the tree is garbage now. */
    if (start_layer_job(j, &removal, LAYERS_REMOVE, j->layer) < 0)
        j->removing = false;
}

static void on_layer_row_removed(struct store_txn *t, int r, const struct err *e)
{
    struct image_job *j = container_of(t, struct image_job, txn);

    if (r < 0)
        layer_cancel_removal(j->images, j->layer);
    else
        layer_forget(j->images, j->layer);
    if (end_image_txn(j))
        return;
    if (r >= 0) {
        remove_layer_tree(j);
        return;
    }
    j->removing = false;
    image_makings_wake(j->images);
    finish_image_job(j, r, e);
}

static void delete_layer_row(struct image_job *j, struct layer *l)
{
    l->leaving = true;
    j->removing = true;
    if (j->op)
        j->op->bytes += l->record.bytes;
    fault_point("image.forget_layer");
    begin_image_txn(j);
    store_remove_layer(&j->txn, j->layer);
    store_commit(&j->txn, on_layer_row_removed);
}

static void remove_next_layer(struct image_job *j)
{
    /* An unreadable record may name any layer. */
    while (!j->images->control->unreadable && take_layer_name(j)) {
        struct layer *l = layer_on_record(j->images->control, j->layer);

        /* A captured layer is removed automatically with its last reference
         * (control/layer/layers.h), which the removed image may have been. */
        if (layer_is_captured(j->layer)) {
            l = layer_known(j->images->control, j->layer);
            if (j->op && j->ref[0] && l && !l->refs) {
                j->op->removed++;
                j->op->bytes += l->record.bytes;
            }
            continue;
        }
        if (layer_is_used(j->images, j->layer))
            continue;
        if (l)
            delete_layer_row(j, l);
        else
            remove_layer_tree(j);
        return;
    }
    finish_image_job(j, 0, NULL);
}

/* --- prune: list the layers, remove the unreferenced --- */

static void on_layer_listed(struct layer_job *k, const char *text)
{
    struct image_job *j = container_of(k, struct image_job, layer_worker);

    if (layer_name_valid(text))
        add_layer_name(j, text);
}

static void on_list_done(struct layer_job *k, int r, const struct err *e,
                         const struct layers_said *said)
{
    struct image_job *j = container_of(k, struct image_job, layer_worker);

    if (r < 0)
        finish_image_job(j, r, e);
    else
        remove_next_layer(j);
}

static const struct layer_worker_events listing = { .line = on_layer_listed, .done = on_list_done };

static void on_sweep_done(struct layer_job *k, int r, const struct err *e,
                          const struct layers_said *said)
{
    struct image_job *j = container_of(k, struct image_job, layer_worker);

    if (r < 0)
        finish_image_job(j, r, e);
    else
        (void)start_layer_job(j, &listing, LAYERS_LIST, NULL);
}

static const struct layer_worker_events sweeping = { .done = on_sweep_done };

static bool is_being_fetched(struct images *x, const char *name)
{
    LIST_EACH (const struct image_making, making, &x->makings, link)
        for (size_t i = 0; i < image_making_parts(making); i++)
            if (making->parts[i].digest[0] &&
                str_starts(str_from(name), oci_digest_hex(making->parts[i].digest)))
                return true;
    return false;
}

/* Removes blobs of unfinished pulls, and returns their size. */
static uint64_t drop_blob_parts(struct images *x, int64_t kept_ns)
{
    AUTO(walk_done) struct walk w;
    const char *name;
    struct stat st;
    uint64_t bytes = 0;
    int fd = openat(x->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    walk_init(&w);
    if (fd < 0 || walk_enter(&w, fd, ".", NULL) < 0)
        return 0;
    while (walk_next(&w, &name, NULL) > 0)
        if (!is_being_fetched(x, name) && fstatat(x->dir, name, &st, AT_SYMLINK_NOFOLLOW) >= 0 &&
            clock_wall() - st.st_mtim.tv_sec * NS_PER_S >= kept_ns &&
            unlinkat(x->dir, name, 0) >= 0)
            bytes += (uint64_t)st.st_size;
    return bytes;
}

static void prune_layers(struct control *c, const struct caller *who, struct image_op *op,
                         int64_t kept_ns)
{
    struct image_job *j;
    struct err e;

    op->bytes += c->unreadable ? 0 : drop_blob_parts(c->images, kept_ns);
    j = image_job_new(c, who, op);
    if (c->unreadable) {
        finish_image_job(j,
                         err_set(&e, ERR_CONFLICT,
                                 "a record in the store cannot be read, so the layers that it "
                                 "needs are unknown; the daemon's log names it"),
                         &e);
        return;
    }
    (void)start_layer_job(j, &sweeping, LAYERS_SWEEP, NULL);
}

void images_prune(struct control *c, const struct caller *who, struct image_op *op)
{
    prune_layers(c, who, op, 0);
}

void images_prune_old(struct control *c, struct image_op *op)
{
    prune_layers(c, NULL, op, PART_KEPT_NS);
}

/* --- undo: remove the layers of a failed image --- */

void images_undo(const struct image_making *m, struct image_op *op)
{
    struct image_job *j = image_job_new(m->images->control, NULL, op);

    j->err = m->err;
    for (size_t i = 0; i < m->n; i++)
        if (m->parts[i].state >= PART_UNPACKS)
            add_layer_name(j, m->parts[i].layer);
    remove_next_layer(j);
}

/* --- remove --- */

static void on_image_row_removed(struct store_txn *t, int r, const struct err *e)
{
    struct image_job *j = container_of(t, struct image_job, txn);

    if (r >= 0) {
        control_publish_first(j->images->control, t, &j->event);
        image_forget(j->images, j->ref);
    }
    if (end_image_txn(j))
        return;
    if (r < 0)
        finish_image_job(j, r, e);
    else
        remove_next_layer(j);
}

static int check_removal(struct control *c, struct str ref, const struct image **ret, struct err *e)
{
    char one[ID_MAX];
    size_t users;
    int r = images_find(c, ref, ret, e);

    if (r < 0)
        return r;
    users = image_users(c, *ret, one);
    if (users > 1)
        return err_set(e, ERR_CONFLICT, "%s is in use by %s and %zu more", (*ret)->ref, one,
                       users - 1);
    return users ? err_set(e, ERR_CONFLICT, "%s is in use by %s", (*ret)->ref, one) : 0;
}

void images_remove(struct control *c, const struct caller *who, struct str ref, struct image_op *op)
{
    struct image_job *j = image_job_new(c, who, op);
    const struct image *im;
    struct err e;
    int r = check_removal(c, ref, &im, &e);

    if (r < 0) {
        finish_image_job(j, r, &e);
        return;
    }
    snprintf(op->ref, sizeof op->ref, "%s", im->ref);
    for (size_t i = 0; i < im->layers.n; i++)
        add_layer_name(j, im->layers.p[i]);
    snprintf(j->ref, sizeof j->ref, "%s", im->ref);
    event_fill(&j->event, &who->actor, who->owner, "image.removed", im->ref);
    begin_image_txn(j);
    store_remove_image(&j->txn, im->ref);
    store_add_event(&j->txn, &j->event);
    store_commit(&j->txn, on_image_row_removed);
}

/* --- verify --- */

static void on_image_digested(struct digest_op *m, int r, const struct err *e)
{
    struct image_job *j = container_of(m, struct image_job, digesting);

    if (j->op) {
        j->op->removed = m->n;
        j->op->first = m->first;
        j->op->bytes = m->bytes;
    }
    finish_image_job(j, r, e);
}

static void on_image_digest_progress(struct digest_op *m, uint64_t bytes)
{
    const struct image_job *j = container_of(m, struct image_job, digesting);

    if (j->op && j->op->at)
        j->op->at(j->op, "verify", bytes, 0);
}

void images_verify(struct control *c, const struct caller *who, struct str ref, struct image_op *op)
{
    struct image_job *j = image_job_new(c, who, op);
    char digest[OCI_DIGEST_MAX];
    const struct image *im;
    struct err e;
    int r = images_find(c, ref, &im, &e);

    if (r >= 0)
        image_digest(im->text, digest);
    if (r >= 0 && strcmp(digest, im->id) != 0)
        r = err_set(&e, ERR_CONFLICT,
                    "the configuration of %s is damaged: its digest differs from the recorded "
                    "one; remove the image, and pull or import it again",
                    im->ref);
    if (r < 0) {
        finish_image_job(j, r, &e);
        return;
    }
    snprintf(op->ref, sizeof op->ref, "%s", im->ref);
    j->digesting = (struct digest_op){ .caller = &j->caller,
                                       .at = on_image_digest_progress,
                                       .done = on_image_digested };
    digest_add(&j->digesting, &im->layers);
    digest_start(c, &j->digesting);
}
