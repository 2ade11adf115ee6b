/* What has been used inside, for whoever shows it or decides whether a sandbox is idle. */
#include "init/init.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"

/* Fields of /proc/PID/stat behind the name, the state being the first: user and system time of the
 * process, then of the children it has waited for; in ticks of 1/100 s, whatever the kernel's. */
enum { STATE = 0, FIRST_TIME = 11, TIMES = 4, TICK_NS = 10000000 };

static bool read_file(pid_t pid, const char *name, char *out, size_t cap)
{
    char path[40];
    AUTO_CLOSE int fd = -1;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
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

    if (!read_file(pid, "stat", text, sizeof text) || !(behind_name = strrchr(text, ')')) ||
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

/* statm is in pages: size, resident, and how much of that is of files or shared. */
static void add_memory(pid_t pid, struct control_used *ret)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), fields[3] = { 0 };
    char text[128];
    struct str rest, word;

    if (!read_file(pid, "statm", text, sizeof text))
        return;
    rest = str_from(text);
    for (int i = 0; i < 3; i++) {
        rest = str_cut(rest, ' ', &word);
        if (!str_to_u64(word, &fields[i]))
            return;
    }
    if (fields[1] > fields[2])
        ret->memory += (fields[1] - fields[2]) * page;
    if (fields[2] * page > ret->mapped)
        ret->mapped = fields[2] * page;
}

/* A tmpfs is this sandbox's alone; what other file systems have is also of others. */
static void read_disk(struct control_used *ret)
{
    struct statfs fs;

    if (fstatfs(INIT_UPPER, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
        return;
    ret->disk_max = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    ret->disk = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
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
        if (add_process(pid, &now)) {
            ret->processes++;
            add_memory(pid, ret);
        }
    read_disk(ret);
    ret->oom_kills = oom_kills();
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        ret->programs += p->what == CONTROL_PROGRAM && p->state != PROC_ENDED;
    /* Ticks are coarse, and what a parent ignores when it ends is counted nowhere. */
    most = now > most ? now : most;
    ret->cpu_ns = most;
}
