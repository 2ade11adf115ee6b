/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/cgroup_limits.h"

#include <stdio.h>

enum { CPU_PERIOD_US = 100000 };

static struct cgroup_setting make_cgroup_setting(const char *file, uint64_t value, const char *none)
{
    struct cgroup_setting s = { .file = file };

    if (value)
        snprintf(s.value, sizeof s.value, "%llu", (unsigned long long)value);
    else
        snprintf(s.value, sizeof s.value, "%s", none);
    return s;
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
        out[0] = make_cgroup_setting("memory.limit_in_bytes", group_memory(l), "-1");
        out[1] = make_cgroup_setting("memory.memsw.limit_in_bytes", group_memory(l), "-1");
        out[2] = make_cgroup_setting("memory.kmem.tcp.limit_in_bytes", l->memory, "-1");
        out[1].optional = out[2].optional = true;
        return 3;
    case CGROUP_PIDS:
        out[0] = make_cgroup_setting("pids.max", l->pids, "max");
        return 1;
    default:
        out[0] = make_cgroup_setting("cpu.cfs_period_us", CPU_PERIOD_US, "");
        out[1] = make_cgroup_setting("cpu.cfs_quota_us", cpu_quota(l), "-1");
        return 2;
    }
}

int cgroup_settings_v2(int controller, const struct cgroup_limits *l,
                       struct cgroup_setting out[CGROUP_SETTINGS_MAX])
{
    switch (controller) {
    case CGROUP_MEMORY:
        out[0] = make_cgroup_setting("memory.max", group_memory(l), "max");
        out[1] = make_cgroup_setting("memory.swap.max", 0, l->memory ? "0" : "max");
        out[1].optional = true;
        return 2;
    case CGROUP_PIDS:
        return cgroup_settings_v1(controller, l, out);
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
    struct cgroup_setting each = make_cgroup_setting("io.max", bytes, "max");

    if (!disk[0])
        return 0;
    out[0] = each;
    snprintf(out[0].value, sizeof out[0].value, "%s rbps=%.20s wbps=%.20s", disk, each.value,
             each.value);
    return 1;
}
