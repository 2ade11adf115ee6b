/* SPDX-License-Identifier: Apache-2.0 */
/* Exports a snapshot as one file: computes the digests of its layers, then packs them after a
 * manifest with the digests. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/layer/layer_slots.h"
#include "control/snapshot/manifest.h"
#include "control/plane/plane.h"
#include "domain/oci/reference.h"

static size_t count_export_layers(const struct export_op *op)
{
    return op->layers_.n + op->base_.n;
}

static const char *get_export_layer(const struct export_op *op, size_t i)
{
    return i < op->layers_.n ? op->layers_.p[i] : op->base_.p[i - op->layers_.n];
}

static void on_export_later(struct loop_later *l)
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

static void finish_export(struct export_op *op, int r, const struct err *e)
{
    op->r_ = r;
    if (r < 0)
        op->err_ = *e;
    loop_later(op->control_->loop, &op->later_, on_export_later, NULL);
}

static int report_export_size(struct export_op *op, struct err *e)
{
    struct stat st;

    if (fstat(op->file, &st) < 0)
        return err_sys(e, "reading the size of the file");
    return op->grew ? op->grew(op, (uint64_t)st.st_size, e) : 0;
}

static void on_export_progress(struct layer_job *j, uint64_t bytes, uint64_t entries)
{
    struct export_op *op = container_of(j, struct export_op, job_);
    struct err e;
    int r = report_export_size(op, &e);

    if (r >= 0)
        return;
    layer_worker_cancel(j);
    finish_export(op, r, &e);
}

static void on_export_done(struct layer_job *j, int r, const struct err *e,
                           const struct layers_said *said)
{
    struct export_op *op = container_of(j, struct export_op, job_);
    struct err why;

    if (r >= 0) {
        r = report_export_size(op, &why);
        e = &why;
    }
    finish_export(op, r, e);
}

static const struct layer_worker_events exporting = { .progress = on_export_progress,
                                                      .done = on_export_done };

static const char *get_export_digest(const struct export_op *op, size_t i)
{
    return layer_digest(op->control_, get_export_layer(op, i));
}

static bool is_image_layer(const struct export_op *op, size_t i)
{
    return strncmp(get_export_layer(op, i), "sha256-", 7) == 0;
}

/* A layer of an import or a commit has no name that is valid elsewhere, so it is never left out. */
static bool is_left_out(const struct export_op *op, size_t i)
{
    return i >= op->layers_.n && op->without_base && is_image_layer(op, i);
}

static int write_export_manifest(struct export_op *op, int *ret, struct err *e)
{
    const struct snapshot *s = snapshot_find(op->control_, op->caller, str_from(op->id));
    AUTO(buf_done) struct buf text = BUF_INIT(MANIFEST_MAX);
    struct manifest_layer layers[LAYERS_STACK_MAX];
    char names[LAYERS_STACK_MAX][LAYER_NAME_MAX];
    AUTO_CLOSE int fd = -1;
    int r;

    if (!s) /* its layers may have been replaced meanwhile; the digested ones are referenced */
        return err_set(e, ERR_CONFLICT, "the snapshot was deleted meanwhile");
    for (size_t i = 0; i < count_export_layers(op); i++) {
        if (!get_export_digest(op, i)[0])
            return err_set(e, ERR_CONFLICT, "a layer was removed meanwhile");
        layers[i] = (struct manifest_layer){ .digest = get_export_digest(op, i),
                                             .image = i < op->layers_.n ? NULL : names[i],
                                             .left_out = is_left_out(op, i) };
        if (is_image_layer(op, i))
            snprintf(names[i], LAYER_NAME_MAX, "%s", get_export_layer(op, i));
        else
            snprintf(names[i], LAYER_NAME_MAX, "sha256-%s",
                     oci_digest_hex(get_export_digest(op, i)).p);
    }
    r = snapshot_manifest_write(s, layers, count_export_layers(op), &text, e);
    fd = r < 0 ? -1 : control_scratch(op->control_, e);
    if (r < 0 || fd < 0)
        return r < 0 ? r : fd;
    if (pwrite(fd, text.p, text.n, 0) != (ssize_t)text.n)
        return err_sys(e, "writing the manifest");
    *ret = take_fd(&fd);
    return 0;
}

static int start_export_job(struct export_op *op, struct err *e)
{
    AUTO_CLOSE int manifest = -1;
    const struct layer_charge charge = layer_charge_caller(op->control_, op->caller);
    struct layers_job job;
    int r = write_export_manifest(op, &manifest, e);

    if (r < 0)
        return r;
    op->file = control_scratch(op->control_, e);
    if (op->file < 0)
        return op->file;
    layers_job_fill(&job, LAYERS_EXPORT, NULL);
    job.free_min = op->control_->config->images.free_min;
    for (size_t i = 0; i < count_export_layers(op); i++) {
        if (is_left_out(op, i))
            continue;
        snprintf(job.below[job.n_below++], LAYER_NAME_MAX, "%s", get_export_layer(op, i));
        snprintf(job.against[job.n_against++], LAYER_NAME_MAX, "sha256-%s",
                 oci_digest_hex(get_export_digest(op, i)).p);
    }
    return layer_worker_queue(op->control_, &charge, &op->job_, &exporting, &job,
                              (const int[]){ op->file, manifest }, 2, e);
}

static void on_export_digested(struct digest_op *m, int r, const struct err *e)
{
    struct export_op *op = container_of(m, struct export_op, digesting_);
    struct err why;

    if (r >= 0) {
        r = start_export_job(op, &why);
        e = &why;
    }
    if (r < 0)
        finish_export(op, r, e);
}

void snapshot_export(struct control *c, const struct snapshot *s, struct export_op *op)
{
    op->control_ = c;
    c->changes++; /* closing waits for it, also if the client left: the layer worker continues */
    op->file = -1;
    arena_init(&op->arena_, 64 << 10);
    op->layers_ = s->layers;
    op->base_ = s->base.layers;
    if (!json_strs_copy(&op->layers_, &op->arena_) || !json_strs_copy(&op->base_, &op->arena_))
        abort(); /* only a few names */
    layers_ref(c, &op->layers_);
    layers_ref(c, &op->base_);
    op->digesting_ = (struct digest_op){ .caller = op->caller, .done = on_export_digested };
    digest_add(&op->digesting_, &op->layers_);
    digest_add(&op->digesting_, &op->base_);
    digest_start(c, &op->digesting_);
}
