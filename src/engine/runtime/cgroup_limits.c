/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/cgroup_limits.h"

#include <stdio.h>
#include <string.h>

enum { CPU_PERIOD_US = 100000 };

static void format_limit(struct cgroup_setting *s, uint64_t value, const char *none)
{
    if (value)
        snprintf(s->value, sizeof s->value, "%llu", (unsigned long long)value);
    else
        snprintf(s->value, sizeof s->value, "%s", none);
}

/* Pages of a tmpfs are charged to the group like anonymous memory: with the sum as limit, a full
 * tmpfs causes ENOSPC before an OOM kill. */
static uint64_t group_memory(const struct cgroup_limits *l)
{
    if (!l->memory)
        return 0;
    return l->tmpfs > (uint64_t)INT64_MAX - l->memory ? (uint64_t)INT64_MAX : l->memory + l->tmpfs;
}

static uint64_t cpu_quota(const struct cgroup_limits *l)
{
    return (uint64_t)l->cpu_milli * CPU_PERIOD_US / 1000;
}

int cgroup_settings_v1(int controller, const struct cgroup_limits *l,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX])
{
    switch (controller) {
    case CGROUP_MEMORY:
        out[0] = (struct cgroup_setting){ .file = "memory.limit_in_bytes" };
        out[1] = (struct cgroup_setting){ .file = "memory.memsw.limit_in_bytes", .optional = true };
        out[2] =
            (struct cgroup_setting){ .file = "memory.kmem.tcp.limit_in_bytes", .optional = true };
        format_limit(&out[0], group_memory(l), "-1");
        format_limit(&out[1], group_memory(l), "-1");
        format_limit(&out[2], l->memory, "-1");
        return 3;
    case CGROUP_PIDS:
        out[0] = (struct cgroup_setting){ .file = "pids.max" };
        format_limit(&out[0], l->pids, "max");
        return 1;
    default:
        out[0] = (struct cgroup_setting){ .file = "cpu.cfs_period_us" };
        out[1] = (struct cgroup_setting){ .file = "cpu.cfs_quota_us" };
        format_limit(&out[0], CPU_PERIOD_US, "");
        format_limit(&out[1], cpu_quota(l), "-1");
        return 2;
    }
}

int cgroup_settings_v2(int controller, const struct cgroup_limits *l,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX])
{
    switch (controller) {
    case CGROUP_MEMORY:
        out[0] = (struct cgroup_setting){ .file = "memory.max" };
        out[1] = (struct cgroup_setting){ .file = "memory.swap.max", .optional = true };
        format_limit(&out[0], group_memory(l), "max");
        snprintf(out[1].value, sizeof out[1].value, "%s", l->memory ? "0" : "max");
        return 2;
    case CGROUP_PIDS:
        out[0] = (struct cgroup_setting){ .file = "pids.max" };
        format_limit(&out[0], l->pids, "max");
        return 1;
    default:
        out[0] = (struct cgroup_setting){ .file = "cpu.max" };
        if (l->cpu_milli)
            snprintf(out[0].value, sizeof out[0].value, "%llu %d", (unsigned long long)cpu_quota(l),
                     CPU_PERIOD_US);
        else
            snprintf(out[0].value, sizeof out[0].value, "max %d", CPU_PERIOD_US);
        return 1;
    }
}

int cgroup_settings_io(const char *disk, uint64_t bytes,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX])
{
    char value[24];

    if (!disk[0])
        return 0;
    out[0] = (struct cgroup_setting){ .file = "io.max" };
    if (bytes)
        snprintf(value, sizeof value, "%llu", (unsigned long long)bytes);
    else
        memcpy(value, "max", sizeof "max");
    snprintf(out[0].value, sizeof out[0].value, "%s rbps=%.20s wbps=%.20s", disk, value, value);
    return 1;
}
