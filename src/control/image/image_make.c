/* SPDX-License-Identifier: Apache-2.0 */
/* Creates an image: its layers are fetched, checked, unpacked and recorded in parallel; then the
 * image is recorded. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/disk_space.h"
#include "base/own.h"
#include "control/image/images_internal.h"
#include "control/layer/layers.h"
#include "domain/model/event.h"
#include "engine/layers/budget.h"
#include "lib/tar/tree.h"

#define REPORT_NS (100 * NS_PER_MS)

enum {
    ERROR_BODY_MAX = 64 << 10,
    /* Minimum budget of a layer: the unpacker reads more than the content that the budget
     * counts. */
    LEAST_BYTES = 1 << 20,
    LEAST_ENTRIES = 1024,
};

struct image_making *image_making_new(struct control *c, const struct caller *who,
                                      struct image_op *op)
{
    struct image_making *m = new0(sizeof *m);

    m->images = c->images;
    m->op = op;
    m->budget = -1;
    m->caller = *who;
    m->caller.labels = (struct json_map){ NULL, 0 }; /* borrowed, and not needed */
    buf_init(&m->config_text, OCI_CONFIG_MAX);
    arena_init(&m->arena, IMAGE_ARENA_MAX);
    list_append(&c->images->makings, &m->link);
    op->making_ = m;
    return m;
}

static void image_making_free(struct image_making *m)
{
    for (size_t i = 0; i < m->n; i++)
        drop_fd(&m->parts[i].fd);
    drop_fd(&m->budget);
    link_leave(&m->link);
    sift_free(m->sift);
    registry_done(&m->registry);
    buf_done(&m->config_text);
    arena_done(&m->arena);
    free(m->parts);
    free(m);
}

/* Others may wait for the same blob. */
void image_makings_wake(struct images *x)
{
    LIST_EACH_SAFE (struct image_making, other, &x->makings, link)
        if (other->parts && !other->sifts && !other->failed && !other->ending)
            image_making_continue(other);
}

/* Out of space: the partial blobs and layers are removed. */
static bool is_out_of_room(const struct err *e)
{
    return e->code == ERR_TOO_BIG || (e->code == ERR_SYS && (e->sys == ENOSPC || e->sys == EDQUOT));
}

/* Continues with the next image of the same archive. */
static void begin_next_image(struct image_making *m)
{
    struct image_op *op = take_ptr(m->op);
    struct image_making *next = image_making_new(m->images->control, &m->caller, op);
    struct images *x = m->images;

    if (op->made)
        op->made(op, m->ref);
    next->squash = m->squash;
    next->platform = m->platform;
    next->sift = take_ptr(m->sift);
    image_making_free(m);
    sift_read_image(next);
    image_makings_wake(x);
}

static void on_making_later(struct loop_later *l)
{
    struct image_making *m = container_of(l, struct image_making, later);
    struct images *x = m->images;
    struct image_op *op;
    struct err e;

    if (m->op && !m->err.code && m->sift && sift_next_image(m->sift)) {
        begin_next_image(m);
        return;
    }
    if (m->err.code && m->ref[0] && m->sift && sift_has_several(m->sift))
        err_wrap(&m->err, -(int)m->err.code, "%s", m->ref);
    op = take_ptr(m->op);
    e = m->err;
    if (op) {
        snprintf(op->ref, sizeof op->ref, "%s", m->ref);
        op->making_ = NULL;
    }
    if (is_out_of_room(&e)) {
        link_leave(&m->link); /* its layers lose their references */
        images_undo(m, take_ptr(op));
    }
    image_making_free(m);
    if (op)
        op->done(op, -(int)e.code, e.code ? &e : NULL);
    image_makings_wake(x);
}

static void schedule_making_end(struct image_making *m)
{
    if (!m->ending) {
        m->ending = true;
        loop_later(m->images->control->loop, &m->later, on_making_later, NULL);
    }
}

void image_making_settle(struct image_making *m)
{
    if (m->failed && !m->busy)
        schedule_making_end(m);
}

static void write_blob_name(const struct image_part *p, char out[static OCI_DIGEST_MAX + 8])
{
    snprintf(out, OCI_DIGEST_MAX + 8, "%s.part", oci_digest_hex(p->digest).p);
}

