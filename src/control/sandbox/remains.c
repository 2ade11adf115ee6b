/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/remains.h"

#include "base/log.h"
#include "base/own.h"
#include "control/process/processes.h"
#include "control/sandbox/sandbox.h"
#include "control/snapshot/checkpoints.h"

static void log_stale(void *user, const char *backend, const char *id, const char *what)
{
    LOG(INFO, "sweep.found", LOG_S("extension", backend), LOG_S("id", id), LOG_S("what", what));
}

static void sweep_backends(struct control *c)
{
    struct err e;

    if (control_reap_stale(c, log_stale, NULL, &e) < 0)
        LOG(WARN, "sweep.failed", LOG_S("error", e.msg));
}

static void sweep_output(struct control *c)
{
    output_sweep(c->context.state, control_knows, c);
}

static int64_t record_retention(const struct config *c)
{
    return c->retention.sandboxes;
}

static int64_t log_retention(const struct config *c)
{
    return c->egress.audit_keep;
}

/* A row for each thing, in the order of removal. NULL: it is not removed then. */
static const struct {
    void (*clear)(struct control *c, const char *box);
    void (*drop)(struct sandbox *s);
    void (*sweep)(struct control *c);
    void (*expire)(struct control *c);
    int64_t (*retention)(const struct config *c); /* NULL: it is not read through the record */
} remains[] = {
    /* the backend's resources; removed by teardown() */
    { .sweep = sweep_backends },
    /* the writable layer; after a start, layers_open() removes directories without a sandbox */
    { .clear = layers_clear_box },
    /* processes in memory, and their output */
    { .drop = processes_remove, .sweep = sweep_output },
    /* the manifest and the grant of its workspace */
    { .drop = workspace_remove, .sweep = workspaces_sweep },
    /* a snapshot of changes that could not be copied to its workspace (retention.unsynced) */
    { .expire = snapshots_expire },
    /* its checkpoints */
    { .drop = checkpoints_remove, .sweep = checkpoints_sweep },
    /* the egress log */
    { .expire = egress_links_expire_logs, .retention = log_retention },
    /* the record, with all rows that refer to it; removed by store_prune() */
    { .retention = record_retention },
};

void remains_clear(struct control *c, const char *box)
{
    for (size_t i = 0; i < COUNT_OF(remains); i++)
        if (remains[i].clear)
            remains[i].clear(c, box);
}

void remains_drop(struct sandbox *s)
{
    for (size_t i = 0; i < COUNT_OF(remains); i++)
        if (remains[i].drop)
            remains[i].drop(s);
}

void remains_sweep(struct control *c)
{
    for (size_t i = 0; i < COUNT_OF(remains); i++)
        if (remains[i].sweep)
            remains[i].sweep(c);
}

void remains_expire(struct control *c)
{
    for (size_t i = 0; i < COUNT_OF(remains); i++)
        if (remains[i].expire)
            remains[i].expire(c);
}

int64_t remains_retention(const struct config *c)
{
    int64_t longest = 0;

    for (size_t i = 0; i < COUNT_OF(remains); i++)
        if (remains[i].retention && remains[i].retention(c) > longest)
            longest = remains[i].retention(c);
    return longest;
}
