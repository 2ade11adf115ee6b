/* SPDX-License-Identifier: Apache-2.0 */
/* What a layer worker of layers is asked, and what it says. The first byte says which of the two,
 * the second how many descriptors come with it. What a check passes names nothing but layers and
 * boxes. */
#include <stdlib.h>
#include <string.h>

#include "engine/layers/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

/* One part of a path, and nothing that leads elsewhere. */
static void must_be_name(const char *name)
{
    must(name[0] && name[0] != '.' && !strchr(name, '/'));
}

static void check_job(const struct layers_job *j, size_t n_fds)
{
    must(j->kind > 0 && j->kind < LAYERS_KIND_COUNT_ && n_fds <= LAYERS_FDS_MAX);
    must(j->n_below <= LAYERS_STACK_MAX && j->n_against <= LAYERS_STACK_MAX);
    if (j->name[0])
        must_be_name(j->name);
    if (j->box[0])
        must_be_name(j->box);
    for (size_t i = 0; i < j->n_below; i++)
        must_be_name(j->below[i]);
    for (size_t i = 0; i < j->n_against; i++)
        must_be_name(j->against[i]);
    must(j->kind != LAYERS_TAKE || (j->name[0] && j->box[0]));
}

static void check_said(const struct layers_said *s)
{
    must(strlen(s->text) < sizeof s->text && strlen(s->err.msg) < sizeof s->err.msg);
    must(s->r <= 0 && s->r > -(int)ERR_CODE_COUNT_);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct layers_said said = { 0 };
    struct layers_job job = { 0 };
    struct err e;

    if (size < 2)
        return 0;
    if (data[0] & 1) {
        memcpy(&said, data + 2, size - 2 < sizeof said ? size - 2 : sizeof said);
        if (layers_said_check(&said, data[0] & 2 ? size - 2 : sizeof said, &e) >= 0)
            check_said(&said);
    } else {
        memcpy(&job, data + 2, size - 2 < sizeof job ? size - 2 : sizeof job);
        if (layers_job_check(&job, data[0] & 2 ? size - 2 : sizeof job, data[1], &e) >= 0)
            check_job(&job, data[1]);
    }
    return 0;
}