static void unlink_blob(const struct image_part *p)
{
    char name[OCI_DIGEST_MAX + 8];

    if (!p->digest[0])
        return;
    write_blob_name(p, name);
    (void)unlinkat(p->making->images->dir, name, 0);
}

void image_making_fail(struct image_making *m, const struct err *e)
{
    if (m->failed || m->ending)
        return;
    m->failed = true;
    m->err = *e;
    registry_cancel(&m->get);
    sift_stop(m->sift);
    for (size_t i = 0; i < image_making_parts(m); i++) {
        struct image_part *p = &m->parts[i];

        registry_cancel(&p->get);
        layer_worker_cancel(&p->job);
        /* The blob of a waiting part may belong to another operation. */
        if (is_out_of_room(e) && p->state > PART_WAITS && p->state < PART_DONE)
            unlink_blob(p);
    }
    image_making_settle(m);
}

void image_making_cancel(struct image_making *m)
{
    struct err e;

    (void)err_set(&e, ERR_CONFLICT, "cancelled");
    if (m->op)
        m->op->making_ = NULL;
    m->op = NULL;
    image_making_fail(m, &e);
}

/* Work of a thread or of the store cannot be cancelled. */
static void begin_making_work(struct image_making *m)
{
    m->busy++;
    m->images->control->changes++;
}

static void end_making_work(struct image_making *m)
{
    m->busy--;
    m->images->control->changes--;
}

void image_making_report(struct image_making *m, const char *step, uint64_t bytes, uint64_t total)
{
    if (m->op && m->op->at)
        m->op->at(m->op, step, bytes, total);
}

/* Reports the step of most parts. */
static void report_parts(struct image_making *m)
{
    uint64_t fetched = 0, unpacked = 0, total = 0;
    int64_t now = clock_mono();

    if (now - m->reported_ns < REPORT_NS)
        return;
    m->reported_ns = now;
    for (size_t i = 0; i < m->n; i++) {
        const struct image_part *p = &m->parts[i];

        total += p->digest[0] ? p->size : 0;
        if (p->state == PART_FETCHES)
            fetched += p->bytes;
        else if (p->state >= PART_UNPACKS)
            fetched += p->digest[0] ? p->size : 0;
        if (p->state == PART_UNPACKS)
            unpacked += p->bytes;
    }
    if (fetched < total)
        image_making_report(m, "fetch", fetched, total);
    else
        image_making_report(m, "unpack", unpacked, 0);
}

/* --- planning --- */

int image_making_set_config(struct image_making *m, struct str text, struct err *e)
{
    if (buf_add(&m->config_text, text) >= 0)
        return 0;
    return err_set(e, ERR_TOO_BIG, "the image's configuration has %zu bytes, more than %d", text.n,
                   OCI_CONFIG_MAX);
}

int image_making_plan(struct image_making *m, struct err *e)
{
    int r = oci_config_read(buf_str(&m->config_text), &m->arena, &m->config, e);

    if (r < 0)
        return r;
    m->n = m->config.diff_ids.n;
    m->parts = new0_array(m->n, sizeof *m->parts);
    for (size_t i = 0; i < m->n; i++) {
        struct image_part *p = &m->parts[i];

        p->making = m;
        p->fd = -1;
        snprintf(p->layer, sizeof p->layer, "sha256-%s", oci_digest_hex(m->config.diff_ids.p[i]).p);
    }
    return 0;
}

/* The budget that is left. */
struct image_allowance {
    uint64_t bytes, entries;
};

static int subtract_from(uint64_t *left, uint64_t n)
{
    if (n > *left)
        return -1;
    *left -= n;
    return 0;
}

/* Compressed sizes are those of the manifest; an archive was counted when it was received. */
static int count_packed(const struct image_making *m, struct err *e)
{
    uint64_t max = m->images->control->config->images.max_bytes, left = max;

    for (size_t i = 0; i < m->n; i++)
        if (m->parts[i].digest[0] && subtract_from(&left, m->parts[i].size) < 0)
            return err_set(e, ERR_TOO_BIG,
                           "the image's layers have more than %llu bytes (images.max_bytes)",
                           (unsigned long long)max);
    return 0;
}

