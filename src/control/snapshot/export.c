/* A snapshot as one file: its layers are measured, then packed behind a manifest that says so. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/manifest.h"
#include "control/plane.h"
#include "oci/reference.h"

static size_t count(const struct export_op *op)
{
    return op->layers_.n + op->base_.n;
}

static const char *layer(const struct export_op *op, size_t i)
{
    return i < op->layers_.n ? op->layers_.p[i] : op->base_.p[i - op->layers_.n];
}

static void on_later(struct loop_later *l)
{
    struct export_op *op = container_of(l, struct export_op, later_);

    layers_unref(op->control_, &op->layers_);
    layers_unref(op->control_, &op->base_);
    op->control_->changes--;
    if (op->r_ < 0)
        drop_fd(&op->file);
    arena_done(&op->arena_);
    op->done(op, op->r_, op->r_ < 0 ? &op->err_ : NULL);
}

static void finish(struct export_op *op, int r, const struct err *e)
{
    op->r_ = r;
    if (r < 0)
        op->err_ = *e;
    loop_later(op->control_->loop, &op->later_, on_later, NULL);
}

static void exported(struct keeper_job *j, int r, const struct err *e,
                     const struct layers_said *said)
{
    (void)said;
    finish(container_of(j, struct export_op, job_), r, e);
}

static const struct keeper_events exporting = { .done = exported };

static const char *measure_of(const struct export_op *op, size_t i)
{
    return layer_measure(op->control_, layer(op, i));
}

static bool is_named(const struct export_op *op, size_t i)
{
    return strncmp(layer(op, i), "sha256-", 7) == 0;
}

/* One that came with an import, or of a commit, has no name that means anything elsewhere. */
static bool is_left_out(const struct export_op *op, size_t i)
{
    return i >= op->layers_.n && op->without_base && is_named(op, i);
}

static void name_image_layer(const struct export_op *op, size_t i, char out[static LAYER_NAME_MAX])
{
    if (is_named(op, i))
        snprintf(out, LAYER_NAME_MAX, "%s", layer(op, i));
    else
        snprintf(out, LAYER_NAME_MAX, "sha256-%s", oci_digest_hex(measure_of(op, i)).p);
}

static int write_manifest(struct export_op *op, int *ret, struct err *e)
{
    const struct snapshot *s = snapshot_find(op->control_, op->caller, str_from(op->id));
    AUTO(buf_done) struct buf text = BUF_INIT(MANIFEST_MAX);
    struct manifest_layer layers[LAYERS_STACK_MAX];
    char names[LAYERS_STACK_MAX][LAYER_NAME_MAX];
    AUTO_CLOSE int fd = -1;
    int r;

    if (!s) /* its layers may be others meanwhile; those that were measured are held */
        return err_set(e, ERR_CONFLICT, "the snapshot was deleted meanwhile");
    for (size_t i = 0; i < count(op); i++) {
        if (!measure_of(op, i)[0])
            return err_set(e, ERR_CONFLICT, "a layer was removed meanwhile");
        layers[i] = (struct manifest_layer){ .measure = measure_of(op, i),
                                             .image = i < op->layers_.n ? NULL : names[i],
                                             .left_out = is_left_out(op, i) };
        name_image_layer(op, i, names[i]);
    }
    r = manifest_write(s, layers, count(op), &text, e);
    fd = r < 0 ? -1 : control_scratch(op->control_, e);
    if (r < 0 || fd < 0)
        return r < 0 ? r : fd;
    if (pwrite(fd, text.p, text.n, 0) != (ssize_t)text.n)
        return err_sys(e, "writing the manifest");
    *ret = take_fd(&fd);
    return 0;
}

static int pack(struct export_op *op, struct err *e)
{
    AUTO_CLOSE int manifest = -1;
    struct layers_job job;
    int r = write_manifest(op, &manifest, e);

    if (r < 0)
        return r;
    op->file = control_scratch(op->control_, e);
    if (op->file < 0)
        return op->file;
    layers_job_fill(&job, LAYERS_EXPORT, NULL);
    job.free_min = op->control_->config->images.free_min;
    for (size_t i = 0; i < count(op); i++) {
        if (is_left_out(op, i))
            continue;
        snprintf(job.below[job.n_below++], LAYER_NAME_MAX, "%s", layer(op, i));
        snprintf(job.against[job.n_against++], LAYER_NAME_MAX, "sha256-%s",
                 oci_digest_hex(measure_of(op, i)).p);
    }
    return keeper_start(op->control_, &op->job_, &exporting, &job,
                        (const int[]){ op->file, manifest }, 2, e);
}

static void measured(struct measure_op *m, int r, const struct err *e)
{
    struct export_op *op = container_of(m, struct export_op, measure_);
    struct err why;

    if (r >= 0) {
        r = pack(op, &why);
        e = &why;
    }
    if (r < 0)
        finish(op, r, e);
}

static struct json_strs copy_names(const struct json_strs *from, struct arena *a)
{
    const char **p = arena_array(a, from->n + 1, sizeof *p);

    for (size_t i = 0; p && i < from->n; i++)
        p[i] = arena_dup(a, str_from(from->p[i]));
    if (!p)
        abort(); /* a few names */
    return (struct json_strs){ p, from->n };
}

void snapshot_export(struct control *c, const struct snapshot *s, struct export_op *op)
{
    op->control_ = c;
    c->changes++; /* closing waits for it: the client may have left, and the keeper works on */
    op->file = -1;
    arena_init(&op->arena_, 64 << 10);
    op->layers_ = copy_names(&s->layers, &op->arena_);
    op->base_ = copy_names(&s->base.layers, &op->arena_);
    layers_ref(c, &op->layers_);
    layers_ref(c, &op->base_);
    op->measure_ = (struct measure_op){ .done = measured };
    measure_add(&op->measure_, &op->layers_);
    measure_add(&op->measure_, &op->base_);
    measure_start(c, &op->measure_);
}
