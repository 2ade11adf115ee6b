/* What has been used inside, for whoever decides whether a sandbox is idle. */
#include "init/init.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"

/* Fields of /proc/PID/stat behind the name, the state being the first: user and system time of the
 * process, then of the children it has waited for; in ticks of 1/100 s, whatever the kernel's. */
enum { STATE = 0, FIRST_TIME = 11, TIMES = 4, TICK_NS = 10000000 };

static bool read_stat(pid_t pid, char *out, size_t cap)
{
    char path[32];
    AUTO_CLOSE int fd = -1;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, out, cap - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* False if it has ended, and only its parent does not know. */
static bool add_process(pid_t pid, int64_t *cpu_ns)
{
    char text[512]; /* the times come long before that */
    const char *behind_name;
    struct str rest, word;
    bool alive = true;

    if (!read_stat(pid, text, sizeof text) || !(behind_name = strrchr(text, ')')) ||
        behind_name[1] != ' ')
        return false;
    rest = str_from(behind_name + 2);
    for (int field = 0; rest.n && field < FIRST_TIME + TIMES; field++) {
        uint64_t ticks;

        rest = str_cut(rest, ' ', &word);
        if (field == STATE)
            alive = !str_eq(word, STR("Z"));
        else if (field >= FIRST_TIME && str_to_u64(word, &ticks))
            *cpu_ns += (int64_t)ticks * TICK_NS;
    }
    return alive;
}

static int64_t used_by_reaped(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_CHILDREN, &u) < 0)
        return 0;
    return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NS_PER_S +
           ((int64_t)u.ru_utime.tv_usec + u.ru_stime.tv_usec) * NS_PER_US;
}

void usage_read(struct control_used *ret)
{
    static int64_t most;
    int64_t now = used_by_reaped();
    struct numbers walk;
    pid_t pid;

    pids_open(&walk);
    while ((pid = pids_next(&walk)))
        ret->processes += add_process(pid, &now);
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        ret->programs += p->what == CONTROL_PROGRAM && p->state != PROC_ENDED;
    /* Ticks are coarse, and what a parent ignores when it ends is counted nowhere. */
    most = now > most ? now : most;
    ret->cpu_ns = most;
}