static int count_unpacked(const struct image_making *m, struct image_allowance *ret, struct err *e)
{
    uint64_t max = m->images->control->config->images.max_bytes;
    struct image_allowance left = { max, TREE_ENTRIES_DEFAULT };

    for (size_t i = 0; i < m->n; i++) {
        const struct layer *l = layer_on_record(m->images->control, m->parts[i].layer);

        if (l && (subtract_from(&left.bytes, l->record.bytes) < 0 ||
                  subtract_from(&left.entries, l->record.entries) < 0))
            return err_set(
                e, ERR_TOO_BIG,
                "the image's layers hold more than %llu bytes (images.max_bytes) or %llu files",
                (unsigned long long)max, (unsigned long long)TREE_ENTRIES_DEFAULT);
    }
    *ret = left;
    return 0;
}

/* --- the image itself --- */

static void fill_image_record(const struct image_making *m, struct buf *names,
                              struct image_record *ret)
{
    for (size_t i = 0; i < m->n; i++) /* the buffer has room for all */
        (void)buf_addf(names, "%s%s", i ? " " : "", m->parts[i].layer);
    *ret = (struct image_record){ .created_ns = clock_wall(), .config = buf_str(&m->config_text) };
    snprintf(ret->ref, sizeof ret->ref, "%s", m->ref);
    snprintf(ret->digest, sizeof ret->digest, "%s", m->digest);
    image_digest(ret->config, ret->id);
    ret->layers = buf_str(names);
}

static void on_image_stored(struct store_txn *t, int r, const struct err *e)
{
    struct image_making *m = container_of(t, struct image_making, txn);
    AUTO(buf_done) struct buf names = BUF_INIT(OCI_LAYERS_MAX * LAYER_NAME_MAX);
    struct image_record record;
    struct err bad;

    end_making_work(m);
    if (r >= 0) {
        control_publish_first(m->images->control, t, &m->event);
        fill_image_record(m, &names, &record);
        r = image_add(m->images, &record, &bad);
        e = &bad;
    }
    if (r < 0 && !m->failed)
        m->err = *e;
    schedule_making_end(m);
}

static void store_image(struct image_making *m)
{
    AUTO(buf_done) struct buf names = BUF_INIT(OCI_LAYERS_MAX * LAYER_NAME_MAX);
    struct image_record record;

    fill_image_record(m, &names, &record);
    event_fill(&m->event, &m->caller.actor, m->caller.owner,
               m->from_registry ? "image.pulled" : "image.imported", m->ref);
    fault_point("image.store");
    begin_making_work(m);
    store_txn_begin(&m->txn, m->images->control->store);
    store_put_image(&m->txn, &record);
    store_add_event(&m->txn, &m->event);
    store_commit(&m->txn, on_image_stored);
}

/* --- a layer: on record --- */

static void drop_blob(struct image_part *p)
{
    drop_fd(&p->fd);
    unlink_blob(p);
}

static void on_image_layer_stored(struct store_txn *t, int r, const struct err *e)
{
    struct image_part *p = container_of(t, struct image_part, txn);
    struct image_making *m = p->making;

    end_making_work(m);
    if (r < 0) {
        image_making_fail(m, e);
        image_making_settle(m);
        return;
    }
    drop_blob(p);
    p->state = PART_DONE;
    image_making_settle(m);
    if (!m->failed)
        image_making_continue(m);
}

static void store_image_layer(struct image_part *p, const struct layers_said *said)
{
    struct image_making *m = p->making;
    struct layer_record r = { .bytes = said->bytes,
                              .entries = said->entries,
                              .created_ns = clock_wall() };

    snprintf(r.name, sizeof r.name, "%s", p->layer);
    str_copy(str_from(said->text), r.digest, sizeof r.digest);
    layer_set_row(m->images->control, &r);
    p->state = PART_STORES;
    fault_point("image.layer");
    begin_making_work(m);
    store_txn_begin(&p->txn, m->images->control->store);
    store_put_layer(&p->txn, &r);
    store_commit(&p->txn, on_image_layer_stored);
}

