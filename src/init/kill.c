/* Ending everything that one start has set free.
 *
 * A process can leave its parent, its group and its session, but not its UTS namespace: that needs
 * CAP_SYS_ADMIN, which no workload has. So every start gets one of its own, and its inode number is
 * the mark by which all descendants are found, at no cost until somebody asks. */
#include "init/init.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "proc/sys.h"

enum { DENTS = 32 << 10, CHILDREN_MAX = 64 << 10 };

struct dents64 {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

uint64_t kill_own_mark(void)
{
    struct stat st;

    return stat("/proc/self/ns/uts", &st) < 0 ? 0 : st.st_ino;
}

static uint64_t mark_of(pid_t pid, bool *ret_visible)
{
    char path[48];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d/ns/uts", (int)pid);
    if (stat(path, &st) == 0)
        return st.st_ino;
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    *ret_visible = stat(path, &st) == 0;
    return 0;
}

/* The pidfd makes sure that what is signalled is what was looked at. */
static bool signal_if_marked(pid_t pid, uint64_t mark, int sig)
{
    AUTO_CLOSE int fd = sys_pidfd_open(pid);
    bool visible;

    if (fd < 0 || mark_of(pid, &visible) != mark)
        return false;
    if (sig == SIGKILL)
        sys_pidfd_send_signal(fd, SIGSTOP);
    return sys_pidfd_send_signal(fd, sig) == 0;
}

static int signal_visible(uint64_t mark, int sig)
{
    static char room[DENTS] __attribute__((aligned(8)));
    AUTO_CLOSE int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int found = 0;
    long n;

    while (proc >= 0 && (n = syscall(SYS_getdents64, proc, room, sizeof room)) > 0)
        for (long at = 0; at < n;) {
            const struct dents64 *d = (const void *)(room + at);
            uint64_t pid;

            at += d->reclen;
            if (str_to_u64(str_from(d->name), &pid) && pid > 1)
                found += signal_if_marked((pid_t)pid, mark, sig);
        }
    return found;
}

/* A program that its user may not read hides its process from us as from everybody. When its parent
 * is gone it is a child of ours all the same: one that is not the first process of any start. */
static int signal_hidden_orphans(int sig)
{
    static char list[CHILDREN_MAX];
    AUTO_CLOSE int fd = open("/proc/self/task/1/children", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, list, sizeof list);
    struct str rest = { list, n < 0 ? 0 : (size_t)n }, word;
    int found = 0;

    while (rest.n) {
        bool visible = true;
        uint64_t pid;

        rest = str_cut(rest, ' ', &word);
        if (!str_to_u64(word, &pid) || procs_by_pid((pid_t)pid))
            continue;
        if (mark_of((pid_t)pid, &visible) == 0 && !visible)
            found += kill((pid_t)pid, sig) == 0;
    }
    return found;
}

int kill_marked(const struct proc *p, int sig)
{
    int found = signal_visible(p->mark, sig);

    if (sig != SIGKILL)
        return found;
    return found + signal_hidden_orphans(sig);
}
