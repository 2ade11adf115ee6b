/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/job.h"

#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"

/* Parameters of each kind. */
static const struct job_kind {
    size_t fds;
    bool fewer;    /* or no descriptor, with a box … */
    bool optional; /* … or without one */
    bool named;    /* requires a layer name */
    bool boxed;    /* requires a box id */
    bool boxes;    /* `below` are boxes */
    bool stored;   /* a layer name, and optionally a box id, may replace the first descriptor */
    bool waits;    /* for GO */
    bool against;  /* accepts a second stack … */
    bool paired;   /* … of the same height */
    bool part;     /* accepts a part of a file */
    bool aside;    /* needs nothing of the storage */
    uint32_t flags;
} kinds[LAYERS_KIND_COUNT_] = {
    [LAYERS_LIST] = { 0 },
    [LAYERS_SWEEP] = { 0 },
    [LAYERS_REMOVE] = { .named = true },
    [LAYERS_UNPACK] = { .fds = 2, .named = true, .part = true, .flags = LAYERS_SQUASH },
    [LAYERS_DIGEST] = { .named = true, .flags = LAYERS_IDLE },
    [LAYERS_CAPTURE] = { .fds = 1,
                         .fewer = true,
                         .named = true,
                         .waits = true,
                         .flags = LAYERS_KEEP | LAYERS_FROZEN },
    [LAYERS_DIFF] = { .fds = 2, .stored = true },
    [LAYERS_COMPARE] = { .fds = 2, .stored = true, .against = true },
    [LAYERS_EXPORT] = { .fds = 2, .against = true, .paired = true },
    [LAYERS_MANIFEST] = { .fds = 2, .aside = true },
    [LAYERS_IMPORT] = { .fds = 1, .against = true, .paired = true },
    [LAYERS_FLATTEN] = { .fds = 1, .optional = true, .named = true, .against = true },
    [LAYERS_TAKE] = { .named = true, .boxed = true },
    [LAYERS_CLEAR] = { .boxes = true },
    [LAYERS_SIFT] = { .fds = 2, .aside = true },
};

bool layer_name_valid(const char *name)
{
    static const char image[] = "sha256-";

    if (strncmp(name, image, sizeof image - 1) == 0) {
        const char *hex = name + sizeof image - 1;

        return strspn(hex, "0123456789abcdef") == 64 && !hex[64];
    }
    return id_valid("lay_", str_from(name));
}

void layers_job_fill(struct layers_job *job, enum layers_kind kind, const char *name)
{
    *job = (struct layers_job){ .magic = LAYERS_MAGIC, .version = LAYERS_VERSION, .kind = kind };
    snprintf(job->name, sizeof job->name, "%s", name ? name : "");
}

void layers_said_fill(struct layers_said *reply, enum layers_word word)
{
    *reply = (struct layers_said){ .magic = LAYERS_MAGIC, .version = LAYERS_VERSION, .word = word };
}

bool box_name_valid(const char *name)
{
    return id_valid("sbx_", str_from(name));
}

static int check_box_and_part(const struct layers_job *job, const struct job_kind *k, struct err *e)
{
    if (!memchr(job->box, '\0', sizeof job->box))
        return err_set(e, ERR_INVALID, "the box id of a layer job is not terminated");
    if (job->box[0]
            ? !box_name_valid(job->box) || !(k->boxed || k->fewer || (k->stored && job->name[0]))
            : k->boxed)
        return err_set(e, ERR_INVALID, "'%s' is not a valid box id for this layer job", job->box);
    if (!memchr(job->packed, '\0', sizeof job->packed) ||
        (job->packed[0] && !(job->packed[0] == 's' && layer_name_valid(job->packed))))
        return err_set(e, ERR_INVALID, "the digest of the packed archive is malformed");
    if (job->at > INT64_MAX || job->size > INT64_MAX - job->at)
        return err_set(e, ERR_INVALID, "the archive part of a layer job is out of range");
    if (!k->part && (job->packed[0] || job->at || job->size))
        return err_set(e, ERR_INVALID, "this layer job takes no archive part");
    return 0;
}

static int check_layer_stack(const char names[static LAYERS_STACK_MAX][LAYER_NAME_MAX], uint64_t n,
                             bool (*valid)(const char *name), struct err *e)
{
    if (n > LAYERS_STACK_MAX)
        return err_set(e, ERR_INVALID, "a stack has %llu layers, the maximum is %d",
                       (unsigned long long)n, LAYERS_STACK_MAX);
    for (size_t i = 0; i < n; i++)
        if (!memchr(names[i], '\0', LAYER_NAME_MAX) || !valid(names[i]))
            return err_set(e, ERR_INVALID, "a stack contains an invalid layer name");
    return 0;
}

int layers_job_check(const struct layers_job *job, size_t size, size_t n_fds, struct err *e)
{
    const struct job_kind *k;
    size_t wanted;
    int r;

    if (size != sizeof *job || job->magic != LAYERS_MAGIC || job->version != LAYERS_VERSION)
        return err_set(e, ERR_INVALID, "not a job for sandboxer-layers");
    if (job->kind == 0 || job->kind >= LAYERS_KIND_COUNT_ || (job->flags & ~kinds[job->kind].flags))
        return err_set(e, ERR_UNSUPPORTED,
                       "sandboxer-layers does not support jobs of kind %u with these flags",
                       job->kind);
    if (!memchr(job->name, '\0', sizeof job->name))
        return err_set(e, ERR_INVALID, "the layer name of a job is not terminated");
    k = &kinds[job->kind];
    if (k->named || (k->stored && job->name[0]) ? !layer_name_valid(job->name) : job->name[0])
        return err_set(e, ERR_INVALID, "'%s' is not the name of a layer", job->name);
    r = check_box_and_part(job, k, e);
    if (r >= 0)
        r = check_layer_stack(job->below, job->n_below,
                              k->boxes ? box_name_valid : layer_name_valid, e);
    if (r >= 0)
        r = check_layer_stack(job->against, job->n_against, layer_name_valid, e);
    if (r < 0)
        return r;
    if (job->n_against && !k->against)
        return err_set(e, ERR_INVALID, "this layer job takes only one stack");
    if (k->paired && job->n_against != job->n_below)
        return err_set(e, ERR_INVALID, "the number of digests differs from the number of layers");
    wanted = k->stored && job->name[0] ? k->fds - 1 : k->fds;
    if (n_fds != wanted && !(n_fds == 0 && (k->optional || (k->fewer && job->box[0]))))
        return err_set(e, ERR_INVALID, "a layer job has %zu descriptors instead of %zu", n_fds,
                       wanted);
    return 0;
}

int layers_said_check(const struct layers_said *reply, size_t size, struct err *e)
{
    if (size != sizeof *reply || reply->magic != LAYERS_MAGIC || reply->version != LAYERS_VERSION ||
        reply->word < LAYERS_READY || reply->word >= LAYERS_WORD_END_)
        return err_set(e, ERR_UPSTREAM, "malformed message from sandboxer-layers");
    if (!memchr(reply->text, '\0', sizeof reply->text) ||
        !memchr(reply->err.msg, '\0', sizeof reply->err.msg) || reply->r > 0 ||
        reply->r <= -(int)ERR_CODE_COUNT_)
        return err_set(e, ERR_UPSTREAM,
                       "malformed message from sandboxer-layers: text is not terminated");
    return 0;
}

bool layers_kind_waits(enum layers_kind kind)
{
    return kinds[kind].waits;
}

bool layers_kind_without_storage(enum layers_kind kind)
{
    return kinds[kind].aside;
}
