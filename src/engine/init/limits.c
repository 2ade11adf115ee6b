/* SPDX-License-Identifier: Apache-2.0 */
/* The resource limits of every process that PID 1 starts, independent of those that PID 1
 * inherited.
 *
 * Memory, processor time, files and processes are limited by the sandbox's control groups and its
 * writable layer. These limits cover resources that those do not count, and values that programs
 * expect. PID 1 may only lower limits: a lower hard limit stays. */
#include "engine/init/init.h"

#include <sys/resource.h>

#include "base/own.h"

/* The type of getrlimit()'s argument: an enum of glibc, an int elsewhere. */
#ifdef __GLIBC__
#define RESOURCE(number) ((__rlimit_resource_t)(number))
#else
#define RESOURCE(number) ((int)(number))
#endif

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define ALL RLIM_INFINITY /* as PID 1 */

static const struct limit_row {
    unsigned resource;
    const char *name;
    rlim_t soft, hard;
} rows[] = {
    { RLIMIT_CPU, "CPU", ALL, ALL },
    { RLIMIT_FSIZE, "FSIZE", ALL, ALL },
    { RLIMIT_DATA, "DATA", ALL, ALL },
    { RLIMIT_RSS, "RSS", ALL, ALL },
    { RLIMIT_AS, "AS", ALL, ALL },
    { RLIMIT_LOCKS, "LOCKS", ALL, ALL },
    /* Compilers raise it, and it is the default size of thread stacks. */
    { RLIMIT_STACK, "STACK", 8 * MIB, ALL },
    /* A core handler behind a pipe ignores 0, but not 1. */
    { RLIMIT_CORE, "CORE", 1, 1 },
    { RLIMIT_NOFILE, "NOFILE", 4096, 65536 },
    { RLIMIT_MEMLOCK, "MEMLOCK", 8 * MIB, 8 * MIB },
    { RLIMIT_SIGPENDING, "SIGPENDING", 4096, 4096 },
    { RLIMIT_MSGQUEUE, "MSGQUEUE", 800 * KIB, 800 * KIB },
    { RLIMIT_NICE, "NICE", 0, 0 },
    { RLIMIT_RTPRIO, "RTPRIO", 0, 0 },
    { RLIMIT_RTTIME, "RTTIME", 200000, 200000 }, /* microseconds, should one ever be real-time */
};

static rlim_t lower_of(rlim_t a, rlim_t b)
{
    return a < b ? a : b; /* RLIM_INFINITY is the largest value */
}

static int set_row(const struct limit_row *l, struct err *e)
{
    struct rlimit now;

    if (getrlimit(RESOURCE(l->resource), &now) < 0)
        return err_sys(e, "reading the limit %s", l->name);
    now.rlim_max = lower_of(now.rlim_max, l->hard);
    now.rlim_cur = lower_of(now.rlim_max, l->soft);
    return setrlimit(RESOURCE(l->resource), &now) < 0 ? err_sys(e, "setting the limit %s", l->name)
                                                      : 0;
}

int limits_set(uint32_t pids, struct err *e)
{
    const struct limit_row processes = { RLIMIT_NPROC, "NPROC", pids ? pids : ALL,
                                         pids ? pids : ALL };
    int r = set_row(&processes, e);

    for (size_t i = 0; i < COUNT_OF(rows) && r >= 0; i++)
        r = set_row(&rows[i], e);
    return r;
}
