/* The resource limits of every process that PID 1 starts, whatever PID 1 was born with.
 *
 * Memory, processor time, files and processes are limited by the sandbox's control groups and its
 * writable layer. These limits are for what those do not count, and for what programs expect to
 * find. PID 1 may only lower limits: a hard limit that is lower already stays. */
#include "init/init.h"

#include <sys/resource.h>

#include "base/own.h"

/* What getrlimit() takes: an enum of glibc, an int elsewhere. */
#ifdef __GLIBC__
#define RESOURCE(number) ((__rlimit_resource_t)(number))
#else
#define RESOURCE(number) ((int)(number))
#endif

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define ALL RLIM_INFINITY /* what PID 1 has */

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
    /* Compilers raise it, and threads take it as the size of their own. */
    { RLIMIT_STACK, "STACK", 8 * MIB, ALL },
    /* A handler that takes cores through a pipe ignores 0, but not 1. */
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
    return a < b ? a : b; /* RLIM_INFINITY is the largest there is */
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
