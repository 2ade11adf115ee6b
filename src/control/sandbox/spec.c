/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/spec.h"

#include <string.h>

#include "control/egress/policy_text.h"

const char *spec_repo(const struct create_request *q)
{
    return json_map_get(&q->inputs, SPEC_REPO);
}

const char *spec_granted_path(const struct create_request *q)
{
    const char *repo = spec_repo(q);

    return repo || !q->mounts.n ? repo : request_mount_at(&q->mounts, 0)->source;
}

int spec_profile(struct profile *p, const struct create_request *q, struct profile **ret,
                 struct err *e)
{
    const struct request_settings *s = &q->settings;

    return profile_derive(p,
                          &(struct profile_changes){ .cpu = s->resources.cpu,
                                                     .memory_mb = s->resources.memory_mb,
                                                     .pids = s->resources.pids,
                                                     .disk_mb = s->resources.disk_mb,
                                                     .user = s->user,
                                                     .workdir = s->workdir,
                                                     .caps = s->caps_given ? &s->caps : NULL },
                          ret, e);
}

bool spec_is_plain(const struct create_request *q)
{
    return !spec_repo(q) && !q->image && !q->mounts.n && !q->settings.hostname &&
           !q->capabilities.memory_mb && q->capabilities.cpu_quota == 0;
}

static uint64_t narrow_limit(uint64_t limit, uint64_t requested)
{
    return requested && (!limit || requested < limit) ? requested : limit;
}

uint64_t spec_memory(const struct profile *p, const struct create_request *q)
{
    return narrow_limit((uint64_t)p->resources.memory_mb << 20,
                        (uint64_t)q->capabilities.memory_mb << 20);
}

uint64_t spec_disk(const struct profile *p)
{
    return (uint64_t)p->resources.disk_mb << 20;
}

uint32_t spec_cpu(const struct profile *p, const struct create_request *q)
{
    return (uint32_t)narrow_limit(profile_cpu_milli(p),
                                  (uint64_t)(q->capabilities.cpu_quota * 1000));
}

int spec_fill(const struct profile *p, const struct create_request *q, bool may_show,
              struct backend_spec *ret, struct err *e)
{
    static struct backend_mount mounts[BACKEND_MOUNTS_MAX];
    const char *repo = spec_repo(q);

    *ret = (struct backend_spec){
        .profile = p,
        .memory = spec_memory(p, q),
        .disk = spec_disk(p),
        .pids = p->resources.pids,
        .cpu_milli = spec_cpu(p, q),
        .mounts = mounts,
        .granted = -1,
        .host = "local",
        .hostname = q->settings.hostname,
        .egress = policy_wanted(p, q),
    };
    if (repo && repo[0] != '/')
        return err_set(e, ERR_INVALID, "inputs.repo: '%s' is not an absolute path", repo);
    /* A read-only workspace is mounted as it is; a writable one is a copy. */
    if (may_show && repo && q->workspace.access == ASK_ACCESS_RO)
        mounts[ret->n_mounts++] =
            (struct backend_mount){ .source = repo, .target = WORKSPACE_PATH };
    for (size_t i = 0; i < q->mounts.n && ret->n_mounts < BACKEND_MOUNTS_MAX; i++) {
        const struct request_mount *m = request_mount_at(&q->mounts, i);

        mounts[ret->n_mounts++] =
            (struct backend_mount){ .target = m->target, .writable = m->access == MOUNT_ACCESS_RW };
    }
    return 0;
}
