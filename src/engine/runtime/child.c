/* SPDX-License-Identifier: Apache-2.0 */
/* The child's side of building a sandbox. */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/kernel.h"
#include "lib/proc/caps.h"
#include "lib/proc/sys.h"
#include "engine/runtime/build.h"
#include "engine/runtime/rootfs.h"
#include "engine/runtime/side_channels.h"

/* Descriptor numbers of PID 1's program. */
enum {
    INIT_CONTROL = 3,
    INIT_LISTENER = 4,
    INIT_RANGE_LOCK = 5,
    INIT_LISTENERS = 6,
    INIT_UPPER = INIT_LISTENERS + LISTENER_COUNT_,
    INIT_BOX,
    INIT_GROUPS,
    INIT_KILLS,
    INIT_CPU,
    INIT_DISK,
    HIGH = 100
};

/* Capabilities of PID 1 in its user namespace: to switch users, to signal and examine its children,
 * to tag them (a UTS namespace each), and to drop all others for them. */
static const uint64_t init_caps = CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETPCAP) |
                                  CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SYS_PTRACE) |
                                  CAP_BIT(CAP_SYS_ADMIN);

static int open_child_sources(struct sandbox_build *b, struct err *e)
{
    int r = b->is_root ? 0 : build_sources(b, false, e); /* a launcher of root did it before the
                                                            fork */

    return r < 0 ? r : build_sources(b, true, e);
}

static int set_sandbox_hostname(struct sandbox_build *b, struct err *e)
{
    if (sethostname(b->plan->hostname, strlen(b->plan->hostname)) < 0)
        return err_sys(e, "setting the hostname");
    return 0;
}

/* Receives one of the two messages of the launcher. */
static int receive_from_launcher(struct sandbox_build *b, int *ret_what, struct ipc_fds *ret,
                                 struct err *e)
{
    struct err reply;
    ssize_t n = ipc_recv(b->child_sync, &reply, sizeof reply, ret, e);

    if (n < 0)
        return (int)n;
    if (n == sizeof reply && reply.code == ERR_OK && ret->n >= 1) {
        *ret_what = reply.sys;
        return 0;
    }
    ipc_fds_done(ret);
    return err_set(e, ERR_UPSTREAM, "the launcher ended before the sandbox was built");
}

static int receive_user(struct sandbox_build *b, struct err *e)
{
    struct ipc_fds fds = { .n = 0 };
    int what, r;

    if (b->identity.userns >= 0)
        return 0;
    r = receive_from_launcher(b, &what, &fds, e);
    if (r >= 0)
        b->identity.userns = take_fd(&fds.fd[0]);
    if (r >= 0 && fds.n > 1)
        b->granter = take_fd(&fds.fd[1]);
    return r;
}

/* Layers and boxes are mounted with mapped owners. Without them the child continues until the
 * launcher has made the user namespace. */
static int receive_user_for_layers(struct sandbox_build *b, struct err *e)
{
    return b->plan->n_layers || build_on_disk(b) ? receive_user(b, e) : 0;
}

/* Takes the present ones of `count` descriptors, each with a bit. */
static void take_present_fds(struct ipc_fds *fds, size_t *at, int *things, size_t count,
                             unsigned there)
{
    for (size_t i = 0; i < count; i++)
        things[i] = *at < fds->n && (there & (1u << i)) ? take_fd(&fds->fd[(*at)++]) : -1;
}

/* Receives the launcher's results: the network namespace, the cgroups to join, the listeners, and
 * the counters of OOM kills and processor time. */
static int take_launcher_half(struct sandbox_build *b, struct err *e)
{
    struct ipc_fds fds = { .n = 0 };
    size_t at = 2;
    int what, r = receive_from_launcher(b, &what, &fds, e);

    if (r < 0)
        return r;
    if (fds.n < 2) {
        ipc_fds_done(&fds);
        return err_set(e, ERR_BUG, "too few descriptors from the launcher");
    }
    b->network = take_fd(&fds.fd[0]);
    *b->init_fd = take_fd(&fds.fd[1]);
    take_present_fds(&fds, &at, b->cgroup.tasks, CGROUP_CONTROLLERS_, (unsigned)what);
    take_present_fds(&fds, &at, b->listeners.fd, LISTENER_COUNT_,
                     (unsigned)what >> CGROUP_CONTROLLERS_);
    take_present_fds(&fds, &at, &b->cgroup.kills, 1,
                     (unsigned)what >> (CGROUP_CONTROLLERS_ + LISTENER_COUNT_));
    take_present_fds(&fds, &at, &b->cgroup.cpu, 1,
                     (unsigned)what >> (CGROUP_CONTROLLERS_ + LISTENER_COUNT_ + 1));
    return 0;
}

static int enter_cgroup(struct sandbox_build *b, struct err *e)
{
    int r = cgroup_join(&b->cgroup, e);

    if (r < 0)
        return r;
    /* Only now: the current group becomes the namespace's root. */
    if (unshare(CLONE_NEWCGROUP) < 0)
        return err_sys(e, "making a cgroup namespace");
    return 0;
}

static int enter_network(struct sandbox_build *b, struct err *e)
{
    if (setns(b->network, CLONE_NEWNET) < 0)
        return err_sys(e, "entering the network namespace");
    return 0;
}

static int enter_user(struct sandbox_build *b, struct err *e)
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

