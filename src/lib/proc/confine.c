/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/caps.h"
#include "lib/proc/sys.h"

enum {
    NOBODY = 65534,
    ABI_REFER = 2, /* the first ABI that can allow links between directories */
    ABI_TRUNCATE = 3,
};
#define ACCESS_TRUNCATE (UINT64_C(1) << 14) /* newer than the headers of Debian 12 */
#define ACCESS_READ     (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ACCESS_CHANGE                                                                              \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                               \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |  \
     LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define ACCESS_NODES                                                                               \
    (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO)
#define ACCESS_NEVER LANDLOCK_ACCESS_FS_MAKE_BLOCK

int confine_fds(const int *fds, int n, struct err *e)
{
    int high[CONFINE_FDS_MAX]; /* moved first, so that none overwrites another */

    if (n > CONFINE_FDS_MAX)
        return err_set(e, ERR_BUG, "%d descriptors for one process", n);
    for (int i = 0; i < n; i++) {
        int fd = fds[i] < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : fds[i];

        high[i] = fcntl(fd, F_DUPFD_CLOEXEC, CONFINE_FDS_MAX);
        if (high[i] < 0)
            return err_sys(e, "moving descriptor %d", fd);
    }
    for (int i = 0; i < n; i++)
        if (dup2(high[i], i) < 0)
            return err_sys(e, "moving descriptor %d", high[i]);
    if (sys_close_range((unsigned)n, ~0u) < 0)
        return err_sys(e, "closing descriptors");
    return 0;
}

static int set_signals(const struct confine *c, struct err *e)
{
    struct sigaction dfl = { .sa_handler = SIG_DFL };
    sigset_t none;

    for (int sig = 1; sig < 32; sig++)
        sigaction(sig, &dfl, NULL);
    signal(SIGXFSZ, SIG_IGN);
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return err_sys(e, "unblocking signals");
    return 0;
}

/* A raw system call, because the type of `what` differs between glibc and musl. */
static int set_rlimit(unsigned what, uint64_t most, struct err *e)
{
    struct rlimit now, new;

    if (syscall(SYS_prlimit64, 0, what, NULL, &now) < 0)
        return err_sys(e, "reading resource limit %u", what);
    new.rlim_cur = new.rlim_max = now.rlim_max < most ? now.rlim_max : most;
    if (syscall(SYS_prlimit64, 0, what, &new, NULL) < 0)
        return err_sys(e, "setting resource limit %u", what);
    return 0;
}

static int set_confine_limits(const struct confine *c, struct err *e)
{
    int r = set_rlimit(RLIMIT_CORE, 0, e);

    if (r >= 0)
        r = set_rlimit(RLIMIT_FSIZE, c->file_max, e);
    if (r >= 0)
        r = set_rlimit(RLIMIT_NOFILE, c->fds_max ? c->fds_max : CONFINE_OPEN_DEFAULT, e);
    if (r >= 0 && c->memory_max)
        r = set_rlimit(RLIMIT_AS, c->memory_max, e);
    return r;
}

/* Makes `dir` the root directory, so that no other file of the system is reachable. A caller
 * without CAP_SYS_CHROOT only changes its working directory. */
static int set_root(const struct confine *c, struct err *e)
{
    if (c->dir < 0)
        return 0;
    if (fchdir(c->dir) < 0)
        return err_sys(e, "entering the directory");
    if (chroot(".") < 0 && errno != EPERM)
        return err_sys(e, "making the directory its root");
    return 0;
}

/* Only root can change supplementary groups; a plain user keeps its own. */
static int become_confined_user(const struct confine *c, struct err *e)
{
    if (geteuid() != 0 && (geteuid() != c->uid || getegid() != c->gid))
        return err_set(e, ERR_DENIED, "only root can become user %u:%u", c->uid, c->gid);
    if (geteuid() == 0 && setgroups(c->n_groups, c->groups) < 0)
        return err_sys(e, "changing groups");
    if (setresgid(c->gid, c->gid, c->gid) < 0)
        return err_sys(e, "becoming group %u", c->gid);
    if (setresuid(c->uid, c->uid, c->uid) < 0)
        return err_sys(e, "becoming user %u", c->uid);
    return 0;
}

