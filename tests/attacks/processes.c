/* SPDX-License-Identifier: Apache-2.0 */
/* Other processes: PID 1 above all, which is the supervisor and must be out of reach. */
#include "attacks/attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tiocl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INIT = 1, PIDS_SWEPT = 65536, PTRACE_SEIZE_ = 0x4206, PTRACE_INTERRUPT_ = 0x4207 };

/* ---- /proc ---- */

static enum verdict init_file(const void *with)
{
    char path[64], target[64];

    snprintf(path, sizeof path, "/proc/1/%s", (const char *)with);
    if (readlink(path, target, sizeof target) > 0)
        return escaped("%s is a link that can be read", path);
    return refused(open(path, O_RDONLY | O_CLOEXEC), "open of %s", path);
}

static enum verdict init_binary(const void *with)
{
    return refused(open("/proc/1/exe", O_WRONLY | O_CLOEXEC),
                   "open of PID 1's program for writing");
}

static enum verdict init_oom_score(const void *with)
{
    return refused(open("/proc/1/oom_score_adj", O_WRONLY | O_CLOEXEC), "oom_score_adj of PID 1");
}

static bool is_ours(pid_t pid)
{
    return pid == getpid() || pid == getppid();
}

static enum verdict init_is_hidden(const void *with)
{
    DIR *dir = opendir("/proc");
    struct dirent *d;
    int seen = 0;

    while (dir && (d = readdir(dir))) {
        pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);

        if (pid <= 0)
            continue;
        if (!is_ours(pid))
            return escaped("process %d is listed in /proc", pid);
        seen++;
    }
    return seen > 0 ? held("only ourselves") : escaped("/proc lists nobody: %s", strerror(errno));
}

/* ---- signals ---- */

static enum verdict signal_init(const void *with)
{
    for (int sig = 0; sig <= 64; sig++)
        if (sig != 32 && sig != 33 && (syscall(SYS_kill, INIT, sig) == 0 || errno != EPERM))
            return escaped("signal %d: %s", sig, strerror(errno));
    return held("all of them: %s", strerror(EPERM));
}

static enum verdict signal_init_thread(const void *with)
{
    return refused(syscall(SYS_tgkill, INIT, INIT, SIGTERM), "tgkill");
}

static enum verdict queue_to_init(const void *with)
{
    siginfo_t info = { .si_signo = SIGTERM, .si_code = SI_QUEUE };

    return refused(syscall(SYS_rt_sigqueueinfo, INIT, SIGTERM, &info), "sigqueue");
}

static enum verdict sweep(const void *with)
{
    for (pid_t pid = 1; pid < PIDS_SWEPT; pid++)
        if (!is_ours(pid) && kill(pid, 0) == 0)
            return escaped("process %d takes our signals", pid);
    return held("pids 1 to %d: nobody but ourselves", PIDS_SWEPT);
}

static enum verdict pidfd_signal(const void *with)
{
    int pidfd = (int)syscall(SYS_pidfd_open, INIT, 0);

    if (pidfd < 0)
        return held("pidfd_open: %s", strerror(errno));
    return refused(syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, NULL, 0), "pidfd_send_signal");
}

static enum verdict pidfd_getfd(const void *with)
{
    int pidfd = (int)syscall(SYS_pidfd_open, INIT, 0);

    if (pidfd < 0)
        return held("pidfd_open: %s", strerror(errno));
    for (int fd = 0; fd < 16; fd++)
        if (syscall(SYS_pidfd_getfd, pidfd, fd, 0) >= 0)
            return escaped("took descriptor %d of PID 1", fd);
    return errno == EBADF ? escaped("looked for a descriptor of PID 1")
                          : held("%s", strerror(errno));
}

/* ---- memory ---- */

static enum verdict ptrace_init(const void *with)
{
    long request = *(const int *)with;
    long r = syscall(SYS_ptrace, request, INIT, 0, 0);

    if (r == 0) { /* only in a rehearsal: let it go again */
        syscall(SYS_ptrace, PTRACE_INTERRUPT_, INIT, 0, 0);
        waitpid(INIT, NULL, __WALL);
        syscall(SYS_ptrace, PTRACE_DETACH, INIT, 0, SIGCONT);
    }
    return refused(r, "ptrace %ld", request);
}

static enum verdict ptrace_parent(const void *with)
{
    return refused(syscall(SYS_ptrace, PTRACE_SEIZE_, getppid(), 0, 0), "ptrace of our parent");
}

static enum verdict ptrace_me(const void *with)
{
    return refused(syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0), "PTRACE_TRACEME");
}

static enum verdict read_memory(const void *with)
{
    pid_t pid = *(const int *)with ? *(const int *)with : getppid();
    char byte;
    struct iovec here = { &byte, 1 }, there = { &byte, 1 };

    return refused(syscall(SYS_process_vm_readv, pid, &here, 1L, &there, 1L, 0L),
                   "process_vm_readv");
}

static enum verdict write_memory(const void *with)
{
    static char
        byte; /* at the same place in the parent, where nothing uses it; a stack is in use */
    struct iovec here = { &byte, 1 }, there = { &byte, 1 };

    return refused(syscall(SYS_process_vm_writev, getppid(), &here, 1L, &there, 1L, 0L),
                   "process_vm_writev");
}

/* ---- limits and scheduling of PID 1 ---- */

static enum verdict limit_init(const void *with)
{
    struct rlimit cpu = { RLIM_INFINITY, RLIM_INFINITY };

    return refused(syscall(SYS_prlimit64, INIT, RLIMIT_CPU, &cpu, NULL), "prlimit64");
}

