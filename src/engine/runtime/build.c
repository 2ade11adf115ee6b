/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/build.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/ipc/channel.h"
#include "lib/proc/sys.h"
#include "engine/runtime/network.h"
#include "engine/runtime/rules.h"

/* Building takes milliseconds; these are timeouts for a build or a death that hangs. */
enum { BUILD_MS = 30000, REAP_MS = 10000 };

/* A test can make a step fail, or the process die there, by name; this only causes errors. */
static bool is_test_step(const char *variable, const char *step)
{
    const char *name = SANDBOXER_TEST_HOOKS ? getenv(variable) : NULL;

    return name && strcmp(name, step) == 0;
}

int build_run(struct sandbox_build *b, const struct sandbox_build_step *steps, size_t n,
              struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        int r;

        snprintf(b->step, sizeof b->step, "%s", steps[i].name);
        if (is_test_step("SANDBOXER_TEST_DIE_STEP", steps[i].name)) {
            if (getpid() != 1) /* the first process of a pid namespace ignores its own signals */
                raise(SIGKILL);
            _exit(128 + SIGKILL);
        }
        r = is_test_step("SANDBOXER_TEST_FAIL_STEP", steps[i].name)
                ? err_set(e, ERR_BUSY, "failure injected by a test")
                : steps[i].run(b, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Sends one of the two messages that the child waits for; `what` identifies the descriptors. */
static int send_child_fds(const struct sandbox_build *b, int what, const int *fds, size_t n,
                          struct err *e)
{
    struct err go = { .code = ERR_OK, .sys = what };
    int r = ipc_send(b->launcher_sync, &go, sizeof go, fds, n, e);

    return r == -(int)ERR_UPSTREAM ? 0 : r; /* the child failed: its message is read at the end */
}

static int open_launcher_sources(struct sandbox_build *b, struct err *e)
{
    return b->is_root ? build_sources(b, false, e) : 0; /* the child of a plain user does it
                                                           itself */
}

static int take_identity(struct sandbox_build *b, struct err *e)
{
    return identity_take(b->supply, &b->identity, e);
}

/* A client that is not root has its own rights alone inside: its files are those of the sandbox's
 * default user, and files of other owners have none. Root's mounts are mapped like those of 'run'. */
static int map_granter(struct sandbox_build *b, struct err *e)
{
    const uint32_t disk[2] = { b->granted.uid, b->granted.gid },
                   inside[2] = { b->plan->uid, b->plan->gid };

    if (!(b->plan->flags & PLAN_GRANTED) || !b->is_root || b->granted.uid == 0)
        return 0;
    return identity_map_client(&b->identity, disk, inside, &b->granter, e);
}

/* The child runs already: it needs the namespace only when it maps owners. */
static int map_identity(struct sandbox_build *b, struct err *e)
{
    struct identity_want want = { b->plan->uid, b->plan->gid, b->plan->pids };
    int fds[2], r = identity_map(b->supply, &want, &b->identity, e);

    if (r >= 0)
        r = map_granter(b, e);
    fds[0] = b->identity.userns;
    fds[1] = b->granter;
    return r < 0 ? r : send_child_fds(b, 0, fds, b->granter < 0 ? 1 : 2, e);
}

static int refuse_missing(const struct sandbox_build *b, struct err *e)
{
    return err_set(e, ERR_UNSUPPORTED, "limits that cannot be enforced on this machine:%s%s%s%s%s",
                   b->unenforced & LAUNCH_NO_MEMORY ? " memory" : "",
                   b->unenforced & LAUNCH_NO_PIDS ? " pids" : "",
                   b->unenforced & LAUNCH_NO_CPU ? " cpu" : "",
                   b->unenforced & LAUNCH_NO_DISK ? " disk" : "",
                   b->is_root ? "" : " (no cgroup is delegated to this user)");
}

/* The plan's owner; NULL: none. */
static const struct cgroup_owner *plan_owner(const struct sandbox_build *b)
{
    return b->plan->owner.key[0] ? &b->plan->owner : NULL;
}

static bool is_prepared_build(const struct sandbox_build *b)
{
    return b->plan->flags & PLAN_PREPARED;
}

static int make_group(struct sandbox_build *b, struct err *e)
{
    return is_prepared_build(b)
               ? cgroup_make_prepared(b->cgroups, b->plan->id, &b->cgroup, e)
               : cgroup_make(b->cgroups, b->plan->id, plan_owner(b), &b->cgroup, e);
}

struct cgroup_limits build_limits(const struct sandbox_build *b)
{
    return (struct cgroup_limits){ .memory = b->plan->memory,
                                   .tmpfs = build_on_disk(b) ? 0 : build_tmpfs_size(b),
                                   .pids = b->plan->pids,
                                   .cpu_milli = b->plan->cpu_milli };
}

static int set_group_limits(struct sandbox_build *b, struct err *e)
{
    struct cgroup_limits limits = build_limits(b);
    unsigned missing;
    int r = is_prepared_build(b)
                ? cgroup_limit_prepared(b->cgroups, b->plan->id, &limits, &b->cgroup, &missing, e)
                : cgroup_limit(b->cgroups, b->plan->id, plan_owner(b), &limits, &b->cgroup,
                               &missing, e);

    if (r < 0)
        return r;
    /* Both enums have the same bits. A plain user's process limit needs no cgroup: its user
     * namespace has one. */
    b->unenforced = b->is_root ? missing : missing & ~(1u << CGROUP_PIDS);
    if (b->plan->disk && build_on_disk(b) && !b->limited)
        b->unenforced |= LAUNCH_NO_DISK;
    return b->unenforced && (b->plan->flags & PLAN_STRICT) ? refuse_missing(b, e) : 0;
}

/* Only PID 1 has the other end, so only it gets the descriptors that are sent. */
static int make_assign_socket(struct sandbox_build *b, struct err *e)
{
    int pair[2], r = is_prepared_build(b) ? ipc_pair(pair, e) : 0;

    if (r < 0 || !is_prepared_build(b))
        return r;
    b->assign = pair[0];
    b->groups = pair[1];
    return 0;
}

static int start_child(struct sandbox_build *b, struct err *e)
{
    struct clone_args args = { .flags = (uint64_t)(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
                                                   CLONE_NEWUTS | CLONE_PIDFD),
                               .pidfd = (uint64_t)(uintptr_t)&b->pidfd,
                               .exit_signal = SIGCHLD };
    int sync[2], r = make_assign_socket(b, e);

    if (r >= 0)
        r = ipc_pair(sync, e);
    if (r < 0)
        return r;
    b->launcher_sync = sync[0];
    b->child_sync = sync[1];
    if (b->cgroup.unified >= 0) {
        args.flags |= (uint64_t)CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)b->cgroup.unified;
    }
    b->pid = sys_clone3(&args);
    if (b->pid < 0) {
        b->pid = 0;
        return err_sys(e, "creating the sandbox's first process");
    }
    if (b->pid == 0) {
        drop_fd(&b->launcher_sync);
        drop_fd(&b->assign);
        build_child(b);
    }
    drop_fd(&b->child_sync);
    drop_fd(&b->groups);
    return 0;
}

/* Makes a sealed memfd of PID 1's program for the first sandbox: it can be executed in any root
 * file system and cannot be modified. */
static int seal_program(struct sandbox_build *b, struct err *e)
{
    return *b->init_fd >= 0 ? 0 : program_seal("sandboxer-init", b->init_fd, e);
}

static int make_network(struct sandbox_build *b, struct err *e)
{
    return network_make(b->home_net, &b->network, e);
}

/* Calls `run` inside the new network namespace, if the sandbox has a network boundary. */
static int inside_network(struct sandbox_build *b,
                          int (*run)(struct sandbox_build *b, struct err *e), struct err *e)
{
    int r, home;

    if (!(b->plan->flags & PLAN_EGRESS))
        return 0;
    r = network_enter(b->home_net, b->network, e);
    if (r < 0)
        return r;
    r = run(b, e);
    home = network_leave(b->home_net, r < 0 ? NULL : e);
    return r < 0 ? r : home;
}

static int route_inside(struct sandbox_build *b, struct err *e)
{
    return network_route(e);
}

static int add_routes(struct sandbox_build *b, struct err *e)
{
    return inside_network(b, route_inside, e);
}

static int load_rules_inside(struct sandbox_build *b, struct err *e)
{
    return rules_load(&b->plan->taken, e);
}

static int load_rules(struct sandbox_build *b, struct err *e)
{
    return inside_network(b, load_rules_inside, e);
}

static int listen_inside(struct sandbox_build *b, struct err *e)
{
    return listen_open(&b->listeners, e);
}

static int open_listeners(struct sandbox_build *b, struct err *e)
{
    return inside_network(b, listen_inside, e);
}

/* Sends the launcher's results to the child: the network namespace, the cgroups to join, the
 * listeners, and the counters of OOM kills and processor time, with a bit for each of these. */
static int release_child(struct sandbox_build *b, struct err *e)
{
    int fds[2 + CGROUP_CONTROLLERS_ + LISTENER_COUNT_ + 2] = { b->network, *b->init_fd }, what = 0;
    uint32_t slots;
    size_t n = 2;

    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        if (b->cgroup.tasks[i] >= 0) {
            what |= 1 << i;
            fds[n++] = b->cgroup.tasks[i];
        }
    n += listeners_pack(&b->listeners, fds + n, &slots);
    what |= (int)slots << CGROUP_CONTROLLERS_;
    if (b->cgroup.kills >= 0) {
        what |= 1 << (CGROUP_CONTROLLERS_ + LISTENER_COUNT_);
        fds[n++] = b->cgroup.kills;
    }
    if (b->cgroup.cpu >= 0) {
        what |= 1 << (CGROUP_CONTROLLERS_ + LISTENER_COUNT_ + 1);
        fds[n++] = b->cgroup.cpu;
    }
    return send_child_fds(b, what, fds, n, e);
}

static bool waits_longer_than(int fd, int ms)
{
    struct pollfd in = { .fd = fd, .events = POLLIN };
    int64_t end = clock_mono() + ms * NS_PER_MS;
    int r;

    do
        r = poll(&in, 1, clock_poll_ms(end));
    while (r < 0 && errno == EINTR);
    return r == 0;
}

/* Reads a message of the child, or the writable layer: 1, 0 at the end of file. */
static int read_child_word(struct sandbox_build *b, struct build_failure *ret, bool *ret_is_layer,
                           struct err *e)
{
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    ssize_t n = ipc_recv(b->launcher_sync, ret, sizeof *ret, &fds, e);

    *ret_is_layer = fds.n > 0;
    if (fds.n && b->changes < 0)
        b->changes = take_fd(&fds.fd[0]);
    return n < 0 ? (int)n : n == (ssize_t)sizeof *ret;
}

/* Waits for the child's next message: 1, 0 at the end of file. */
static int receive_child_word(struct sandbox_build *b, struct build_failure *ret,
                              bool *ret_is_layer, struct err *e)
{
    if (waits_longer_than(b->launcher_sync, BUILD_MS))
        return err_set(e, ERR_TIMEOUT,
                       "the sandbox's file system is not ready after %d s: does one of its mounts "
                       "hang?",
                       BUILD_MS / 1000);
    return read_child_word(b, ret, ret_is_layer, e);
}

/* Takes over the child's failed step and error. */
static int take_child_failure(struct sandbox_build *b, const struct build_failure *f, struct err *e)
{
    memcpy(b->step, f->step, sizeof b->step);
    if (e)
        *e = f->err;
    return -(int)f->err.code;
}

static int await_child(struct sandbox_build *b, struct err *e)
{
    struct build_failure reply;
    siginfo_t info = { 0 };
    bool ready = false, is_layer;
    int r;

    while ((r = receive_child_word(b, &reply, &is_layer, e)) > 0 && reply.err.code == ERR_OK)
        ready = ready || !is_layer;
    if (r != 0)
        return r < 0 ? r : take_child_failure(b, &reply, e);
    if (!ready)
        return err_set(e, ERR_UPSTREAM, "the sandbox's first process was killed");
    /* Status 0 is a regular end: a short run may be finished already. */
    if (waitid(P_PIDFD, (id_t)b->pidfd, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid &&
        (info.si_code != CLD_EXITED || info.si_status != 0))
        return err_set(e, ERR_UPSTREAM, "the sandbox's first process died with %s %d",
                       info.si_code == CLD_EXITED ? "status" : "signal", info.si_status);
    return 0;
}

/* Steps before "clone" delay the child; the others run in parallel with it. */
static const struct sandbox_build_step launcher_steps[] = {
    { "open", open_launcher_sources }, { "ids", take_identity },
    { "group", make_group },           { "clone", start_child },
    { "identity", map_identity },      { "limits", set_group_limits },
    { "program", seal_program },       { "namespace", make_network },
    { "routes", add_routes },          { "rules", load_rules },
    { "listeners", open_listeners },   { "release", release_child },
    { "await", await_child },
};

const char *build_step_name(size_t i)
{
    if (i < COUNT_OF(launcher_steps))
        return launcher_steps[i].name;
    i -= COUNT_OF(launcher_steps);
    return i < build_child_step_count ? build_child_steps[i].name : NULL;
}

/* A step of the launcher may fail because the child failed first: then the child's error is the
 * cause. */
static void prefer_childs_reason(struct sandbox_build *b, struct err *e)
{
    struct build_failure failure;
    bool is_layer;
    int flags = b->launcher_sync < 0 ? -1 : fcntl(b->launcher_sync, F_GETFL);

    if (flags < 0 || fcntl(b->launcher_sync, F_SETFL, flags | O_NONBLOCK) < 0)
        return;
    while (read_child_word(b, &failure, &is_layer, NULL) > 0)
        if (failure.err.code != ERR_OK)
            (void)take_child_failure(b, &failure, e);
}

void build_reap(pid_t pid, int pidfd)
{
    if (!waits_longer_than(pidfd, REAP_MS))
        waitpid(pid, NULL, 0);
}

static void undo_build(struct sandbox_build *b, struct err *e)
{
    prefer_childs_reason(b, e);
    if (b->pid > 0) {
        kill(b->pid, SIGKILL);
        build_reap(b->pid, b->pidfd);
    }
    drop_fd(&b->pidfd);
    drop_fd(&b->changes);
    drop_fd(&b->assign);
    if (b->cgroup.made)
        cgroup_remove(b->cgroups, b->plan->id);
    cgroup_close(&b->cgroup);
    identity_done(&b->identity);
}

int build_sandbox(struct sandbox_build *b, struct err *e)
{
    int r;

    b->identity = (struct sandbox_identity){ .range_lock = -1, .userns = -1 };
    cgroup_init(&b->cgroup);
    b->groups = b->assign = -1;
    b->network = b->child_sync = b->launcher_sync = b->pidfd = b->changes = b->granter = -1;
    listeners_init(&b->listeners);
    for (size_t i = 0; i < BUILD_HOST_VIEWS; i++)
        b->host_views[i] = BUILD_VIEW_UNKNOWN;
    b->storage = b->box = b->sys = b->root = b->upper = -1;
    memset(b->counters, -1, sizeof b->counters);
    r = build_run(b, launcher_steps, COUNT_OF(launcher_steps), e);
    if (r < 0)
        undo_build(b, e);
    drop_fd(&b->child_sync);
    drop_fd(&b->groups);
    drop_fd(&b->launcher_sync);
    drop_fd(&b->network);
    drop_fd(&b->granter);
    listeners_done(&b->listeners);
    return r;
}
