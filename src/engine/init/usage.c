/* SPDX-License-Identifier: Apache-2.0 */
/* Reports resource usage inside, for display and for the detection of idle sandboxes. */
#include "engine/init/init.h"

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

/* Fields of /proc/PID/stat after the name, starting with the state: user and system time of the
 * process, then of its reaped children; in ticks of 1/100 s on every kernel. */
enum { STATE = 0, FIRST_TIME = 11, TIMES = 4, TICK_NS = 10000000 };

static bool read_proc_file(pid_t pid, const char *name, char *out, size_t cap)
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

/* Adds the time of a process; false for a zombie. */
static bool add_process_cpu(pid_t pid, int64_t *cpu_ns)
{
    char text[512]; /* the times come long before that */
    const char *behind_name;
    struct str rest, word;
    bool alive = true;

    if (!read_proc_file(pid, "stat", text, sizeof text) || !(behind_name = strrchr(text, ')')) ||
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

/* statm is in pages: size, resident, and the part of that which is file-backed or shared. */
static void add_memory(pid_t pid, struct control_used *ret)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), fields[3] = { 0 };
    char text[128];
    struct str rest, word;

    if (!read_proc_file(pid, "statm", text, sizeof text))
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

static bool disk_counted;
static uint64_t disk_at_start; /* the reserve of the box, and its directories */

/* Removed files count until the next commit of the file system. */
static uint64_t sum_counters(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < INIT_DISK_COUNTERS; i++) {
        char text[32];
        ssize_t n = pread(INIT_DISK + i, text, sizeof text, 0);
        struct str number;
        uint64_t bytes;

        str_cut((struct str){ text, n > 0 ? (size_t)n : 0 }, '\n', &number);
        if (str_to_u64(number, &bytes))
            sum += bytes;
    }
    return sum;
}

/* Reads the usage of a tmpfs, which belongs to this sandbox only; other file systems are shared. */
static void read_disk(struct control_used *ret)
{
    struct statfs fs;

    if (disk_counted) {
        uint64_t now = sum_counters();

        ret->disk = now > disk_at_start ? now - disk_at_start : 0;
        return;
    }
    if (fstatfs(INIT_UPPER, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
        return;
    ret->disk_max = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    ret->disk = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
}

static int counter = -1; /* of the control group; -1: none */

void usage_keep(void)
{
    if (fcntl(INIT_CPU, F_SETFD, FD_CLOEXEC) == 0)
        counter = INIT_CPU;
    disk_counted = true;
    for (int i = 0; i < INIT_DISK_COUNTERS; i++)
        disk_counted = fcntl(INIT_DISK + i, F_SETFD, FD_CLOEXEC) == 0 && disk_counted;
    if (disk_counted)
        disk_at_start = sum_counters();
}

void usage_watch(int fd)
{
    counter = fd;
}

/* cpu.stat of v2 has a line "usage_usec N"; cpuacct.usage of v1 is a number of nanoseconds. */
static bool read_group_cpu(int64_t *ret)
{
    char text[256];
    ssize_t n = counter < 0 ? -1 : pread(counter, text, sizeof text, 0);
    struct str rest = { text, n > 0 ? (size_t)n : 0 }, line, word;
    uint64_t used;

    while (rest.n) {
        rest = str_cut(rest, '\n', &line);
        line = str_cut(line, ' ', &word);
        if (str_eq(word, STR("usage_usec")) && str_to_u64(line, &used)) {
            *ret = (int64_t)(used * NS_PER_US);
            return true;
        }
        if (!line.n && str_to_u64(word, &used)) {
            *ret = (int64_t)used;
            return true;
        }
    }
    return false;
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
        if (add_process_cpu(pid, &now)) {
            ret->processes++;
            add_memory(pid, ret);
        }
    read_disk(ret);
    ret->oom_kills = oom_kills();
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        ret->programs += p->what == START_PROGRAM && p->state != PROC_ENDED;
    /* The control group counts everything. Without one, ticks are coarse, and a process whose
     * parent ignores SIGCHLD is not counted after its end. */
    (void)read_group_cpu(&now);
    most = now > most ? now : most;
    ret->cpu_ns = most;
}