static enum verdict read_limit_of_init(const void *with)
{
    struct rlimit limit;

    return refused(syscall(SYS_prlimit64, INIT, RLIMIT_NOFILE, NULL, &limit), "prlimit64");
}

static enum verdict renice_init(const void *with)
{
    return refused(setpriority(PRIO_PROCESS, INIT, 19), "setpriority");
}

static enum verdict pin_init(const void *with)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(0, &one);
    return refused(syscall(SYS_sched_setaffinity, INIT, sizeof one, &one), "sched_setaffinity");
}

static enum verdict reschedule_init(const void *with)
{
    struct sched_param p = { 0 };

    return refused(syscall(SYS_sched_setscheduler, INIT, SCHED_BATCH, &p), "sched_setscheduler");
}

static enum verdict ioprio_init(const void *with)
{
    return refused(syscall(SYS_ioprio_set, 1, INIT, 3 << 13), "ioprio_set");
}

/* ---- getting ahead of everyone ---- */

static enum verdict realtime(const void *with)
{
    struct sched_param p = { .sched_priority = 1 };

    return refused(syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &p), "SCHED_FIFO");
}

static enum verdict negative_nice(const void *with)
{
    return refused(setpriority(PRIO_PROCESS, 0, -10), "nice -10");
}

static enum verdict oom_immunity(const void *with)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return held("%s", strerror(errno));
    return refused(write(fd, "-1000", 5), "oom_score_adj -1000");
}

/* ---- the terminal ---- */

static enum verdict push_input(const void *with)
{
    if (!isatty(0))
        return not_applicable("stdin is no terminal");
    return ioctl(0, TIOCSTI, " ") < 0 ? held("%s", strerror(errno)) : escaped("TIOCSTI worked");
}

static enum verdict paste_selection(const void *with)
{
    char paste = TIOCL_PASTESEL;

    if (!isatty(0))
        return not_applicable("stdin is no terminal");
    return ioctl(0, TIOCLINUX, &paste) < 0 ? held("%s", strerror(errno))
                                           : escaped("TIOCLINUX worked");
}

static enum verdict grab_console(const void *with)
{
    if (!isatty(0))
        return not_applicable("stdin is no terminal");
    return ioctl(0, TIOCCONS) < 0 ? held("%s", strerror(errno)) : escaped("console output is ours");
}

#define INIT_FILE(file)                                                                            \
    {                                                                                              \
        "processes: /proc/1/" file, init_file, file, SEEN                                          \
    }

static const int init = INIT, parent = 0, attach = PTRACE_ATTACH, seize = PTRACE_SEIZE_;

static const struct attack attacks[] = {
    { "processes: only our own in /proc", init_is_hidden, NULL, SEEN },
    INIT_FILE("root"),
    INIT_FILE("root/etc/shadow"),
    INIT_FILE("cwd"),
    INIT_FILE("environ"),
    INIT_FILE("cmdline"),
    INIT_FILE("mem"),
    INIT_FILE("maps"),
    INIT_FILE("fd"),
    INIT_FILE("exe"),
    INIT_FILE("status"),
    INIT_FILE("mountinfo"),
    INIT_FILE("ns/mnt"),
    INIT_FILE("task"),
    { "processes: PID 1's program for writing", init_binary, NULL,
      UNSEEN }, /* busy while it runs */
    { "processes: PID 1's oom_score_adj", init_oom_score, NULL, SEEN },
    { "processes: kill(1) with every signal", signal_init, NULL, SEEN },
    { "processes: tgkill(1)", signal_init_thread, NULL, SEEN },
    { "processes: sigqueue(1)", queue_to_init, NULL, SEEN },
    { "processes: pidfd_send_signal(1)", pidfd_signal, NULL, SEEN },
    { "processes: signals to anyone else", sweep, NULL, SEEN },
    { "processes: pidfd_getfd of PID 1", pidfd_getfd, NULL, SEEN },
    { "processes: ptrace attach to PID 1", ptrace_init, &attach, SEEN },
    { "processes: ptrace seize PID 1", ptrace_init, &seize, SEEN },
    { "processes: ptrace of a sibling", ptrace_parent, NULL, SEEN },
    { "processes: PTRACE_TRACEME", ptrace_me, NULL, SEEN },
    { "processes: process_vm_readv of PID 1", read_memory, &init, SEEN },
    { "processes: process_vm_readv of a sibling", read_memory, &parent, SEEN },
    { "processes: process_vm_writev of a sibling", write_memory, NULL, SEEN },
    { "processes: prlimit of PID 1", limit_init, NULL, SEEN },
    { "processes: reading the limits of PID 1", read_limit_of_init, NULL, SEEN },
    { "processes: setpriority of PID 1", renice_init, NULL, SEEN },
    { "processes: sched_setaffinity of PID 1", pin_init, NULL, SEEN },
    { "processes: sched_setscheduler of PID 1", reschedule_init, NULL, SEEN },
    { "processes: ioprio_set of PID 1", ioprio_init, NULL, SEEN },
    { "processes: realtime scheduling", realtime, NULL, SEEN },
    { "processes: negative nice", negative_nice, NULL, SEEN },
    { "processes: immunity from the out-of-memory killer", oom_immunity, NULL,
      UNSEEN }, /* needs RESOURCE */
    { "processes: typing into the terminal (TIOCSTI)", push_input, NULL, UNSEEN }, /* needs one */
    { "processes: pasting into the terminal (TIOCLINUX)", paste_selection, NULL, UNSEEN },
    { "processes: taking the console (TIOCCONS)", grab_console, NULL, UNSEEN },
};

const struct attack_group attacks_processes = GROUP(attacks);
