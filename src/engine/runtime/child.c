/* The child's side of building a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "ipc/channel.h"
#include "ipc/kernel.h"
#include "proc/caps.h"
#include "proc/sys.h"
#include "runtime/build.h"
#include "runtime/rootfs.h"
#include "runtime/side_channels.h"

/* Descriptors as PID 1's program finds them. */
enum {
    INIT_CONTROL = 3,
    INIT_LISTENER = 4,
    INIT_RANGE_LOCK = 5,
    INIT_LISTENERS = 6,
    INIT_UPPER = INIT_LISTENERS + LISTENER_COUNT_,
    INIT_BOX,
    INIT_GROUPS,
    INIT_KILLS,
    HIGH = 100
};

/* What PID 1 needs inside its user namespace: to switch users, to signal and look at its children,
 * to tag what they start (a UTS namespace each), and to take the rest away from them. */
static const uint64_t init_caps = CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETPCAP) |
                                  CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SYS_PTRACE) |
                                  CAP_BIT(CAP_SYS_ADMIN);

static int sources(struct build *b, struct err *e)
{
    int r = b->is_root ? 0 : build_sources(b, false, e); /* root did it before we were made */

    return r < 0 ? r : build_sources(b, true, e);
}

static int set_hostname(struct build *b, struct err *e)
{
    if (sethostname(b->plan->hostname, strlen(b->plan->hostname)) < 0)
        return err_sys(e, "setting the hostname");
    return 0;
}

/* What the launcher makes meanwhile arrives in two messages. */
static int hear_launcher(struct build *b, int *ret_what, struct ipc_fds *ret, struct err *e)
{
    struct err said;
    ssize_t n = ipc_recv(b->child_sync, &said, sizeof said, ret, e);

    if (n < 0)
        return (int)n;
    if (n == sizeof said && said.code == ERR_OK && ret->n >= 1) {
        *ret_what = said.sys;
        return 0;
    }
    ipc_fds_done(ret);
    return err_set(e, ERR_UPSTREAM, "the launcher gave up");
}

static int receive_user(struct build *b, struct err *e)
{
    struct ipc_fds fds = { .n = 0 };
    int what, r = hear_launcher(b, &what, &fds, e);

    if (r >= 0)
        b->identity.userns = take_fd(&fds.fd[0]);
    return r;
}

/* What is there of `count` things, each with a bit. */
static void take_those(struct ipc_fds *fds, size_t *at, int *things, size_t count, unsigned there)
{
    for (size_t i = 0; i < count; i++)
        things[i] = *at < fds->n && (there & (1u << i)) ? take_fd(&fds->fd[(*at)++]) : -1;
}

/* The launcher's half is done: the network namespace, the cgroups to join, the listeners, and the
 * counter of OOM kills. */
static int join(struct build *b, struct err *e)
{
    struct ipc_fds fds = { .n = 0 };
    size_t at = 2;
    int what, r = hear_launcher(b, &what, &fds, e);

    if (r < 0)
        return r;
    if (fds.n < 2) {
        ipc_fds_done(&fds);
        return err_set(e, ERR_BUG, "too few descriptors from the launcher");
    }
    b->network = take_fd(&fds.fd[0]);
    *b->init_fd = take_fd(&fds.fd[1]);
    take_those(&fds, &at, b->cgroup.tasks, CGROUP_CONTROLLERS_, (unsigned)what);
    take_those(&fds, &at, b->listeners.fd, LISTENER_COUNT_, (unsigned)what >> CGROUP_CONTROLLERS_);
    take_those(&fds, &at, &b->cgroup.kills, 1,
               (unsigned)what >> (CGROUP_CONTROLLERS_ + LISTENER_COUNT_));
    return 0;
}

static int enter_cgroup(struct build *b, struct err *e)
{
    int r = cgroup_join(&b->cgroup, e);

    if (r < 0)
        return r;
    /* Only now: the namespace's root is where we are. */
    if (unshare(CLONE_NEWCGROUP) < 0)
        return err_sys(e, "making a cgroup namespace");
    return 0;
}

static int enter_network(struct build *b, struct err *e)
{
    if (setns(b->network, CLONE_NEWNET) < 0)
        return err_sys(e, "entering the network namespace");
    return 0;
}

