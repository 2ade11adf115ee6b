/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/own.h"
#include "lib/ipc/channel.h"
#include "lib/ipc/groups.h"
#include "lib/proc/caps.h"
#include "lib/proc/oom.h"
#include "lib/proc/sys.h"
#include "engine/runtime/build.h"
#include "engine/runtime/launch.h"
#include "engine/storage/share.h"

/* Capabilities for building; all others are dropped before the first request is read. */
static const uint64_t kept_caps =
    CAP_BIT(CAP_SYS_ADMIN) | CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETPCAP) |
    CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) |
    CAP_BIT(CAP_MKNOD) | CAP_BIT(CAP_NET_ADMIN) | CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SYS_PTRACE) |
    CAP_BIT(CAP_SETFCAP) | CAP_BIT(CAP_SYS_CHROOT) | CAP_BIT(CAP_NET_BIND_SERVICE);

enum { SWEEP_EVERY = 16, TIDY_MS = 1000 };

struct live_sandbox {
    struct live_sandbox *next;
    char id[ID_MAX];
    pid_t pid;
    int pidfd;
    bool ephemeral;
    int assign;                  /* socket to PID 1 of a prepared sandbox without an owner; else
                                    -1 */
    struct cgroup_limits limits; /* for its groups */
    uint64_t disk;               /* its limit */
};

struct server {
    int sock;
    const struct server_options *options;
    bool released; /* nothing more is asked of us */
    bool mute;     /* an answer could not be sent: its recipient must see us go */
    bool is_root;
    pid_t parent; /* the supervisor, for an untrusted peer */
    enum identity_supply supply;
    int init_fd, home_net;
    struct cgroup_host cgroups;
    struct live_sandbox *live;
    bool untidy; /* groups of owners may be empty now */
};

/* A descriptor does not prove the rights of its sender, above all with O_PATH: root accepts them
 * from root only. An untrusted peer, to which our parent connected us, may not pass descriptors of
 * files at all. */
static int check_launcher_peer(int sock, const struct server_options *o, struct err *e)
{
    struct ucred peer;
    socklen_t n = sizeof peer;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return err_sys(e, "reading the credentials of the peer");
    if (!o->untrusted && peer.uid != geteuid())
        return err_set(e, ERR_DENIED, "a launcher of user %u does not serve user %u", geteuid(),
                       peer.uid);
    return 0;
}

