/* Removing images and layers that nobody names, and looking whether layers are what they were. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/hook.h"
#include "base/log.h"
#include "control/images_inside.h"
#include "tree/walk.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what lists own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

#define PART_KEPT_NS (24 * 3600 * NS_PER_S) /* a pull that was not finished can go on for a day */

struct job_name {
    struct link link;
    char name[LAYER_NAME_MAX];
};

static void next_removal(struct image_job *j);

/* One that nobody listens to. */
static struct image_job *job_alone(struct images *x)
{
    struct image_job *j = calloc(1, sizeof *j);

    if (!j)
        abort();
    j->images = x;
    list_append(&x->jobs, &j->link);
    return j;
}

static struct image_job *job_new(struct control *c, struct image_op *op)
{
    struct image_job *j = job_alone(c->images);

    j->op = op;
    op->job_ = j;
    return j;
}

static void job_free(struct image_job *j)
{
    struct link *m;

    while ((m = list_take(&j->names)))
        free(container_of(m, struct job_name, link));
    link_leave(&j->link);
    free(j);
}

static void tell_end(struct loop_later *l)
{
    struct image_job *j = container_of(l, struct image_job, later);
    struct image_op *op = take_ptr(j->op);
    struct err e = j->err;

    job_free(j);
    if (!op)
        return;
    op->job_ = NULL;
    op->done(op, -(int)e.code, e.code ? &e : NULL);
}

static void finish(struct image_job *j, int r, const struct err *e)
{
    if (r < 0 && !j->err.code) /* what came first is the reason */
        j->err = *e;
    loop_later(j->images->control->loop, &j->later, tell_end, NULL);
}

/* What removes goes on without a listener: a keeper that was told to remove a layer may do so at
 * any time, and until then nobody may make that layer again. */
void image_job_cancel(struct image_job *j)
{
    if (j->op)
        j->op->job_ = NULL;
    j->op = NULL;
    if (!j->storing && !j->removing)
        image_job_drop(j);
}

/* What the store has begun is waited for. */
void image_job_drop(struct image_job *j)
{
    if (j->op)
        j->op->job_ = NULL;
    j->op = NULL;
    keeper_cancel(&j->keeper);
    measure_cancel(&j->measure);
    loop_later_stop(&j->later);
    if (j->storing)
        link_leave(&j->link);
    else
        job_free(j);
}

static void add_name(struct image_job *j, const char *name)
{
    struct job_name *n = calloc(1, sizeof *n);

    if (!n)
        abort();
    snprintf(n->name, sizeof n->name, "%s", name);
    list_append(&j->names, &n->link);
}

static bool take_name(struct image_job *j)
{
    struct link *m = list_take(&j->names);
    struct job_name *n;

    if (!m)
        return false;
    n = container_of(m, struct job_name, link);
    snprintf(j->layer, sizeof j->layer, "%s", n->name);
    free(n);
    return true;
}

static int start(struct image_job *j, const struct keeper_events *events, enum layers_kind kind,
                 const char *name)
{
    struct layers_job job;
    struct err e;
    int r;

    layers_job_fill(&job, kind, name);
    r = keeper_start(j->images->control, &j->keeper, events, &job, NULL, 0, &e);
    if (r < 0)
        finish(j, r, &e);
    return r;
}

/* True: everything ends, and the job is gone. */
static bool end_storing(struct image_job *j)
{
    j->storing = false;
    j->images->control->changes--;
    if (link_joined(&j->link))
        return false;
    job_free(j);
    return true;
}

static void begin_storing(struct image_job *j)
{
    j->storing = true;
    j->images->control->changes++;
    store_txn_begin(&j->txn, j->images->control->store);
}

/* --- removing layers: the row, then the tree --- */

static void layer_removed(struct keeper_job *k, int r, const struct err *e,
                          const struct layers_said *said)
{
    struct image_job *j = container_of(k, struct image_job, keeper);

    (void)said;
    j->removing = false;
    makings_wake(j->images);
    if (r < 0) {
        finish(j, r, e);
        return;
    }
    if (j->op)
        j->op->removed++;
    next_removal(j);
}