static int enter_user(struct build *b, struct err *e)
{
    bool many = b->supply != IDENTITY_ONE;

    if (many && setgroups(0, NULL) < 0)
        return err_sys(e, "dropping groups");
    if (setns(b->identity.userns, CLONE_NEWUSER) < 0)
        return err_sys(e, "entering the user namespace");
    if (many && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
        return err_sys(e, "becoming the sandbox's root");
    return 0;
}

/* Not before the pivot: what was mounted in it is no longer reached from it. */
static int hand_out_changes(struct build *b, struct err *e)
{
    static const struct build_failure here = { .step = "changes" };
    AUTO_CLOSE int layer = -1;

    if (!(b->plan->flags & PLAN_CHANGES))
        return 0;
    layer = openat(b->storage, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (layer < 0)
        return err_sys(e, "opening the writable layer");
    return ipc_send(b->child_sync, &here, sizeof here, &layer, 1, e);
}

static int reduce_caps(struct build *b, struct err *e)
{
    uint64_t keep = init_caps | b->plan->caps;
    int r = caps_bound(UINT64_MAX, keep, e);

    if (r >= 0)
        r = caps_set(keep, keep, e);
    return r < 0 ? r : caps_ambient(keep, e);
}

static int place_fd(int *fd, int number)
{
    return *fd < 0 ? 0 : dup3(*fd, number, 0) < 0 ? -1 : 0;
}

static int move_up(int *fd, struct err *e)
{
    if (*fd >= 0 && (*fd = fcntl(*fd, F_DUPFD_CLOEXEC, HIGH)) < 0)
        return err_sys(e, "moving a descriptor");
    return 0;
}

static int place_listeners(struct build *b)
{
    int r = 0;

    for (int i = 0; i < LISTENER_COUNT_ && r >= 0; i++)
        r = place_fd(&b->listeners.fd[i], INIT_LISTENERS + i);
    return r;
}

/* PID 1 has these descriptors and no other; the sync socket closes by itself when the program
 * starts. */
static int arrange_descriptors(struct build *b, struct err *e)
{
    int *moved[] = { &b->control, &b->listener,   &b->identity.range_lock,
                     b->init_fd,  &b->child_sync, &b->upper,
                     &b->box,     &b->groups,     &b->cgroup.kills };
    int null = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC), r = 0;

    for (size_t i = 0; i < COUNT_OF(moved) && r >= 0; i++)
        r = move_up(moved[i], e);
    for (size_t i = 0; i < LISTENER_COUNT_ && r >= 0; i++)
        r = move_up(&b->listeners.fd[i], e);
    if (r < 0)
        return r;
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return err_sys(e, "opening /dev/null");
    if (sys_close_range(3, HIGH - 1) < 0)
        return err_sys(e, "closing descriptors");
    if (place_fd(&b->control, INIT_CONTROL) < 0 || place_fd(&b->listener, INIT_LISTENER) < 0 ||
        place_fd(&b->identity.range_lock, INIT_RANGE_LOCK) < 0 || place_listeners(b) < 0 ||
        place_fd(&b->upper, INIT_UPPER) < 0 || place_fd(&b->box, INIT_BOX) < 0 ||
        place_fd(&b->groups, INIT_GROUPS) < 0 || place_fd(&b->cgroup.kills, INIT_KILLS) < 0)
        return err_sys(e, "arranging descriptors");
    return 0;
}

/* Package installs set such bits, where a plan lets them. Never together with a mount that is
 * written through: there the file would be somebody's way up outside. */
static bool may_set_ids(const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_mounts; i++)
        if (p->mounts[i].flags & PLAN_MOUNT_RW)
            return false;
    return p->caps & (CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_SETUID));
}

static int become_init(struct build *b, struct err *e)
{
    char caps[24], flags[16], pids[16], kernel[16], listeners[16];
    char name[] = "sandboxer-init";
    char *argv[] = { name, caps, flags, pids, kernel, listeners, NULL };
    char *envp[] = { NULL };
    static const struct build_failure ready = { .step = "init" };
    int unused[LISTENER_COUNT_], r = arrange_descriptors(b, e);
    uint32_t slots;

    if (r < 0)
        return r;
    r = ipc_send(b->child_sync, &ready, sizeof ready, NULL, 0, e);
    if (r < 0)
        return r;
    prctl(PR_SET_PDEATHSIG, 0); /* a plain caller's would outlive the change of program */
    snprintf(caps, sizeof caps, "%llx", (unsigned long long)b->plan->caps);
    snprintf(flags, sizeof flags, "%x", b->plan->flags);
    snprintf(pids, sizeof pids, "%x", b->is_root ? 0 : b->plan->pids);
    snprintf(kernel, sizeof kernel, "%x",
             b->plan->kernel | (may_set_ids(b->plan) ? KERNEL_SET_IDS : 0));
    listeners_pack(&b->listeners, unused, &slots);
    snprintf(listeners, sizeof listeners, "%x", slots);
    sys_execveat(*b->init_fd, "", argv, envp, AT_EMPTY_PATH);
    return err_sys(e, "starting PID 1's program");
}

const struct build_step build_child_steps[] = {
    { "sources", sources },
    { "private", rootfs_private },
    { "storage", rootfs_storage },
    { "mapping", receive_user },
    { "box", rootfs_box },
    { "root", rootfs_root },
    { "system", rootfs_system },
    { "etc", rootfs_etc },
    { "scratch", rootfs_scratch },
    { "dev", rootfs_dev },
    { "proc", rootfs_proc },
    { "boot-id", side_channels_boot_id },
    { "mounts", rootfs_mounts },
    { "hostname", set_hostname },
    { "join", join },
    { "cgroup", enter_cgroup },
    { "network", enter_network },
    { "sys", rootfs_sys },
    { "pivot", rootfs_pivot },
    { "changes", hand_out_changes },
    { "user", enter_user },
    { "clock", side_channels_clock },
    { "side-channels", side_channels_guard },
    { "capabilities", reduce_caps },
    { "init", become_init },
};
const size_t build_child_step_count = COUNT_OF(build_child_steps);

void build_child(struct build *b)
{
    struct build_failure failure = { 0 };

    /* If the launcher dies while we build, so do we; later PID 1 has rules of its own. */
    prctl(PR_SET_PDEATHSIG, 9);
    umask(022);
    b->self = b->is_root ? b->identity.first : 0;
    build_run(b, build_child_steps, build_child_step_count, &failure.err);
    memcpy(failure.step, b->step, sizeof failure.step);
    ipc_send(b->child_sync, &failure, sizeof failure, NULL, 0, NULL);
    _exit(125);
}