static int server_init(struct server *s, int sock, const struct server_options *o, struct err *e)
{
    int r;

    *s = (struct server){ .sock = sock,
                          .options = o,
                          .is_root = geteuid() == 0,
                          .parent = getppid(),
                          .init_fd = -1,
                          .home_net = -1 };
    cgroup_host_open(&s->cgroups, "/sys/fs/cgroup", o->tag);
    if (o->store)
        cgroup_host_disk(&s->cgroups, o->store);
    r = check_launcher_peer(sock, o, e);
    if (r < 0)
        return r;
    /* As the machine's root, before CAP_SYS_RESOURCE is dropped: workloads cannot choose lower
     * values. */
    (void)oom_set(OOM_LAUNCHER, NULL);
    if (!s->is_root)
        return identity_become_outer_root(&s->supply, e);
    s->home_net = openat(AT_FDCWD, "/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (s->home_net < 0)
        return err_sys(e, "opening /proc/self/ns/net");
    return caps_set(kept_caps, 0, e);
}

static void send_launch_answer(struct server *s, const void *message, size_t n, const int *fds,
                               size_t n_fds)
{
    fault_point("launch.answer");
    if (ipc_send(s->sock, message, n, fds, n_fds, NULL) < 0)
        s->mute = true;
    fault_point("launch.answer");
}

static void answer_failure(struct server *s, const char *id, const char *step,
                           const struct err *why)
{
    struct launch_failed m = { .err = *why };

    launch_fill(&m.head, LAUNCH_FAILED, sizeof m);
    snprintf(m.step, sizeof m.step, "%s", step);
    snprintf(m.id, sizeof m.id, "%s", id);
    send_launch_answer(s, &m, sizeof m, NULL, 0);
}

static void answer_named(struct server *s, enum launch_type type, const char *id)
{
    struct launch_named m = { 0 };

    launch_fill(&m.head, type, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    send_launch_answer(s, &m, sizeof m, NULL, 0);
}

static struct live_sandbox **find_live(struct server *s, const char *id)
{
    struct live_sandbox **at = &s->live;

    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

/* Keeps one descriptor per sandbox (two for a prepared one): every later child begins with a copy
 * of our table. Control groups are found by name, and PID 1 itself holds the lock of its ids. */
static void keep_live_sandbox(struct server *s, struct sandbox_build *b)
{
    struct live_sandbox *box = new0(sizeof *box);

    memcpy(box->id, b->plan->id, sizeof box->id);
    box->pid = b->pid;
    box->pidfd = b->pidfd;
    box->ephemeral = b->plan->flags & PLAN_EPHEMERAL;
    box->assign = take_fd(&b->assign);
    box->limits = build_limits(b);
    box->disk = b->plan->disk;
    box->next = s->live;
    s->live = box;
    cgroup_close(&b->cgroup);
    identity_done(&b->identity);
}

/* Takes the files of granted mounts from their socket. */
static int take_granted(const struct server *s, struct sandbox_build *b, int sock, struct err *e)
{
    uint32_t at = 0;
    int r = granted_receive(sock, s->options->untrusted ? s->parent : 0, &b->granted, e);

    if (r >= 0)
        r = granted_check(&b->granted, b->plan, e);
    for (uint32_t i = 0; i < b->plan->n_mounts && r >= 0; i++)
        if (b->plan->mounts[i].root == PLAN_GRANT)
            b->mounts[i] = take_fd(&b->granted.fd[at++]);
    return r;
}

/* Moves the plan's descriptors to their places in the build. */
static int place_plan_fds(const struct server *s, struct sandbox_build *b, struct ipc_fds *fds,
                          struct err *e)
{
    const struct plan *p = b->plan;
    size_t at = 0;

    b->control = take_fd(&fds->fd[at++]);
    b->listener = p->flags & PLAN_LISTENER ? take_fd(&fds->fd[at++]) : -1;
    for (uint32_t i = 0; i < p->n_layers; i++)
        b->layers[i] = p->layers[i].root ? -1 : take_fd(&fds->fd[at++]);
    for (uint32_t i = 0; i < p->n_mounts; i++)
        b->mounts[i] = p->mounts[i].root ? -1 : take_fd(&fds->fd[at++]);
    return p->flags & PLAN_GRANTED ? take_granted(s, b, fds->fd[at], e) : 0;
}

static void close_plan_fds(struct sandbox_build *b)
{
    drop_fd(&b->control);
    drop_fd(&b->listener);
    for (uint32_t i = 0; i < b->plan->n_layers; i++)
        drop_fd(&b->layers[i]);
    for (uint32_t i = 0; i < b->plan->n_mounts; i++)
        drop_fd(&b->mounts[i]);
    granted_done(&b->granted);
}

static int check_launch_request(struct server *s, const struct launch_create *m,
                                const struct ipc_fds *fds, struct err *e)
{
    int r = plan_check(&m->plan, m->head.size - offsetof(struct launch_create, plan), e);

    if (r >= 0)
        r = plan_check_sources(&m->plan, s->options->n_roots, s->options->store,
                               !s->options->untrusted, e);
    if (r >= 0)
        r = plan_check_fds(&m->plan, fds->fd, fds->n, e);
    if (r >= 0 && !s->options->tag && (m->plan.owner.key[0] || m->plan.flags & PLAN_PREPARED))
        r = err_set(e, ERR_INVALID, "owners and prepared sandboxes need a launcher with a tag");
    if (r >= 0 && *find_live(s, m->plan.id))
        r = err_set(e, ERR_CONFLICT, "sandbox %s already exists", m->plan.id);
    return r;
}

static void serve_create(struct server *s, const void *message, struct ipc_fds *fds)
{
    const struct launch_create *m = message;
    struct sandbox_build b = { .plan = &m->plan,
                               .roots = s->options->roots,
                               .store = s->options->store,
                               .driver = s->options->driver,
                               .limited = s->options->limited,
                               .is_root = s->is_root,
                               .supply = s->supply,
                               .init_fd = &s->init_fd,
                               .home_net = s->home_net,
                               .cgroups = &s->cgroups };
    struct launch_created done = { 0 };
    struct err e = { 0 };
    int given[3], r = check_launch_request(s, m, fds, &e);

    if (r >= 0) {
        r = place_plan_fds(s, &b, fds, &e);
        if (r >= 0)
            r = build_sandbox(&b, &e);
        close_plan_fds(&b);
    }
    if (r < 0) {
        /* with the id, if it is valid, so that a refusal can name the sandbox */
        bool named =
            memchr(m->plan.id, '\0', sizeof m->plan.id) && id_valid("sbx_", str_from(m->plan.id));

        answer_failure(s, named ? m->plan.id : "", b.step, &e);
        return;
    }
    given[1] = take_fd(&b.changes);
    given[2] = given[1] < 0 ? -1 : take_fd(&b.identity.userns);
    keep_live_sandbox(s, &b);
    launch_fill(&done.head, LAUNCH_CREATED, sizeof done);
    done.pid = b.pid;
    done.unenforced = b.unenforced;
    snprintf(done.id, sizeof done.id, "%s", m->plan.id);
    given[0] = b.pidfd;
    send_launch_answer(s, &done, sizeof done, given, given[1] < 0 ? 1 : 3);
    drop_fd(&given[1]);
    drop_fd(&given[2]);
    if (s->mute) /* the peer has gone before it learned of this sandbox: it ends with us */
        s->live->ephemeral = true;
}

/* Forgets a sandbox, which may keep running. */
static void forget_sandbox(struct live_sandbox **at)
{
    struct live_sandbox *box = *at;

    drop_fd(&box->pidfd);
    drop_fd(&box->assign);
    *at = box->next;
    free(box);
}

static void destroy_live_sandbox(struct server *s, struct live_sandbox **at,
                                 struct launch_destroyed *report)
{
    struct live_sandbox *box = *at;
    struct cgroup_usage usage;

    /* Killing PID 1 kills its whole pid namespace; after it was reaped, no process is left. */
    kill(box->pid, SIGKILL);
    cgroup_kill(&s->cgroups, box->id);
    build_reap(box->pid, box->pidfd);
    drop_fd(&box->pidfd);
    cgroup_read(&s->cgroups, box->id, &usage);
    report->oom_kills = usage.oom_kills;
    report->peak_bytes = usage.peak_bytes;
    report->leftover = (uint32_t)cgroup_remove(&s->cgroups, box->id);
    forget_sandbox(at);
}

static void serve_destroy(struct server *s, const void *message, struct ipc_fds *fds)
{
    const struct launch_named *m = message;
    struct launch_destroyed done = { 0 };
    struct live_sandbox **at = find_live(s, m->id);
    struct err e;

    if (!id_valid("sbx_", str_from(m->id))) {
        (void)err_set(&e, ERR_INVALID, "invalid sandbox id");
        answer_failure(s, "", "", &e);
        return;
    }
    if (*at) {
        destroy_live_sandbox(s, at, &done);
    } else { /* of another or dead launcher: its groups are found by its id */
        cgroup_kill(&s->cgroups, m->id);
        done.leftover = (uint32_t)cgroup_remove(&s->cgroups, m->id);
    }
    s->untidy = true;
    launch_fill(&done.head, LAUNCH_DESTROYED, sizeof done);
    snprintf(done.id, sizeof done.id, "%s", m->id);
    send_launch_answer(s, &done, sizeof done, NULL, 0);
}

static void serve_hold(struct server *s, const void *message, struct ipc_fds *fds)
{
    const struct launch_named *m = message;
    bool valid = id_valid("sbx_", str_from(m->id));
    struct err e;
    int r = valid ? cgroup_freeze(&s->cgroups, m->id, m->head.type == LAUNCH_FREEZE, &e)
                  : err_set(&e, ERR_INVALID, "invalid sandbox id");

    if (r < 0)
        answer_failure(s, valid ? m->id : "", "", &e);
    else
        answer_named(s, LAUNCH_HELD, m->id);
}

/* Sends the groups to PID 1 on a socket that only PID 1 reads: these descriptors allow moving any
 * process of the machine into the sandbox's groups. */
static int send_groups(const struct cgroup *c, int sock, struct err *e)
{
    char word[sizeof IPC_GROUPS + 3] = IPC_GROUPS " ";
    int fds[CGROUP_CONTROLLERS_ + 3];
    size_t n = 0, letters = strlen(word);

    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        if (c->tasks[i] >= 0)
            fds[n++] = c->tasks[i];
    if (c->procs >= 0)
        fds[n++] = c->procs;
    if (c->kills >= 0) {
        word[letters++] = IPC_GROUPS_KILLS;
        fds[n++] = c->kills;
    }
    if (c->cpu >= 0) {
        word[letters++] = IPC_GROUPS_CPU;
        fds[n++] = c->cpu;
    }
    return ipc_send(sock, word, strlen(word) + 1, fds, n, e);
}

/* Nothing of the workload has run. */
static int charge_box(const struct server *s, const struct launch_assign *m,
                      const struct live_sandbox *live, struct err *e)
{
    const struct share_charge charge = { m->owner.key, live->disk, false };
    const struct driver *d = s->options->driver;
    AUTO_CLOSE int store = -1, box = -1;
    char path[sizeof STORAGE_BOXES + ID_MAX];

    if (!m->owner.disk || !s->options->limited || !s->options->store || !d || !d->charge)
        return 0;
    snprintf(path, sizeof path, "%s/%s", STORAGE_BOXES, live->id);
    store = open(s->options->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    box = store < 0 ? -1
                    : sys_openat2(store, path, O_RDONLY | O_DIRECTORY, 0,
                                  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    return box < 0 ? err_sys(e, "opening %s", path) : d->charge(store, box, &charge, e);
}

static int assign_owner(struct server *s, const struct launch_assign *m, struct live_sandbox *box,
                        struct err *e)
{
    struct cgroup groups;
    int r;

    if (!box || box->assign < 0)
        return err_set(e, ERR_NOT_FOUND, "there is no prepared sandbox %s", m->id);
    if (!cgroup_owner_key_valid(m->owner.key, sizeof m->owner.key))
        return err_set(e, ERR_INVALID, "invalid owner key");
    cgroup_init(&groups);
    r = charge_box(s, m, box, e);
    fault_point("assign.charged");
    if (r >= 0)
        r = cgroup_assign(&s->cgroups, m->id, &m->owner, &box->limits, &groups, e);
    fault_point("assign.groups");
    if (r >= 0)
        r = send_groups(&groups, box->assign, e);
    fault_point("assign.sent");
    cgroup_close(&groups);
    return err_wrap(e, r, "assigning %s to its owner", m->id);
}

static void serve_assign(struct server *s, const void *message, struct ipc_fds *fds)
{
    const struct launch_assign *m = message;
    const struct str id = { m->id, strnlen(m->id, sizeof m->id) };
    struct live_sandbox *box = id_valid("sbx_", id) ? *find_live(s, m->id) : NULL;
    struct err e = { 0 };
    int r = assign_owner(s, m, box, &e);

    if (r < 0)
        answer_failure(s, box ? m->id : "", "", &e);
    else
        answer_named(s, LAUNCH_ASSIGNED, m->id);
    if (box)
        drop_fd(&box->assign); /* PID 1 exits unless it received its groups */
    if (box && r < 0 &&
        s->mute) /* its daemon is gone, and the next one may have searched already */
        box->ephemeral = true;
}

static void serve_release(struct server *s, const void *message, struct ipc_fds *fds)
{
    struct launch_release done;

    s->released = true;
    launch_fill(&done.head, LAUNCH_RELEASED, sizeof done);
    send_launch_answer(s, &done, sizeof done, NULL, 0);
}

/* The requests. Other messages are refused before they are parsed. */
static const struct {
    void (*serve)(struct server *s, const void *message, struct ipc_fds *fds);
    bool takes_fds;
} requests[] = {
    [LAUNCH_CREATE] = { serve_create, true },  [LAUNCH_DESTROY] = { serve_destroy, false },
    [LAUNCH_FREEZE] = { serve_hold, false },   [LAUNCH_THAW] = { serve_hold, false },
    [LAUNCH_ASSIGN] = { serve_assign, false }, [LAUNCH_RELEASE] = { serve_release, false },
};

static int serve_request_message(struct server *s, const void *message, size_t n,
                                 struct ipc_fds *fds, struct err *e)
{
    const struct launch_head *h = message;
    int r = launch_check(message, n, e);

    if (r < 0)
        return r;
    if (h->type >= COUNT_OF(requests) || !requests[h->type].serve)
        return err_set(e, ERR_DENIED, "the launcher does not accept messages of type %u", h->type);
    if (fds->n && !requests[h->type].takes_fds)
        return err_set(e, ERR_DENIED, "the request has descriptors, but takes none");
    requests[h->type].serve(s, message, fds);
    return 0;
}

static void server_done(struct server *s)
{
    struct launch_destroyed unused;

    while (s->live) {
        if (!s->live->ephemeral) {
            forget_sandbox(&s->live);
            continue;
        }
        /* The caller may be gone: nothing of its own is kept open by us any longer. */
        (void)dup2(STDIN_FILENO, STDERR_FILENO); /* /dev/null */
        (void)chdir("/");
        destroy_live_sandbox(s, &s->live, &unused);
    }
    cgroup_tidy(&s->cgroups);
    if (getpid() % SWEEP_EVERY == 0) /* for all launchers: occasionally is enough */
        cgroup_sweep(&s->cgroups);
    cgroup_host_done(&s->cgroups);
    drop_fd(&s->init_fd);
    drop_fd(&s->home_net);
}

/* Delays the removal of empty groups: the owner may create a sandbox again soon. */
static void await_request(struct server *s)
{
    struct pollfd in = { .fd = s->sock, .events = POLLIN };

    if (!s->untidy || poll(&in, 1, TIDY_MS) != 0)
        return;
    s->untidy = false;
    cgroup_tidy(&s->cgroups);
}

int server_run(int sock, const struct server_options *o, struct err *e)
{
    static union {
        struct launch_create largest;
        char bytes[sizeof(struct launch_create) + 1];
    } message;
    struct server s;
    struct err refused;
    int r = server_init(&s, sock, o, e);

    if (r < 0)
        answer_failure(&s, "", "launcher", e ? e : &(struct err){ .code = ERR_SYS });
    while (r >= 0 && !s.mute && !s.released) {
        struct ipc_fds fds = { .n = 0 };
        ssize_t n;

        await_request(&s);
        n = ipc_recv(sock, &message, sizeof message, &fds, &refused);

        if (n == 0 || n == -(int)ERR_SYS)
            break;
        fault_point("launch.request");
        if ((n < 0 ? (int)n : serve_request_message(&s, &message, (size_t)n, &fds, &refused)) < 0)
            answer_failure(&s, "", "", &refused);
        ipc_fds_done(&fds);
    }
    server_done(&s);
    return r;
}
