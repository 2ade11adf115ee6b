/* SPDX-License-Identifier: Apache-2.0 */
/* Resource limits of programs: every row of engine/init/limits.c, as a program finds it. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "box.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define ALL RLIM_INFINITY

/* `before` is our own soft limit, which the sandbox must not pass on; 0: as it is. `raised`: our own
 * hard limit, where we may raise it. */
static const struct row {
    const char *label; /* in /proc/self/limits */
    __rlimit_resource_t resource;
    rlim_t before, raised, soft, hard;
} rows[] = {
    { "Max cpu time", RLIMIT_CPU, 1 << 20, 0, ALL, ALL },
    { "Max file size", RLIMIT_FSIZE, UINT64_C(1) << 40, 0, ALL, ALL },
    { "Max data size", RLIMIT_DATA, UINT64_C(1) << 45, 0, ALL, ALL },
    { "Max resident set", RLIMIT_RSS, UINT64_C(1) << 45, 0, ALL, ALL },
    { "Max address space", RLIMIT_AS, UINT64_C(1) << 46, 0, ALL, ALL },
    { "Max file locks", RLIMIT_LOCKS, 4096, 0, ALL, ALL },
    { "Max stack size", RLIMIT_STACK, 4 * MIB, 0, 8 * MIB, ALL },
    { "Max core file size", RLIMIT_CORE, 4096, 0, 1, 1 },
    { "Max open files", RLIMIT_NOFILE, 1000, 0, 4096, 65536 },
    { "Max locked memory", RLIMIT_MEMLOCK, 64 * KIB, 16 * MIB, 8 * MIB, 8 * MIB },
    { "Max pending signals", RLIMIT_SIGPENDING, 1000, 8192, 4096, 4096 },
    { "Max msgqueue size", RLIMIT_MSGQUEUE, 100 * KIB, MIB, 800 * KIB, 800 * KIB },
    { "Max nice priority", RLIMIT_NICE, 0, 10, 0, 0 },
    { "Max realtime priority", RLIMIT_RTPRIO, 0, 10, 0, 0 },
    { "Max realtime timeout", RLIMIT_RTTIME, 100000, ALL, 200000, 200000 },
};

static struct rlimit ours[COUNT_OF(rows)];

static rlim_t lesser(rlim_t a, rlim_t b)
{
    return a < b ? a : b;
}

/* The launcher inherits these. */
static void change_own_limits(void)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rlimit raised;

        CHECK(getrlimit(rows[i].resource, &ours[i]) == 0);
        raised = (struct rlimit){ ours[i].rlim_cur, rows[i].raised };
        if (rows[i].raised > ours[i].rlim_max && setrlimit(rows[i].resource, &raised) == 0)
            ours[i].rlim_max = raised.rlim_max;
        if (rows[i].before)
            ours[i].rlim_cur = lesser(rows[i].before, ours[i].rlim_max);
        CHECK(setrlimit(rows[i].resource, &ours[i]) == 0);
    }
}

static void name_limit(rlim_t value, char ret[static 32])
{
    if (value == RLIM_INFINITY)
        snprintf(ret, 32, "unlimited");
    else
        snprintf(ret, 32, "%llu", (unsigned long long)value);
}

static void check_limit(const char *text, const char *label, rlim_t soft, rlim_t hard)
{
    const char *line = strstr(text, label);
    char found[2][32] = { "", "" }, wanted[2][32];

    name_limit(soft, wanted[0]);
    name_limit(hard, wanted[1]);
    if (!line || sscanf(line + strlen(label), "%31s %31s", found[0], found[1]) != 2 ||
        strcmp(found[0], wanted[0]) != 0 || strcmp(found[1], wanted[1]) != 0)
        FAIL("%s: %s and %s, not %s and %s", label, found[0], found[1], wanted[0], wanted[1]);
}

BOX_TEST(every_program_has_the_resource_limits_of_the_table)
{
    struct outcome o AUTO(outcome_done) = { 0 };
    struct box b;
    char text[4096];

    change_own_limits();
    box_open(&b);
    sh_run(&b, "exec cat /proc/self/limits", &o);
    CHECK_INT(o.end.status, 0);
    CHECK(str_copy(buf_str(&o.out), text, sizeof text));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        rlim_t hard = lesser(ours[i].rlim_max, rows[i].hard);

        check_limit(text, rows[i].label, lesser(hard, rows[i].soft), hard);
    }
    if (!box_is_root()) /* root's has a control group */
        check_limit(text, "Max processes", BOX_PIDS, BOX_PIDS);
    box_close(&b);
}
