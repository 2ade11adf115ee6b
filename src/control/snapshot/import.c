/* SPDX-License-Identifier: Apache-2.0 */
/* Imports a snapshot from an untrusted file. Its manifest is read and checked first; then its
 * layers are created under new names and their digests are checked; only then the snapshot is
 * recorded. After a failure the new layers are removed. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "control/image/images.h"
#include "control/layer/digest_queue.h"
#include "control/layer/layer_slots.h"
#include "control/snapshot/manifest.h"
#include "control/plane/plane.h"
#include "domain/model/event.h"
#include "domain/oci/reference.h"

enum { IMPORT_ARENA_MAX = 16 << 20 };

static void on_import_later(struct loop_later *l)
{
    struct import_op *op = container_of(l, struct import_op, later_);

    layers_unref(op->control_, &op->names_); /* a snapshot references them, or they are removed */
    drop_fd(&op->text_);
    op->done(op, op->r_, op->r_ < 0 ? &op->err_ : NULL);
    arena_done(&op->arena_);
}

static void finish_import(struct import_op *op, int r, const struct err *e)
{
    op->r_ = r;
    if (r < 0)
        op->err_ = *e;
    loop_later(op->control_->loop, &op->later_, on_import_later, NULL);
}

/* --- storing --- */

/* The record of a new layer, whose digest the layer worker has checked. */
static const struct layer_record *get_made_record(const struct import_op *op, size_t i)
{
    return layer_is_captured(op->names_.p[i]) ? &op->records_[i] : NULL;
}

static void on_import_stored(struct store_txn *t, int r, const struct err *e)
{
    struct import_op *op = container_of(t, struct import_op, txn_);

    op->control_->changes--;
    if (r >= 0) {
        control_publish_first(op->control_, t, &op->event_);
        for (size_t i = 0; i < op->names_.n; i++)
            if (get_made_record(op, i)) {
                layer_set_row(op->control_, get_made_record(op, i));
                digest_queue_add(op->control_, op->names_.p[i]);
            }
        op->snapshot = op->new_;
        snapshot_keep(op->control_, take_ptr(op->new_));
    } else {
        snapshot_free(take_ptr(op->new_));
    }
    finish_import(op, r, e);
}

/* The file's labels, except those that the caller's token sets. */
static int join_labels(struct import_op *op, struct json_map *ret, struct err *e)
{
    const struct json_map *own = &op->caller->labels, *said = &op->manifest_->labels;
    struct json_pair *all = arena_array(&op->arena_, own->n + said->n + 1, sizeof *all);
    size_t n = 0;

    if (!all)
        return err_set(e, ERR_TOO_BIG,
                       "labels: %zu labels of file and token need more memory than the allowed %d "
                       "bytes",
                       own->n + said->n, IMPORT_ARENA_MAX);
    for (size_t i = 0; i < own->n; i++)
        all[n++] = own->p[i];
    for (size_t i = 0; i < said->n; i++)
        if (!json_map_get(own, said->p[i].key))
            all[n++] = said->p[i];
    *ret = (struct json_map){ all, n };
    return 0;
}

/* A file may claim to be smaller than what was made of it. */
static int64_t count_imported_bytes(const struct import_op *op)
{
    int64_t made = 0;

    for (size_t i = 0; i < op->names_.n; i++)
        if (get_made_record(op, i))
            made += (int64_t)op->records_[i].bytes;
    return made > op->manifest_->bytes ? made : op->manifest_->bytes;
}

static int fill_import_record(struct import_op *op, struct buf *layers, struct buf *base,
                              struct buf *config, struct snapshot_record *ret, struct err *e)
{
    const struct snapshot_manifest *m = op->manifest_;
    const struct base_image b = { .config = m->config };
    int r = base_image_write_config(&b, config, e);

