#include "runtime/server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hook.h"
#include "base/own.h"
#include "ipc/channel.h"
#include "ipc/groups.h"
#include "proc/caps.h"
#include "proc/oom.h"
#include "runtime/build.h"
#include "runtime/launch.h"

/* What building needs; everything else root had is given up before the first request is read. */
static const uint64_t kept_caps =
    CAP_BIT(CAP_SYS_ADMIN) | CAP_BIT(CAP_SETUID) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETPCAP) |
    CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID) |
    CAP_BIT(CAP_MKNOD) | CAP_BIT(CAP_NET_ADMIN) | CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SYS_PTRACE) |
    CAP_BIT(CAP_SETFCAP) | CAP_BIT(CAP_SYS_CHROOT) | CAP_BIT(CAP_NET_BIND_SERVICE);

enum { SWEEP_EVERY = 16, TIDY_MS = 1000 };

struct sandbox {
    struct sandbox *next;
    char id[ID_MAX];
    pid_t pid;
    int pidfd;
    bool ephemeral;
    int assign;                  /* prepared, and without an owner: leads to PID 1; else -1 */
    struct cgroup_limits limits; /* that its groups will get */
};

struct server {
    int sock;
    const struct server_options *options;
    bool mute; /* an answer could not be sent: whoever waits for it must see us go */
    bool is_root;
    enum identity_supply supply;
    int init_fd, home_net;
    struct cgroup_host cgroups;
    struct sandbox *live;
    bool untidy; /* groups of owners may have become empty */
};

/* A descriptor is only worth what its sender may do, and O_PATH ones prove nothing: what root
 * builds from them is for root alone. An untrusted peer, to which our parent connected us, passes
 * no descriptors of files at all. */
static int check_peer(int sock, const struct server_options *o, struct err *e)
{
    struct ucred peer;
    socklen_t n = sizeof peer;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return err_sys(e, "asking who is at the other end");
    if (!o->untrusted && peer.uid != geteuid())
        return err_set(e, ERR_DENIED, "a launcher of user %u does not serve user %u", geteuid(),
                       peer.uid);
    return 0;
}