static const struct keeper_events removal = { .done = layer_removed };

static void stop_removing(struct image_job *j, int r, const struct err *e)
{
    j->removing = false;
    makings_wake(j->images);
    finish(j, r, e);
}

static void remove_tree(struct image_job *j)
{
    j->removing = true;
    if (start(j, &removal, LAYERS_REMOVE, j->layer) < 0)
        j->removing = false; /* it is told; the tree is garbage now */
}

static void row_removed(struct store_txn *t, int r, const struct err *e)
{
    struct image_job *j = container_of(t, struct image_job, txn);

    if (r < 0)
        layer_stays(j->images, j->layer);
    else
        layer_forget(j->images, j->layer);
    if (end_storing(j))
        return;
    if (r < 0)
        stop_removing(j, r, e);
    else
        remove_tree(j);
}

static void remove_row(struct image_job *j, struct layer *l)
{
    l->leaving = true;
    j->removing = true;
    if (j->op)
        j->op->bytes += l->record.bytes;
    hook_point("image.forget_layer");
    begin_storing(j);
    store_remove_layer(&j->txn, j->layer);
    store_commit(&j->txn, row_removed);
}

/* Captured layers go by themselves when nobody names them (control/layers.h): the image that is
 * removed may have been the last. */
static void count_captured(struct image_job *j)
{
    const struct layer *l = layer_known(j->images->control, j->layer);

    if (!j->op || !j->ref[0] || !l || l->refs)
        return;
    j->op->removed++;
    j->op->bytes += l->record.bytes;
}

static void next_removal(struct image_job *j)
{
    while (!j->images->control->unreadable && take_name(j)) { /* such a record may name any */
        struct layer *l = layer_find(j->images, j->layer);

        if (layer_is_captured(j->layer)) {
            count_captured(j);
            continue;
        }
        if (layer_is_used(j->images, j->layer))
            continue;
        if (l)
            remove_row(j, l);
        else
            remove_tree(j);
        return;
    }
    finish(j, 0, NULL);
}

/* --- prune: what is there, and whose it is --- */

static void on_line(struct keeper_job *k, const char *text)
{
    struct image_job *j = container_of(k, struct image_job, keeper);

    if (layer_name_valid(text))
        add_name(j, text);
}

static void listed(struct keeper_job *k, int r, const struct err *e, const struct layers_said *said)
{
    struct image_job *j = container_of(k, struct image_job, keeper);

    (void)said;
    if (r < 0)
        finish(j, r, e);
    else
        next_removal(j);
}

static const struct keeper_events listing = { .line = on_line, .done = listed };

static void swept(struct keeper_job *k, int r, const struct err *e, const struct layers_said *said)
{
    struct image_job *j = container_of(k, struct image_job, keeper);

    (void)said;
    if (r < 0)
        finish(j, r, e);
    else
        (void)start(j, &listing, LAYERS_LIST, NULL);
}

static const struct keeper_events sweeping = { .done = swept };

static bool is_fetched(struct images *x, const char *name)
{
    for (struct link *m = list_first(&x->makings); m; m = list_after(&x->makings, m)) {
        const struct making *making = container_of(m, struct making, link);

        for (size_t i = 0; i < making_parts(making); i++)
            if (making->parts[i].digest[0] &&
                str_starts(str_from(name), oci_digest_hex(making->parts[i].digest)))
                return true;
    }
    return false;
}

