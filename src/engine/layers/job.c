#include "layers/job.h"

#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/own.h"
#include "base/str.h"

/* What goes with each kind. */
static const struct kind {
    size_t fds;
    bool fewer;    /* or none of them, with a box … */
    bool optional; /* … or without one */
    bool named;    /* needs a layer's name */
    bool boxed;    /* needs a box's */
    bool boxes;    /* `below` are boxes */
    bool stored;   /* a layer's name, and perhaps a box's, may stand for the first descriptor */
    bool waits;    /* for GO */
    bool against;  /* takes a second stack … */
    bool paired;   /* … as high as the first */
    bool part;     /* takes a part of a file */
    bool aside;    /* needs nothing of the storage */
    uint32_t flags;
} kinds[LAYERS_KIND_COUNT_] = {
    [LAYERS_LIST] = { 0 },
    [LAYERS_SWEEP] = { 0 },
    [LAYERS_REMOVE] = { .named = true },
    [LAYERS_UNPACK] = { .fds = 2, .named = true, .part = true, .flags = LAYERS_SQUASH },
    [LAYERS_MEASURE] = { .named = true, .flags = LAYERS_IDLE },
    [LAYERS_CAPTURE] = { .fds = 1,
                         .fewer = true,
                         .named = true,
                         .waits = true,
                         .flags = LAYERS_KEEP | LAYERS_STILL },
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

void layers_said_fill(struct layers_said *said, enum layers_word word)
{
    *said = (struct layers_said){ .magic = LAYERS_MAGIC, .version = LAYERS_VERSION, .word = word };
}

bool box_name_valid(const char *name)
{
    return id_valid("sbx_", str_from(name));
}

static int check_box(const struct layers_job *job, const struct kind *k, struct err *e)
{
    if (!memchr(job->box, '\0', sizeof job->box))
        return err_set(e, ERR_INVALID, "the name of a box does not end");
    if (job->box[0]
            ? !box_name_valid(job->box) || !(k->boxed || k->fewer || (k->stored && job->name[0]))
            : k->boxed)
        return err_set(e, ERR_INVALID, "'%s' is not the box for this job", job->box);
    return 0;
}

static int check_part(const struct layers_job *job, const struct kind *k, struct err *e)
{
    if (!memchr(job->packed, '\0', sizeof job->packed) ||
        (job->packed[0] && !(job->packed[0] == 's' && layer_name_valid(job->packed))))
        return err_set(e, ERR_INVALID, "what the bytes of an archive must be is no digest");
    if (job->at > INT64_MAX || job->size > INT64_MAX - job->at)
        return err_set(e, ERR_INVALID, "a part of an archive that cannot be");
    if (!k->part && (job->packed[0] || job->at || job->size))
        return err_set(e, ERR_INVALID, "a part of an archive for a job that takes none");
    return 0;
}

static int check_stack(const char names[static LAYERS_STACK_MAX][LAYER_NAME_MAX], uint64_t n,
                       bool (*valid)(const char *name), struct err *e)
{
    if (n > LAYERS_STACK_MAX)
        return err_set(e, ERR_INVALID, "%llu layers in one stack", (unsigned long long)n);
    for (size_t i = 0; i < n; i++)
        if (!memchr(names[i], '\0', LAYER_NAME_MAX) || !valid(names[i]))
            return err_set(e, ERR_INVALID, "a stack with something that is no layer");
    return 0;
}

int layers_job_check(const struct layers_job *job, size_t size, size_t n_fds, struct err *e)
{
    const struct kind *k;
    size_t wanted;
    int r;

    if (size != sizeof *job || job->magic != LAYERS_MAGIC || job->version != LAYERS_VERSION)
        return err_set(e, ERR_INVALID, "not a job for a keeper of layers");
    if (job->kind == 0 || job->kind >= LAYERS_KIND_COUNT_ || (job->flags & ~kinds[job->kind].flags))
        return err_set(e, ERR_UNSUPPORTED, "a job of kind %u that no keeper knows", job->kind);
    if (!memchr(job->name, '\0', sizeof job->name))
        return err_set(e, ERR_INVALID, "the name of a layer does not end");
    k = &kinds[job->kind];
    if (k->named || (k->stored && job->name[0]) ? !layer_name_valid(job->name) : job->name[0])
        return err_set(e, ERR_INVALID, "'%s' is not the name of a layer", job->name);
    r = check_box(job, k, e);
    if (r >= 0)
        r = check_part(job, k, e);
    if (r >= 0)
        r = check_stack(job->below, job->n_below, k->boxes ? box_name_valid : layer_name_valid, e);
    if (r >= 0)
        r = check_stack(job->against, job->n_against, layer_name_valid, e);
    if (r < 0)
        return r;
    if (job->n_against && !k->against)
        return err_set(e, ERR_INVALID, "two stacks for a job that takes one");
    if (k->paired && job->n_against != job->n_below)
        return err_set(e, ERR_INVALID, "layers without measures");
    wanted = k->stored && job->name[0] ? k->fds - 1 : k->fds;
    if (n_fds != wanted && !(n_fds == 0 && (k->optional || (k->fewer && job->box[0]))))
        return err_set(e, ERR_INVALID, "%zu descriptors for a job that takes %zu", n_fds, wanted);
    return 0;
}

int layers_said_check(const struct layers_said *said, size_t size, struct err *e)
{
    if (size != sizeof *said || said->magic != LAYERS_MAGIC || said->version != LAYERS_VERSION ||
        said->word < LAYERS_READY || said->word >= LAYERS_WORD_END_)
        return err_set(e, ERR_UPSTREAM, "a keeper of layers said what cannot be understood");
    if (!memchr(said->text, '\0', sizeof said->text) ||
        !memchr(said->err.msg, '\0', sizeof said->err.msg) || said->r > 0 ||
        said->r <= -(int)ERR_CODE_COUNT_)
        return err_set(e, ERR_UPSTREAM, "a keeper of layers said something that does not end");
    return 0;
}

bool layers_kind_waits(enum layers_kind kind)
{
    return kinds[kind].waits;
}

bool layers_kind_aside(enum layers_kind kind)
{
    return kinds[kind].aside;
}