    for (size_t i = 0; r >= 0 && i < op->names_.n; i++) {
        struct buf *to = manifest_is_image(m, i) ? base : layers;

        r = buf_addf(to, "%s%s", to->n ? " " : "", op->names_.p[i]);
    }
    if (r >= 0 && !op->name && m->name)
        r = err_wrap(e, snapshot_name_check(str_from(m->name), e),
                     "the name in the file is invalid (give another one)");
    if (r < 0)
        return r;
    *ret = (struct snapshot_record){ .profile_version = m->profile_version,
                                     .created_ns = clock_wall(),
                                     .bytes = count_imported_bytes(op),
                                     .entries = m->entries,
                                     .pause_ns = m->pause_ns,
                                     .image = str_from(m->image ? m->image : ""),
                                     .digest = str_from(m->digest ? m->digest : ""),
                                     .layers = buf_str(layers),
                                     .base = buf_str(base),
                                     .config = buf_str(config) };
    snprintf(ret->owner, sizeof ret->owner, "%s", op->caller->owner);
    snprintf(ret->family, sizeof ret->family, "%s", op->caller->family);
    snprintf(ret->name, sizeof ret->name, "%s", op->name ? op->name : m->name ? m->name : "");
    snprintf(ret->sandbox, sizeof ret->sandbox, "%s", m->sandbox);
    snprintf(ret->profile, sizeof ret->profile, "%s", m->profile);
    return id_make("snap_", ret->id, e);
}

static int make_import_record(struct import_op *op, struct err *e)
{
    AUTO(buf_done)
    struct buf layers = BUF_INIT(LAYERS_NAMES_MAX), base = BUF_INIT(LAYERS_NAMES_MAX),
               config = BUF_INIT(BASE_CONFIG_MAX);
    struct snapshot_record record;
    int r = fill_import_record(op, &layers, &base, &config, &record, e);

    r = r < 0 ? r : join_labels(op, &record.labels, e);
    if (r >= 0)
        r = snapshot_check_quota(op->control_, record.owner, op->caller, (uint64_t)record.bytes, e);
    return r < 0 ? r : snapshot_new(&record, &op->new_, e);
}

static void store_import(struct import_op *op)
{
    struct err e;
    int r = make_import_record(op, &e);

    if (r < 0) {
        finish_import(op, r, &e);
        return;
    }
    snapshot_count(op->control_, op->new_);
    fault_point("import.record");
    event_fill(&op->event_, &op->caller->actor, op->caller->owner, "snapshot.imported",
               op->new_->record.id);
    op->control_->changes++;
    store_txn_begin(&op->txn_, op->control_->store);
    for (size_t i = 0; i < op->names_.n; i++)
        if (get_made_record(op, i))
            store_put_layer(&op->txn_, get_made_record(op, i));
    store_put_snapshot(&op->txn_, &op->new_->record);
    store_add_event(&op->txn_, &op->event_);
    store_commit(&op->txn_, on_import_stored);
}

/* --- its layers --- */

static void on_import_done(struct layer_job *j, int r, const struct err *e,
                           const struct layers_said *said)
{
    struct import_op *op = container_of(j, struct import_op, job_);

    if (r < 0)
        finish_import(op, r, e);
    else
        store_import(op);
}

/* "NAME BYTES ENTRIES" */
static void on_import_layer_made(struct layer_job *j, const char *text)
{
    struct import_op *op = container_of(j, struct import_op, job_);
    struct str rest = str_from(text), name, bytes;

    rest = str_cut(rest, ' ', &name);
    rest = str_cut(rest, ' ', &bytes);
    for (size_t i = 0; i < op->names_.n; i++)
        if (str_eq(name, str_from(op->names_.p[i]))) {
            (void)str_to_u64(bytes, &op->records_[i].bytes);
            (void)str_to_u64(rest, &op->records_[i].entries);
        }
}

static const struct layer_worker_events importing = { .line = on_import_layer_made,
                                                      .done = on_import_done };

static int fail_import_layers(const struct import_op *op, struct err *e)
{
    return err_set(e, ERR_TOO_BIG, "%zu layers need more memory than the allowed %d bytes",
                   op->manifest_->layers.n, IMPORT_ARENA_MAX);
}

/* If the image's layer exists here, it is used; else it is created as one of the snapshot's own,
 * since its name cannot be verified. */
static int choose_layer_name(struct import_op *op, size_t i, const char **ret, struct err *e)
{
    const struct manifest_layer *l = (const struct manifest_layer *)op->manifest_->layers.p + i;
    char id[ID_MAX];
    int r;

    if (manifest_is_image(op->manifest_, i) && layer_on_record(op->control_, l->image)) {
        *ret = l->image;
        return 0;
    }
    if (l->left_out)
        return err_set(e, ERR_NOT_FOUND,
                       "it was exported without its image, which is missing here: get %.80s "
                       "(%.19s…) first, with `sandboxer image pull`",
                       op->manifest_->image, op->manifest_->digest ? op->manifest_->digest : "");
    r = id_make("lay_", id, e);
    *ret = r < 0 ? NULL : arena_dup(&op->arena_, str_from(id));
    return r < 0 ? r : *ret ? 0 : fail_import_layers(op, e);
}

