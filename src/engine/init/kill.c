/* SPDX-License-Identifier: Apache-2.0 */
/* Kills all descendants of one start.
 *
 * A process can leave its parent, its group and its session, but not its UTS namespace: that needs
 * CAP_SYS_ADMIN, which no workload has. So every start gets a UTS namespace of its own, whose inode
 * number is the mark by which all descendants are found, at no cost until then. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "lib/proc/sys.h"

enum { THREAD_DENTS = 4096, CHILDREN_MAX = 64 << 10 };

static uint64_t mark_at(const char *path)
{
    struct stat st;

    return stat(path, &st) < 0 ? 0 : st.st_ino;
}

/* A process whose first thread has exited shows no namespaces, but its other threads do. */
static uint64_t mark_of_threads(pid_t pid)
{
    static char room[THREAD_DENTS] __attribute__((aligned(8)));
    char path[64];
    struct numbers threads;
    uint64_t mark = 0, tid;

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    numbers_open(&threads, AT_FDCWD, path, room, sizeof room);
    while (!mark && numbers_next(&threads, &tid)) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/ns/uts", (int)pid, (int)tid);
        mark = mark_at(path);
    }
    numbers_close(&threads);
    return mark;
}

uint64_t kill_mark_of(pid_t pid)
{
    char path[48];
    uint64_t mark;

    snprintf(path, sizeof path, "/proc/%d/ns/uts", (int)pid);
    mark = mark_at(path);
    return mark ? mark : mark_of_threads(pid);
}

static bool is_first_process(const struct proc *p, pid_t pid)
{
    return p->pid == pid && p->state != PROC_ENDED;
}

/* The pidfd ensures that the signalled process is the examined one. */
static int signal_visible(const struct proc *p, int sig)
{
    struct numbers walk;
    int found = 0;
    pid_t pid;

    pids_open(&walk);
    while ((pid = pids_next(&walk)))
        if (!is_first_process(p, pid)) {
            AUTO_CLOSE int fd = sys_pidfd_open(pid);

            found += fd >= 0 && kill_mark_of(pid) == p->mark && sys_pidfd_send_signal(fd, sig) == 0;
        }
    return found;
}

static bool is_hidden(pid_t pid)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return stat(path, &st) < 0;
}

/* A program that its user may not read hides its process from PID 1, too. When its parent exits it
 * becomes a child of PID 1 that is not the first process of any start. */
static int signal_hidden_orphans(int sig)
{
    static char list[CHILDREN_MAX];
    AUTO_CLOSE int fd = openat(AT_FDCWD, "/proc/self/task/1/children", O_RDONLY | O_CLOEXEC);
    struct str rest = { list, 0 }, word;
    int found = 0;
    ssize_t n;

    /* The kernel returns the list in pages. */
    while (fd >= 0 && rest.n < sizeof list &&
           (n = read(fd, list + rest.n, sizeof list - rest.n)) > 0)
        rest.n += (size_t)n;
    while (rest.n) {
        uint64_t pid;

        rest = str_cut(rest, ' ', &word);
        if (str_to_u64(word, &pid) && !procs_by_pid((pid_t)pid) && is_hidden((pid_t)pid))
            found += kill((pid_t)pid, sig) == 0;
    }
    return found;
}

bool kill_scan_freezes(unsigned look)
{
    return look % INIT_KILL_SCANS == INIT_KILL_SCANS / 2;
}

/* Resuming after a freeze.
 *
 * A process that is stopped in the middle of a fork passes the stop on to the child, and a SIGCONT
 * that arrives before the child exists does not undo that: the kernel drops it as an ignored signal
 * before it handles pending forks. So SIGCONT is sent again until no such fork can be left. */
static struct {
    bool frozen;   /* a client wants everything frozen */
    int64_t next;  /* when it is sent again; 0: not again */
    int64_t pause; /* since the last time */
} resuming;

enum { RESUME_FIRST_MS = 2, RESUME_LAST_MS = 2000 };