static int server_init(struct server *s, int sock, const struct server_options *o, struct err *e)
{
    int r;

    *s = (struct server){
        .sock = sock, .options = o, .is_root = geteuid() == 0, .init_fd = -1, .home_net = -1
    };
    cgroup_host_open(&s->cgroups, "/sys/fs/cgroup", o->tag);
    if (o->store)
        cgroup_host_disk(&s->cgroups, o->store);
    r = check_peer(sock, o, e);
    if (r < 0)
        return r;
    /* As root of the machine, before the right to do so is given up: a workload cannot go below. */
    (void)oom_set(OOM_LAUNCHER, NULL);
    if (!s->is_root)
        return identity_become_outer_root(&s->supply, e);
    s->home_net = openat(AT_FDCWD, "/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (s->home_net < 0)
        return err_sys(e, "opening /proc/self/ns/net");
    return caps_set(kept_caps, 0, e);
}

static void answer(struct server *s, const void *message, size_t n, const int *fds, size_t n_fds)
{
    hook_point("launch.answer");
    if (ipc_send(s->sock, message, n, fds, n_fds, NULL) < 0)
        s->mute = true;
    hook_point("launch.answer");
}

static void answer_failure(struct server *s, const char *id, const char *step,
                           const struct err *why)
{
    struct launch_failed m = { .err = *why };

    launch_fill(&m.head, LAUNCH_FAILED, sizeof m);
    snprintf(m.step, sizeof m.step, "%s", step);
    snprintf(m.id, sizeof m.id, "%s", id);
    answer(s, &m, sizeof m, NULL, 0);
}

static struct sandbox **find(struct server *s, const char *id)
{
    struct sandbox **at = &s->live;

    while (*at && strcmp((*at)->id, id) != 0)
        at = &(*at)->next;
    return at;
}

/* One descriptor a sandbox (a prepared one has two): every child that is made later begins with a
 * copy of our table. The control groups are found by name, and PID 1 itself holds the lock of its
 * ids. */
static void keep(struct server *s, struct build *b)
{
    struct sandbox *box = calloc(1, sizeof *box);

    if (!box)
        abort();
    memcpy(box->id, b->plan->id, sizeof box->id);
    box->pid = b->pid;
    box->pidfd = b->pidfd;
    box->ephemeral = b->plan->flags & PLAN_EPHEMERAL;
    box->assign = take_fd(&b->assign);
    box->limits = build_limits(b);
    box->next = s->live;
    s->live = box;
    cgroup_close(&b->cgroup);
    identity_done(&b->identity);
}

/* Moves what the plan's descriptors are to their places in the build. */
static void place_fds(struct build *b, struct ipc_fds *fds)
{
    const struct plan *p = b->plan;
    size_t at = 0;

    b->control = take_fd(&fds->fd[at++]);
    b->listener = p->flags & PLAN_LISTENER ? take_fd(&fds->fd[at++]) : -1;
    for (uint32_t i = 0; i < p->n_layers; i++)
        b->layers[i] = p->layers[i].root ? -1 : take_fd(&fds->fd[at++]);
    for (uint32_t i = 0; i < p->n_mounts; i++)
        b->mounts[i] = p->mounts[i].root ? -1 : take_fd(&fds->fd[at++]);
}

static void drop_fds(struct build *b)
{
    drop_fd(&b->control);
    drop_fd(&b->listener);
    for (uint32_t i = 0; i < b->plan->n_layers; i++)
        drop_fd(&b->layers[i]);
    for (uint32_t i = 0; i < b->plan->n_mounts; i++)
        drop_fd(&b->mounts[i]);
}

static int check_create(struct server *s, const struct launch_create *m, const struct ipc_fds *fds,
                        struct err *e)
{
    int r = plan_check(&m->plan, m->head.size - offsetof(struct launch_create, plan), e);

    if (r >= 0)
        r = plan_check_sources(&m->plan, s->options->n_roots, s->options->store,
                               !s->options->untrusted, e);
    if (r >= 0)
        r = plan_check_fds(&m->plan, fds->fd, fds->n, e);
    if (r >= 0 && !s->options->tag && (m->plan.owner.key[0] || m->plan.flags & PLAN_PREPARED))
        r = err_set(e, ERR_INVALID, "owners are known to launchers with a tag alone");
    if (r >= 0 && *find(s, m->plan.id))
        r = err_set(e, ERR_CONFLICT, "there is a sandbox %s already", m->plan.id);
    return r;
}

/* The plan's id, if that is one: so that a refusal finds whom it concerns. */
static const char *id_of(const struct plan *p)
{
    return memchr(p->id, '\0', sizeof p->id) && id_valid("sbx_", str_from(p->id)) ? p->id : "";
}

static void create(struct server *s, const void *message, struct ipc_fds *fds)
{
    const struct launch_create *m = message;
    struct build b = { .plan = &m->plan,
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
    int given[3], r = check_create(s, m, fds, &e);

    if (r >= 0) {
        place_fds(&b, fds);
        r = build_sandbox(&b, &e);
        drop_fds(&b);
    }
    if (r < 0) {
        answer_failure(s, id_of(&m->plan), b.step, &e);
        return;
    }
    given[1] = take_fd(&b.changes);
    given[2] = given[1] < 0 ? -1 : take_fd(&b.identity.userns);
    keep(s, &b);
    launch_fill(&done.head, LAUNCH_CREATED, sizeof done);
    done.pid = b.pid;
    done.unenforced = b.unenforced;
    snprintf(done.id, sizeof done.id, "%s", m->plan.id);
    given[0] = b.pidfd;
    answer(s, &done, sizeof done, given, given[1] < 0 ? 1 : 3);
    drop_fd(&given[1]);
    drop_fd(&given[2]);
    if (s->mute) /* whoever asked is gone and looks for it before it is there: it ends with us */
        s->live->ephemeral = true;
}

/* Killing PID 1 kills its whole pid namespace; once it is reaped, nothing of it runs. */
static void end_processes(const struct server *s, struct sandbox *box)
{
    kill(box->pid, SIGKILL);
    cgroup_kill(&s->cgroups, box->id);
    build_reap(box->pid, box->pidfd);
    drop_fd(&box->pidfd);
}

/* What we hold of it; a sandbox that stays does so without us. */
static void forget_sandbox(struct sandbox **at)
{
    struct sandbox *box = *at;

    drop_fd(&box->pidfd);
    drop_fd(&box->assign);
    *at = box->next;
    free(box);
}

static void destroy_sandbox(struct server *s, struct sandbox **at, struct launch_destroyed *report)
{
    struct sandbox *box = *at;
    struct cgroup_usage usage;

    end_processes(s, box);
    cgroup_read(&s->cgroups, box->id, &usage);
    report->oom_kills = usage.oom_kills;
    report->peak_bytes = usage.peak_bytes;
    report->leftover = (uint32_t)cgroup_remove(&s->cgroups, box->id);
    forget_sandbox(at);
}

/* A sandbox we never made, or whose launcher died: everything of it is found by its id. */
static void destroy_stranger(struct server *s, const char *id, struct launch_destroyed *report)
{
    cgroup_kill(&s->cgroups, id);
    report->leftover = (uint32_t)cgroup_remove(&s->cgroups, id);
}

static void destroy(struct server *s, const void *message, struct ipc_fds *fds)
{
    const struct launch_destroy *m = message;
    struct launch_destroyed done = { 0 };
    struct sandbox **at = find(s, m->id);
    struct err e;

    (void)fds;
    if (!id_valid("sbx_", str_from(m->id))) {
        (void)err_set(&e, ERR_INVALID, "not a sandbox id");
        answer_failure(s, "", "", &e);
        return;
    }
    if (*at)
        destroy_sandbox(s, at, &done);
    else
        destroy_stranger(s, m->id, &done);
    s->untidy = true;
    launch_fill(&done.head, LAUNCH_DESTROYED, sizeof done);
    snprintf(done.id, sizeof done.id, "%s", m->id);
    answer(s, &done, sizeof done, NULL, 0);
}

static void hold(struct server *s, const void *message, struct ipc_fds *fds)
{
    const struct launch_hold *m = message;
    struct launch_held done = { 0 };
    struct err e;
    int r = id_valid("sbx_", str_from(m->id))
                ? cgroup_freeze(&s->cgroups, m->id, m->head.type == LAUNCH_FREEZE, &e)
                : err_set(&e, ERR_INVALID, "not a sandbox id");

    (void)fds;
    if (r < 0) {
        answer_failure(s, id_valid("sbx_", str_from(m->id)) ? m->id : "", "", &e);
        return;
    }
    launch_fill(&done.head, LAUNCH_HELD, sizeof done);
    snprintf(done.id, sizeof done.id, "%s", m->id);
    answer(s, &done, sizeof done, NULL, 0);
}

/* PID 1 gets the groups on a socket that it alone reads: whoever has these descriptors can move any
 * process of the machine into the sandbox's groups. */
static int send_groups(const struct cgroup *c, int sock, struct err *e)
{
    const char *word = c->kills < 0 ? IPC_GROUPS : IPC_GROUPS_AND_KILLS;
    int fds[CGROUP_CONTROLLERS_ + 2];
    size_t n = 0;

    for (int i = 0; i < CGROUP_CONTROLLERS_; i++)
        if (c->tasks[i] >= 0)
            fds[n++] = c->tasks[i];
    if (c->procs >= 0)
        fds[n++] = c->procs;
    if (c->kills >= 0)
        fds[n++] = c->kills;
    return ipc_send(sock, word, strlen(word) + 1, fds, n, e);
}

static int assign_owner(struct server *s, const struct launch_assign *m, struct sandbox *box,
                        struct err *e)
{
    struct cgroup groups;
    int r;

    if (!box || box->assign < 0)
        return err_set(e, ERR_NOT_FOUND, "there is no prepared sandbox %s", m->id);
    if (!cgroup_owner_key_valid(m->owner.key, sizeof m->owner.key))
        return err_set(e, ERR_INVALID, "not the key of an owner");
    r = cgroup_assign(&s->cgroups, m->id, &m->owner, &box->limits, &groups, e);
    hook_point("assign.groups");
    if (r >= 0)
        r = send_groups(&groups, box->assign, e);
    hook_point("assign.sent");
    cgroup_close(&groups);
    return err_wrap(e, r, "assigning %s to its owner", m->id);
}

static void assign(struct server *s, const void *message, struct ipc_fds *fds)
{
    const struct launch_assign *m = message;
    const struct str id = { m->id, strnlen(m->id, sizeof m->id) };
    struct sandbox *box = id_valid("sbx_", id) ? *find(s, m->id) : NULL;
    struct launch_assigned done = { 0 };
    struct err e = { 0 };
    int r = assign_owner(s, m, box, &e);

    (void)fds;
    launch_fill(&done.head, LAUNCH_ASSIGNED, sizeof done);
    snprintf(done.id, sizeof done.id, "%s", m->id);
    if (r < 0)
        answer_failure(s, box ? m->id : "", "", &e);
    else
        answer(s, &done, sizeof done, NULL, 0);
    if (box)
        drop_fd(&box->assign); /* PID 1 ends unless it was sent its groups */
}

/* What may be asked. A message that is not here is refused before anything reads it. */
static const struct {
    void (*serve)(struct server *s, const void *message, struct ipc_fds *fds);
    bool takes_fds;
} requests[] = {
    [LAUNCH_CREATE] = { create, true },  [LAUNCH_DESTROY] = { destroy, false },
    [LAUNCH_FREEZE] = { hold, false },   [LAUNCH_THAW] = { hold, false },
    [LAUNCH_ASSIGN] = { assign, false },
};

static int serve_one(struct server *s, const void *message, size_t n, struct ipc_fds *fds,
                     struct err *e)
{
    const struct launch_head *h = message;
    int r = launch_check(message, n, e);

    if (r < 0)
        return r;
    if (h->type >= COUNT_OF(requests) || !requests[h->type].serve)
        return err_set(e, ERR_DENIED, "the launcher does not take messages of type %u", h->type);
    if (fds->n && !requests[h->type].takes_fds)
        return err_set(e, ERR_DENIED, "descriptors with a request that takes none");
    requests[h->type].serve(s, message, fds);
    return 0;
}

static void server_done(struct server *s)
{
    struct launch_destroyed unused;

    while (s->live) {
        if (s->live->ephemeral)
            destroy_sandbox(s, &s->live, &unused);
        else
            forget_sandbox(&s->live);
    }
    cgroup_tidy(&s->cgroups);
    if (getpid() % SWEEP_EVERY == 0) /* for us all: now and then is enough */
        cgroup_sweep(&s->cgroups);
    cgroup_host_done(&s->cgroups);
    drop_fd(&s->init_fd);
    drop_fd(&s->home_net);
}

/* An owner whose last sandbox is gone may come back in a moment; then its groups are still there.
 */
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
    while (r >= 0 && !s.mute) {
        struct ipc_fds fds = { .n = 0 };
        ssize_t n;

        await_request(&s);
        n = ipc_recv(sock, &message, sizeof message, &fds, &refused);

        if (n == 0 || n == -(int)ERR_SYS)
            break;
        hook_point("launch.request");
        if ((n < 0 ? (int)n : serve_one(&s, &message, (size_t)n, &fds, &refused)) < 0)
            answer_failure(&s, "", "", &refused);
        ipc_fds_done(&fds);
    }
    server_done(&s);
    return r;
}