/* Becomes user 65534. In a user namespace setgroups() may be denied and that id may not be mapped:
 * the ids then remain. */
static int set_confined_user(const struct confine *c, struct err *e)
{
    if (c->become)
        return become_confined_user(c, e);
    if (c->dir >= 0 || geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        return err_sys(e, "giving up groups");
    if (setresgid(NOBODY, NOBODY, NOBODY) < 0 && errno != EINVAL)
        return err_sys(e, "becoming group %d", NOBODY);
    if (setresuid(NOBODY, NOBODY, NOBODY) < 0 && errno != EINVAL)
        return err_sys(e, "becoming user %d", NOBODY);
    return 0;
}

/* Runs after the change of user, which clears the parent-death signal. */
static int set_death(const struct confine *c, struct err *e)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return err_sys(e, "asking for a signal when the parent dies");
    if (getppid() != c->parent) /* the parent died before */
        _exit(1);
    return 0;
}

static int set_no_new_privs(const struct confine *c, struct err *e)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "giving up new privileges");
    return 0;
}

static int allow_beneath(int ruleset, int dir, uint64_t access, struct err *e)
{
    struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = dir };

    if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return err_sys(e, "adding a Landlock rule");
    return 0;
}

/* Allows the directories of programs and shared libraries. */
static int allow_programs(int ruleset, struct err *e)
{
    static const char *const places[] = { "/usr", "/bin", "/lib", "/lib64" };

    for (size_t i = 0; i < COUNT_OF(places); i++) {
        AUTO_CLOSE int dir = open(places[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        int r =
            dir < 0 ? 0 : allow_beneath(ruleset, dir, ACCESS_READ | LANDLOCK_ACCESS_FS_EXECUTE, e);

        if (r < 0)
            return r;
    }
    return 0;
}

static int set_landlock(const struct confine *c, struct err *e)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t fill = ACCESS_READ | ACCESS_CHANGE | (abi >= ABI_TRUNCATE ? ACCESS_TRUNCATE : 0);
    struct landlock_ruleset_attr attr = { .handled_access_fs = fill | LANDLOCK_ACCESS_FS_EXECUTE |
                                                               ACCESS_NODES | ACCESS_NEVER };
    AUTO_CLOSE int ruleset = -1;
    int r;

    if (abi < ABI_REFER)
        return 0;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
    if (ruleset < 0)
        return err_sys(e, "making a Landlock ruleset");
    r = c->dir < 0
            ? allow_programs(ruleset, e)
            : allow_beneath(ruleset, c->dir, fill | (c->nodes ? (uint64_t)ACCESS_NODES : 0), e);
    for (size_t i = 0; c->dir >= 0 && i < c->n_readable && r >= 0; i++)
        r = allow_beneath(ruleset, c->readable[i], ACCESS_READ, e);
    if (r >= 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = err_sys(e, "entering the Landlock ruleset");
    return r;
}

static int set_confined_caps(const struct confine *c, struct err *e)
{
    int r = 0;

    if (caps_permitted() & CAP_BIT(CAP_SETPCAP))
        r = caps_bound(UINT64_MAX, c->caps, e);
    if (r >= 0)
        r = caps_ambient(0, e);
    return r < 0 ? r : caps_set(c->caps, 0, e);
}

/* The order matters: a step may drop privileges that the earlier ones need. */
static const struct {
    const char *name;
    int (*run)(const struct confine *c, struct err *e);
} steps[] = {
    { "signals", set_signals },   { "limits", set_confine_limits },
    { "root", set_root },         { "user", set_confined_user },
    { "death", set_death },       { "privileges", set_no_new_privs },
    { "landlock", set_landlock }, { "capabilities", set_confined_caps },
};

int confine_enter(const struct confine *c, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        int r = steps[i].run(c, e);

        if (r < 0)
            return err_wrap(e, r, "confining a process (%s)", steps[i].name);
    }
    return 0;
}