/* --- a layer: unpacked --- */

static void begin_image_part(struct image_part *p);

static void on_unpack_progress(struct layer_job *j, uint64_t bytes, uint64_t entries)
{
    struct image_part *p = container_of(j, struct image_part, job);

    p->bytes = bytes;
    report_parts(p->making);
}

static void on_part_unpacked(struct layer_job *j, int r, const struct err *e,
                             const struct layers_said *said)
{
    struct image_part *p = container_of(j, struct image_part, job);
    struct err bad;

    if (r >= 0) {
        store_image_layer(p, said);
        return;
    }
    if (r == -(int)ERR_UPSTREAM && p->resumed) { /* the blob may be damaged by a crash */
        drop_blob(p);
        p->get = (struct registry_get){ .registry = NULL };
        begin_image_part(p);
        return;
    }
    bad = *e;
    err_wrap(&bad, r, "layer %zu of %zu", (size_t)(p - p->making->parts) + 1, p->making->n);
    if (r == -(int)ERR_INVALID || r == -(int)ERR_UPSTREAM)
        drop_blob(p); /* wrong digest, or invalid content */
    image_making_fail(p->making, &bad);
}

static const struct layer_worker_events events = { .progress = on_unpack_progress,
                                                   .done = on_part_unpacked };

static void unpack_part(struct image_part *p)
{
    struct image_making *m = p->making;
    struct image_allowance left;
    struct layer_charge charge;
    struct layers_job job;
    struct err e;
    int r = count_unpacked(m, &left, &e);

    /* Layers that are unpacked at the same time share the budget that was left at the start; layers
     * of this image from other operations are on disk anyway, and are counted when they are on
     * record. */
    if (r >= 0 && m->budget < 0)
        m->budget = r = budget_make(left.bytes, left.entries, &e);
    if (r < 0) {
        image_making_fail(m, &e);
        return;
    }
    layers_job_fill(&job, LAYERS_UNPACK, p->layer);
    job.flags = m->squash ? LAYERS_SQUASH : 0;
    job.bytes_max = left.bytes > LEAST_BYTES ? left.bytes : LEAST_BYTES;
    job.entries_max = left.entries > LEAST_ENTRIES ? left.entries : LEAST_ENTRIES;
    job.free_min = m->images->control->storage.free_min;
    job.at = p->at;
    job.size = p->size;
    if (p->digest[0])
        snprintf(job.packed, sizeof job.packed, "sha256-%s", oci_digest_hex(p->digest).p);
    p->state = PART_UNPACKS;
    p->bytes = 0;
    charge = layer_charge_caller(m->images->control, &m->caller);
    charge.must = true; /* an image has a few at a time */
    if (layer_worker_queue(m->images->control, &charge, &p->job, &events, &job,
                           (int[]){ p->fd, m->budget }, 2, &e) < 0)
        image_making_fail(m, &e);
}

/* --- a layer: fetched --- */

static uint64_t get_free_min(const struct image_part *p)
{
    return p->making->images->control->config->images.free_min;
}

static int on_blob_piece(struct registry_get *g, bool restart, struct str piece, struct err *e)
{
    struct image_part *p = container_of(g, struct image_part, get);
    ssize_t n;

    if (restart) { /* the registry does not resume */
        g->from = 0;
        p->resumed = false;
    }
    if (piece.n > p->size - g->from)
        return err_set(e, ERR_TOO_BIG, "the registry sent more than the %llu bytes of blob %.19s…",
                       (unsigned long long)p->size, p->digest);
    if (room_check(p->fd, get_free_min(p), g->from, piece.n, e) < 0)
        return -(int)e->code;
    n = pwrite(p->fd, piece.p, piece.n, (off_t)g->from);
    if (n != (ssize_t)piece.n)
        return n < 0 ? err_sys(e, "writing a layer")
                     : err_set(e, ERR_TOO_BIG, "writing a layer: the disk is full");
    g->from += piece.n;
    p->bytes = g->from;
    report_parts(p->making);
    return 0;
}

