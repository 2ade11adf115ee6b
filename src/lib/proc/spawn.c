/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/sys.h"

/* Runs between vfork() and execve(): makes only system calls. Moves all descriptors above the
 * target numbers first. `status`, unless it is -1, becomes descriptor n_fds, closed by execve(). */
static int arrange_fds(const struct spawn *s, int status)
{
    enum { ROOM = SPAWN_FDS_MAX + 1 };
    int high[SPAWN_FDS_MAX];

    status = status < 0 ? -1 : fcntl(status, F_DUPFD_CLOEXEC, ROOM);
    for (int i = 0; i < s->n_fds; i++) {
        high[i] = s->fds[i] < 0 ? openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC) : s->fds[i];
        high[i] = fcntl(high[i], F_DUPFD_CLOEXEC, ROOM);
        if (high[i] < 0)
            return -1;
    }
    for (int i = 0; i < s->n_fds; i++)
        if (dup2(high[i], i) < 0)
            return -1;
    if (status >= 0 && dup3(status, s->n_fds, O_CLOEXEC) < 0)
        return -1;
    return sys_close_range((unsigned)s->n_fds + (status >= 0), ~0u);
}

/* Uses the system call, because the C library rejects the real-time signals that it reserves, which
 * our own parent may have ignored. */
static void reset_spawned_signals(void)
{
    static const struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } dfl; /* all zeros: SIG_DFL */
    sigset_t none;

    for (int sig = 1; sig <= 64; sig++)
        syscall(SYS_rt_sigaction, sig, &dfl, NULL, sizeof dfl.mask);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Uses system calls: the C library's functions would also change the parent's threads, because
 * vfork() shares memory. */
static int become_spawn_user(const struct spawn *s)
{
    if (!s->become)
        return 0;
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, s->gid, s->gid, s->gid) < 0 ||
        syscall(SYS_setresuid, s->uid, s->uid, s->uid) < 0)
        return -1;
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int spawn_start(const struct spawn *s, pid_t *ret, struct err *e)
{
    volatile int failed = 0;
    sigset_t all, old;
    pid_t pid;

    if (s->n_fds > SPAWN_FDS_MAX)
        return err_set(e, ERR_BUG, "%d descriptors for one program", s->n_fds);
    /* vfork() shares our memory until execve(): no signal handler may run there. */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &old);
    pid = vfork();
    if (pid == 0) {
        reset_spawned_signals();
        if (arrange_fds(s, -1) == 0 && become_spawn_user(s) == 0)
            execve(s->path, s->argv, s->envp);
        failed = errno;
        _exit(127);
    }
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (pid < 0)
        return err_sys(e, "starting %s", s->path);
    if (failed) {
        waitpid(pid, NULL, 0);
        errno = failed;
        return err_sys(e, "starting %s", s->path);
    }
    *ret = pid;
    return 0;
}

int spawn_exec(const struct spawn *s, int *status, struct err *e)
{
    if (s->n_fds > SPAWN_FDS_MAX)
        return err_set(e, ERR_BUG, "%d descriptors for one program", s->n_fds);
    reset_spawned_signals();
    if (arrange_fds(s, *status) == 0) {
        *status = *status < 0 ? -1 : s->n_fds;
        if (become_spawn_user(s) == 0)
            execve(s->path, s->argv, s->envp);
    }
    return err_sys(e, "starting %s", s->path);
}

int spawn_wait(pid_t pid, int *ret_status, struct err *e)
{
    pid_t got;

    do
        got = waitpid(pid, ret_status, 0);
    while (got < 0 && errno == EINTR);
    return got < 0 ? err_sys(e, "waiting for process %d", (int)pid) : 0;
}

int spawn_find(const char *name, char *out, size_t cap, struct err *e)
{
    static const char *const places[] = { "", "../libexec/sandboxer/" };
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (n < 0)
        return err_sys(e, "finding our own program");
    self[n] = '\0';
    slash = strrchr(self, '/');
    if (slash)
        slash[1] = '\0';
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        if (snprintf(out, cap, "%s%s%s", self, places[i], name) >= (int)cap)
            continue;
        if (access(out, X_OK) == 0)
            return 0;
    }
    return err_set(e, ERR_NOT_FOUND,
                   "%s is neither beside the sandboxer program nor in ../libexec/sandboxer; the "
                   "installation is incomplete",
                   name);
}