static int choose_layer_names(struct import_op *op, struct err *e)
{
    const struct manifest_layer *l = op->manifest_->layers.p;
    size_t n = op->manifest_->layers.n;
    const char **names = arena_array(&op->arena_, n, sizeof *names);
    int r;

    op->records_ = arena_array(&op->arena_, n, sizeof *op->records_);
    r = names && op->records_ ? 0 : fail_import_layers(op, e);
    for (size_t i = 0; r >= 0 && i < n; i++) {
        struct layer_record *row = &op->records_[i];

        r = choose_layer_name(op, i, &names[i], e);
        *row = (struct layer_record){ .created_ns = clock_wall() };
        snprintf(row->name, sizeof row->name, "%s", r < 0 ? "" : names[i]);
        snprintf(row->digest, sizeof row->digest, "%s", l[i].digest);
    }
    if (r < 0)
        return r;
    op->names_ = (struct json_strs){ names, n };
    layers_ref(op->control_, &op->names_);
    return 0;
}

static int start_import_job(struct import_op *op, struct err *e)
{
    const struct manifest_layer *l = op->manifest_->layers.p;
    const struct config *config = op->control_->config;
    struct layer_charge charge = layer_charge_caller(op->control_, op->caller);
    struct layers_job job;

    layers_job_fill(&job, LAYERS_IMPORT, NULL);
    job.bytes_max = snapshot_room(op->control_, op->caller);
    if (job.bytes_max == 0) /* which is the default */
        job.bytes_max = 1;
    if (job.bytes_max > config->images.max_bytes)
        job.bytes_max = config->images.max_bytes;
    job.free_min = op->control_->storage.free_min;
    for (size_t i = 0; i < op->names_.n; i++) {
        if (l[i].left_out)
            continue;
        snprintf(job.below[job.n_below++], LAYER_NAME_MAX, "%s", op->names_.p[i]);
        snprintf(job.against[job.n_against++], LAYER_NAME_MAX, "sha256-%s",
                 oci_digest_hex(l[i].digest).p);
    }
    if (lseek(op->file, 0, SEEK_SET) < 0)
        return err_sys(e, "rewinding the file");
    charge.must = true; /* it was let in to read the manifest */
    return layer_worker_queue(op->control_, &charge, &op->job_, &importing, &job, &op->file, 1, e);
}

/* --- its manifest --- */

static void on_manifest_extracted(struct layer_job *j, int r, const struct err *e,
                                  const struct layers_said *said)
{
    struct import_op *op = container_of(j, struct import_op, job_);
    struct err why;
    char *room;
    ssize_t n;

    if (r >= 0) {
        room = arena_alloc(&op->arena_, MANIFEST_MAX);
        n = room ? pread(op->text_, room, MANIFEST_MAX, 0) : -1;
        op->manifest_ = arena_alloc(&op->arena_, sizeof *op->manifest_);
        r = n < 0 || !op->manifest_ ? err_sys(&why, "reading the manifest")
                                    : snapshot_manifest_read((struct str){ room, (size_t)n },
                                                             &op->arena_, op->manifest_, &why);
        r = r < 0 ? r : choose_layer_names(op, &why);
        r = r < 0 ? r : start_import_job(op, &why);
        e = &why;
    }
    if (r < 0)
        finish_import(op, r, e);
}

static const struct layer_worker_events reading = { .done = on_manifest_extracted };

void snapshot_import(struct control *c, struct import_op *op)
{
    const struct layer_charge charge = layer_charge_caller(c, op->caller);
    struct layers_job job;
    struct err e;
    int r;

    op->control_ = c;
    op->snapshot = op->new_ = NULL;
    op->names_ = (struct json_strs){ NULL, 0 };
    arena_init(&op->arena_, IMPORT_ARENA_MAX);
    op->text_ = control_scratch(c, &e);
    layers_job_fill(&job, LAYERS_MANIFEST, NULL);
    r = op->text_ < 0 ? op->text_ : snapshot_check_quota(c, op->caller->owner, op->caller, 0, &e);
    if (r >= 0 && lseek(op->file, 0, SEEK_SET) < 0)
        r = err_sys(&e, "rewinding the file");
    if (r >= 0)
        r = layer_worker_queue(c, &charge, &op->job_, &reading, &job,
                               (const int[]){ op->file, op->text_ }, 2, &e);
    if (r < 0)
        finish_import(op, r, &e);
}