/* After the pivot: mounts inside are no longer reachable from it. */
static int hand_out_changes(struct sandbox_build *b, struct err *e)
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

static int reduce_caps(struct sandbox_build *b, struct err *e)
{
    uint64_t keep = init_caps | b->plan->caps;
    int r = caps_bound(UINT64_MAX, keep, e);

    if (r >= 0)
        r = caps_set(keep, keep, e);
    return r < 0 ? r : caps_ambient(keep, e);
}

/* PID 1 gets only these descriptors; those without a number close on exec. */
static int arrange_init_fds(struct sandbox_build *b, struct err *e)
{
    const struct {
        int *fds, n, first; /* first 0: only moved */
    } places[] = {
        { &b->control, 1, INIT_CONTROL },
        { &b->listener, 1, INIT_LISTENER },
        { &b->identity.range_lock, 1, INIT_RANGE_LOCK },
        { b->init_fd, 1, 0 },
        { &b->child_sync, 1, 0 },
        { b->listeners.fd, LISTENER_COUNT_, INIT_LISTENERS },
        { &b->upper, 1, INIT_UPPER },
        { &b->box, 1, INIT_BOX },
        { &b->groups, 1, INIT_GROUPS },
        { &b->cgroup.kills, 1, INIT_KILLS },
        { &b->cgroup.cpu, 1, INIT_CPU },
        { b->counters, DRIVER_COUNTERS, INIT_DISK },
    };
    int null = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);

    for (size_t i = 0; i < COUNT_OF(places); i++)
        for (int *fd = places[i].fds; fd < places[i].fds + places[i].n; fd++)
            if (*fd >= 0 && (*fd = fcntl(*fd, F_DUPFD_CLOEXEC, HIGH)) < 0)
                return err_sys(e, "moving a descriptor");
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return err_sys(e, "opening /dev/null");
    if (sys_close_range(3, HIGH - 1) < 0)
        return err_sys(e, "closing descriptors");
    for (size_t i = 0; i < COUNT_OF(places); i++)
        for (int k = 0; places[i].first && k < places[i].n; k++)
            if (places[i].fds[k] >= 0 && dup3(places[i].fds[k], places[i].first + k, 0) < 0)
                return err_sys(e, "arranging descriptors");
    return 0;
}

static bool has_writable_mount(const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_mounts; i++)
        if (p->mounts[i].flags & PLAN_MOUNT_RW)
            return true;
    return false;
}

/* The launcher's part of enum kernel_bits. Package installs set set-user-id bits, if the plan allows
 * them: never together with a writable mount, where the file would allow privilege escalation on the
 * host. What is written to such a mount can be synced. */
static uint32_t kernel_of_mounts(const struct plan *p)
{
    if (has_writable_mount(p))
        return KERNEL_SYNC;
    return p->caps & (CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_SETUID)) ? KERNEL_SET_IDS : 0;
}

static int become_init(struct sandbox_build *b, struct err *e)
{
    char caps[24], flags[16], pids[16], kernel[16], listeners[16];
    char name[] = "sandboxer-init";
    char *argv[] = { name, caps, flags, pids, kernel, listeners, NULL };
    char *envp[] = { NULL };
    static const struct build_failure ready = { .step = "init" };
    int unused[LISTENER_COUNT_], r = arrange_init_fds(b, e);
    uint32_t slots;

    if (r < 0)
        return r;
    r = ipc_send(b->child_sync, &ready, sizeof ready, NULL, 0, e);
    if (r < 0)
        return r;
    prctl(PR_SET_PDEATHSIG, 0); /* without a change of credentials it would survive execve() */
    snprintf(caps, sizeof caps, "%llx", (unsigned long long)b->plan->caps);
    snprintf(flags, sizeof flags, "%x", b->plan->flags);
    snprintf(pids, sizeof pids, "%x", b->is_root ? 0 : b->plan->pids);
    snprintf(kernel, sizeof kernel, "%x", b->plan->kernel | kernel_of_mounts(b->plan));
    listeners_pack(&b->listeners, unused, &slots);
    snprintf(listeners, sizeof listeners, "%x", slots);
    sys_execveat(*b->init_fd, "", argv, envp, AT_EMPTY_PATH);
    return err_sys(e, "starting PID 1's program");
}

const struct sandbox_build_step build_child_steps[] = {
    { "sources", open_child_sources },
    { "private", rootfs_private },
    { "storage", rootfs_storage },
    { "layers", receive_user_for_layers },
    { "box", rootfs_box },
    { "root", rootfs_root },
    { "scratch", rootfs_scratch },
    { "dev", rootfs_dev },
    { "proc", rootfs_proc },
    { "mapping", receive_user },
    { "system", rootfs_system },
    { "etc", rootfs_etc },
    { "boot-id", side_channels_boot_id },
    { "mounts", rootfs_mounts },
    { "hostname", set_sandbox_hostname },
    { "join", take_launcher_half },
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

void build_child(struct sandbox_build *b)
{
    struct build_failure failure = { 0 };

    /* If the launcher dies during the build, so does the child; later PID 1 has its own rules. */
    prctl(PR_SET_PDEATHSIG, 9);
    umask(022);
    b->self = b->is_root ? b->identity.first : 0;
    build_run(b, build_child_steps, build_child_step_count, &failure.err);
    memcpy(failure.step, b->step, sizeof failure.step);
    ipc_send(b->child_sync, &failure, sizeof failure, NULL, 0, NULL);
    _exit(125);
}