static uint64_t drop_part(struct images *x, const char *name, int64_t kept_ns)
{
    struct stat st;

    if (is_fetched(x, name) || fstatat(x->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        clock_wall() - st.st_mtim.tv_sec * NS_PER_S < kept_ns || unlinkat(x->dir, name, 0) < 0)
        return 0;
    return (uint64_t)st.st_size;
}

/* Of pulls that were not finished: the bytes of those that are gone. */
static uint64_t drop_parts(struct images *x, int64_t kept_ns)
{
    AUTO(walk_done) struct walk w;
    const char *name;
    uint64_t bytes = 0;
    int fd = openat(x->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    walk_init(&w);
    if (fd < 0 || walk_enter(&w, fd, ".", NULL) < 0)
        return 0;
    while (walk_next(&w, &name, NULL) > 0)
        bytes += drop_part(x, name, kept_ns);
    return bytes;
}

static void prune(struct control *c, struct image_op *op, int64_t kept_ns)
{
    struct image_job *j = job_new(c, op);
    struct err e;

    if (c->unreadable) {
        finish(j,
               err_set(&e, ERR_CONFLICT,
                       "a record cannot be read, so what it stands on is not known; the log names "
                       "it"),
               &e);
        return;
    }
    op->bytes += drop_parts(c->images, kept_ns);
    (void)start(j, &sweeping, LAYERS_SWEEP, NULL);
}

void images_prune(struct control *c, struct image_op *op)
{
    prune(c, op, 0);
}

void images_prune_old(struct control *c, struct image_op *op)
{
    prune(c, op, PART_KEPT_NS);
}

/* --- undo: what was made of an image that is not to be --- */

void images_undo(const struct making *m, struct image_op *op)
{
    struct image_job *j = op ? job_new(m->images->control, op) : job_alone(m->images);

    j->err = m->err;
    for (size_t i = 0; i < m->n; i++)
        if (m->parts[i].state >= PART_UNPACKS)
            add_name(j, m->parts[i].layer);
    next_removal(j);
}

/* --- remove --- */

static void image_removed(struct store_txn *t, int r, const struct err *e)
{
    struct image_job *j = container_of(t, struct image_job, txn);

    if (r >= 0) {
        j->event.seq = t->first_seq;
        control_publish(j->images->control, &j->event);
        image_forget(j->images, j->ref);
    }
    if (end_storing(j))
        return;
    if (r < 0)
        finish(j, r, e);
    else
        next_removal(j);
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
    struct image_job *j = job_new(c, op);
    const struct image *im;
    struct err e;
    int r = check_removal(c, ref, &im, &e);

    if (r < 0) {
        finish(j, r, &e);
        return;
    }
    snprintf(op->ref, sizeof op->ref, "%s", im->ref);
    for (size_t i = 0; i < im->layers.n; i++)
        add_name(j, im->layers.p[i]);
    snprintf(j->ref, sizeof j->ref, "%s", im->ref);
    event_fill(&j->event, who, "image.removed", im->ref);
    begin_storing(j);
    store_remove_image(&j->txn, im->ref);
    store_add_event(&j->txn, &j->event);
    store_commit(&j->txn, image_removed);
}

/* --- verify --- */

static void measured(struct measure_op *m, int r, const struct err *e)
{
    struct image_job *j = container_of(m, struct image_job, measure);

    if (j->op) {
        j->op->removed = m->n;
        j->op->first = m->first;
        j->op->bytes = m->bytes;
    }
    finish(j, r, e);
}

static void on_measure(struct measure_op *m, uint64_t bytes)
{
    const struct image_job *j = container_of(m, struct image_job, measure);

    if (j->op && j->op->at)
        j->op->at(j->op, "verify", bytes, 0);
}

static int check_config(const struct image *im, struct err *e)
{
    char digest[OCI_DIGEST_MAX];

    image_digest(im->text, digest);
    return strcmp(digest, im->id) == 0
               ? 0
               : err_set(e, ERR_CONFLICT,
                         "the configuration of %s is not what it was when it came; remove the "
                         "image and bring it again",
                         im->ref);
}

void images_verify(struct control *c, struct str ref, struct image_op *op)
{
    struct image_job *j = job_new(c, op);
    const struct image *im;
    struct err e;
    int r = images_find(c, ref, &im, &e);

    if (r >= 0)
        r = check_config(im, &e);
    if (r < 0) {
        finish(j, r, &e);
        return;
    }
    snprintf(op->ref, sizeof op->ref, "%s", im->ref);
    j->measure = (struct measure_op){ .at = on_measure, .done = measured };
    measure_add(&j->measure, &im->layers);
    measure_start(c, &j->measure);
}