static void resume_processes(void)
{
    if (resuming.frozen)
        return;
    kill(-1, SIGCONT);
    resuming.pause = RESUME_FIRST_MS * NS_PER_MS;
    resuming.next = clock_mono() + resuming.pause;
}

bool kill_is_frozen(void)
{
    return resuming.frozen;
}

int64_t kill_deadline(void)
{
    return resuming.next;
}

void kill_resume_again(void)
{
    if (!resuming.next || clock_mono() < resuming.next)
        return;
    kill(-1, SIGCONT);
    resuming.pause *= 4;
    resuming.next = resuming.pause > RESUME_LAST_MS * NS_PER_MS ? 0 : clock_mono() + resuming.pause;
}

/* Freezes the sandbox to catch processes that fork faster than the scan: kill(-1) stops all in one
 * walk of the kernel, so that no process appears during the scan. */
int kill_marked_frozen(const struct proc *p)
{
    int found;

    kill(-1, SIGSTOP);
    found = kill_marked(p, SIGKILL);
    resume_processes();
    return found;
}

/* Reads the state of a thread: the letter after its name, which may contain anything but a
 * newline. */
static bool is_running(pid_t pid, uint64_t tid)
{
    char path[64], text[256], *end;
    AUTO_CLOSE int fd = -1;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    end = strrchr(text, ')');
    return end && end[1] == ' ' && !strchr("TtZXx", end[2]);
}

static uint32_t count_running(pid_t pid)
{
    static char room[THREAD_DENTS] __attribute__((aligned(8)));
    struct numbers threads;
    uint32_t n = 0;
    uint64_t tid;
    char path[32];

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    numbers_open(&threads, AT_FDCWD, path, room, sizeof room);
    while (numbers_next(&threads, &tid))
        n += is_running(pid, tid);
    numbers_close(&threads);
    return n;
}

uint32_t kill_freeze(bool still)
{
    struct numbers walk;
    uint32_t n = 0;
    pid_t pid;

    resuming.frozen = still;
    resuming.next = 0;
    if (!still) {
        resume_processes();
        return 0;
    }
    kill(-1, SIGSTOP);
    pids_open(&walk);
    while ((pid = pids_next(&walk)))
        n += count_running(pid);
    return n;
}

int kill_marked(const struct proc *p, int sig)
{
    /* The first process is a child of PID 1: its pid is valid until it is reaped, and it is reached
     * even if it is hidden. */
    int found = is_first_process(p, p->pid) && kill(p->pid, sig) == 0;

    if (p->mark)
        found += signal_visible(p, sig);
    return sig == SIGKILL ? found + signal_hidden_orphans(sig) : found;
}

static bool is_spared(const struct proc *p, uint32_t last)
{
    return p->what != START_PROGRAM || p->id > last;
}

/* Zombies show no mark and are not counted, or the last of them would never disappear. */
static bool signal_other(pid_t pid, uint32_t last, int sig)
{
    AUTO_CLOSE int fd = sys_pidfd_open(pid);
    uint64_t mark = fd < 0 ? 0 : kill_mark_of(pid);

    if (!mark)
        return false;
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (p->mark == mark && is_spared(p, last))
            return false;
    return sys_pidfd_send_signal(fd, sig) == 0;
}

int kill_others(uint32_t last, int sig)
{
    struct numbers walk;
    int found = 0;
    pid_t pid;

    pids_open(&walk);
    while ((pid = pids_next(&walk)))
        found += signal_other(pid, last, sig);
    /* First processes may be hidden, but are children of PID 1. */
    for (struct proc *p = procs_next(NULL); p; p = procs_next(p))
        if (!is_spared(p, last) && p->state != PROC_ENDED && is_hidden(p->pid))
            found += kill(p->pid, sig) == 0;
    return sig == SIGKILL ? found + signal_hidden_orphans(sig) : found;
}

int kill_others_frozen(uint32_t last)
{
    int found;

    kill(-1, SIGSTOP);
    found = kill_others(last, SIGKILL);
    resume_processes();
    return found;
}