static void on_blob_fetched(struct registry_get *g, int r, const struct err *e,
                            const struct fetch_answer *a)
{
    struct image_part *p = container_of(g, struct image_part, get);
    struct err bad;

    if (r >= 0 && g->from < p->size) {
        drop_blob(p);
        r = err_set(&bad, ERR_UPSTREAM, "the registry sent less than the %llu bytes of blob %.19s…",
                    (unsigned long long)p->size, p->digest);
        e = &bad;
    }
    if (r < 0)
        image_making_fail(p->making, e);
    else
        unpack_part(p);
}

static void fetch_blob(struct image_part *p)
{
    struct err e;

    p->state = PART_FETCHES;
    if (room_check(p->fd, get_free_min(p), 0, p->size - p->get.from, &e) < 0) {
        image_making_fail(p->making, &e);
        return;
    }
    p->bytes = p->get.from;
    p->get.registry = &p->making->registry;
    p->get.max_body = ERROR_BODY_MAX;
    p->get.piece = on_blob_piece;
    p->get.done = on_blob_fetched;
    snprintf(p->get.what, sizeof p->get.what, "blobs/%s", p->digest);
    registry_start(&p->get);
}

static int open_blob(struct image_part *p, struct err *e)
{
    char name[OCI_DIGEST_MAX + 8];
    struct stat st;

    write_blob_name(p, name);
    p->fd = openat(p->making->images->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (p->fd < 0 || fstat(p->fd, &st) < 0)
        return err_sys(e, "creating a file for a layer");
    if ((uint64_t)st.st_size > p->size && ftruncate(p->fd, 0) < 0)
        return err_sys(e, "truncating a file for a layer");
    p->get.from = (uint64_t)st.st_size > p->size ? 0 : (uint64_t)st.st_size;
    p->resumed = p->get.from > 0;
    return 0;
}

/* Continues the blob of an earlier pull; the layer worker checks the digest of the whole. */
static void begin_image_part(struct image_part *p)
{
    struct err e;

    if (p->digest[0] && open_blob(p, &e) < 0)
        image_making_fail(p->making, &e);
    else if (p->digest[0] && p->get.from < p->size)
        fetch_blob(p);
    else
        unpack_part(p);
}

/* --- all parts --- */

/* The same layer is being created, for this image or another; or it is being removed. */
static bool is_part_under_way(const struct image_part *p)
{
    struct images *x = p->making->images;

    LIST_EACH (const struct image_job, j, &x->jobs, link)
        if (j->removing && strcmp(j->layer, p->layer) == 0)
            return true;
    LIST_EACH (const struct image_making, m, &x->makings, link) {
        for (size_t i = 0; i < image_making_parts(m); i++) {
            const struct image_part *other = &m->parts[i];

            if (other != p && other->state > PART_WAITS && other->state < PART_DONE &&
                (strcmp(other->layer, p->layer) == 0 ||
                 (p->digest[0] && strcmp(other->digest, p->digest) == 0)))
                return true;
        }
    }
    return false;
}

void image_making_continue(struct image_making *m)
{
    size_t busy = 0, done = 0;
    struct image_allowance left;
    struct err e;

    if (count_packed(m, &e) < 0 || count_unpacked(m, &left, &e) < 0) {
        image_making_fail(m, &e);
        return;
    }
    for (size_t i = 0; i < m->n; i++) {
        struct image_part *p = &m->parts[i];

        if (p->state == PART_WAITS && !is_part_under_way(p) &&
            layer_on_record(m->images->control, p->layer)) {
            drop_fd(&p->fd);
            p->state = PART_DONE;
        }
        busy += p->state != PART_WAITS && p->state != PART_DONE;
        done += p->state == PART_DONE;
    }
    for (size_t i = 0; i < m->n && busy < IMAGES_PARALLEL && !m->failed; i++)
        if (m->parts[i].state == PART_WAITS && !is_part_under_way(&m->parts[i])) {
            begin_image_part(&m->parts[i]);
            busy++;
        }
    if (done == m->n && !m->failed && !m->ending && !m->busy && !m->event.time_ns)
        store_image(m);
}

void image_op_cancel(struct image_op *op)
{
    if (op->making_)
        image_making_cancel(op->making_);
    if (op->job_)
        image_job_cancel(op->job_);
}
