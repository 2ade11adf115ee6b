/* SPDX-License-Identifier: Apache-2.0 */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lib/proc/spawn.h"

enum { OUTPUT_MAX = 64 << 20, IDS_MAX = 64 };

struct heard {
    struct heard *next;
    struct ipc_fds fds;
    union supervisor_message m;
};

/* Every id of this test, for the search of leftovers. */
static char ids[IDS_MAX][ID_MAX];
static size_t n_ids;

/* who we are, and what may be left of us */

bool box_is_root(void)
{
    return geteuid() == 0;
}

static void become_plain(void)
{
    if (geteuid() != 0)
        return;
    CHECK(setgroups(0, NULL) == 0);
    CHECK(setresgid(BOX_PLAIN_ID, BOX_PLAIN_ID, BOX_PLAIN_ID) == 0);
    CHECK(setresuid(BOX_PLAIN_ID, BOX_PLAIN_ID, BOX_PLAIN_ID) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0); /* our own /proc entry is ours again */
}

int count_descriptors(pid_t pid)
{
    char path[64];
    struct stat st;
    int n = 0;

    for (int fd = 0; fd < 4096; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        n += lstat(path, &st) == 0;
    }
    return n;
}

void box_expect_gone(const char *id)
{
    static const char *const trees[] = { "unified", "memory", "pids", "cpu" };
    static const char *const places[] = { "sandboxer-*", "sandboxer-*/", "sandboxer-*/*/" };

    for (size_t i = 0; i < COUNT_OF(trees) * COUNT_OF(places); i++) {
        char path[160];
        glob_t found = { 0 };

        snprintf(path, sizeof path, "/sys/fs/cgroup/%s/%s%s", trees[i / COUNT_OF(places)],
                 places[i % COUNT_OF(places)], id);
        if (glob(path, GLOB_NOSORT, NULL, &found) == 0)
            FAIL("%s is left", found.gl_pathv[0]);
        globfree(&found);
    }
}

static void expect_no_children(void)
{
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG);

    if (pid >= 0)
        FAIL("process %d is left, %s", (int)pid, pid == 0 ? "and runs" : "not waited for");
    CHECK_INT(errno, ECHILD);
}

void box_test_(void (*body)(void), bool as_root)
{
    int before;

    if (as_root && geteuid() != 0)
        SKIP("only root can test what root gets");
    if (!as_root)
        become_plain();
    signal(SIGPIPE, SIG_IGN);
    /* Whatever the launcher loses becomes a child of ours and is found. */
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    before = count_descriptors(getpid());
    body();
    expect_no_children();
    CHECK_INT(count_descriptors(getpid()), before);
    for (size_t i = 0; i < n_ids; i++)
        box_expect_gone(ids[i]);
}

void box_reap_orphans(void)
{
    int64_t end = clock_mono() + BOX_WAIT_MS * NS_PER_MS;

    while (waitpid(-1, NULL, WNOHANG) >= 0) {
        if (clock_mono() > end)
            FAIL("what a launcher has left does not end");
        poll(NULL, 0, 2);
    }
}

/* building */

static void new_plan(struct box *b)
{
    struct err e;

    CHECK_OK(plan_init(&b->plan, &e), e);
    CHECK(n_ids < IDS_MAX);
    memcpy(ids[n_ids++], b->plan.id, ID_MAX);
    b->plan.flags = PLAN_EPHEMERAL;
    b->plan.pids = BOX_PIDS;
    b->plan.disk = 256 << 20;
    b->control = b->pidfd = -1;
}

static void mount_inside(struct box *b)
{
    char path[4096];
    struct err e;

    CHECK_OK(spawn_find("sandbox/inside", path, sizeof path, &e), e);
    box_mount(b, path, "/opt/inside", false);
}

void box_prepare_with(struct box *b, const struct launcher_options *o)
{
    struct err e;

    *b = (struct box){ 0 };
    CHECK_OK(launcher_start_with(o, &b->launcher, &e), e);
    new_plan(b);
}

void box_prepare(struct box *b)
{
    box_prepare_with(b, &(struct launcher_options){ 0 });
    mount_inside(b);
}

void box_mount(struct box *b, const char *source, const char *target, bool writable)
{
    struct plan_mount *m = &b->plan.mounts[b->plan.n_mounts];
    int fd = open(source, O_PATH | O_CLOEXEC);

    if (fd < 0)
        FAIL("opening %s: %s", source, strerror(errno));
    snprintf(m->target, sizeof m->target, "%s", target);
    m->flags = writable ? PLAN_MOUNT_RW : 0;
    b->plan.n_mounts++;
    b->fds[1 + b->n_lent++] = fd;
}

static void create(struct box *b)
{
    union launch_answer answer;
    struct err e;
    int pair[2];

    CHECK_OK(ipc_pair(pair, &e), e);
    b->control = pair[0];
    b->fds[0] = pair[1];
    CHECK_OK(launcher_create(&b->launcher, &b->plan, b->fds, 1 + b->n_lent, &e), e);
    for (size_t i = 0; i < 1 + b->n_lent; i++)
        drop_fd(&b->fds[i]);
    CHECK_OK(launcher_answer(&b->launcher, &answer, &b->pidfd, &e), e);
    CHECK_INT(answer.head.type, LAUNCH_CREATED);
    CHECK(strcmp(answer.created.id, b->plan.id) == 0);
    CHECK(b->pidfd >= 0);
    b->pid = answer.created.pid;
}

void box_build(struct box *b)
{
    create(b);
    box_ping(b);
}

void box_open(struct box *b)
{
    box_prepare(b);
    box_build(b);
}

void box_open_beside(struct box *ret, const struct box *b)
{
    *ret = (struct box){ .launcher = b->launcher };
    new_plan(ret);
    mount_inside(ret);
    box_build(ret);
}

static void drop_stash(struct box *b)
{
    while (b->stash) {
        struct heard *h = b->stash;

        b->stash = h->next;
        ipc_fds_done(&h->fds);
        free(h);
    }
}

void box_destroy(struct box *b)
{
    union launch_answer answer;
    struct err e;

    drop_stash(b);
    CHECK_OK(launcher_destroy(&b->launcher, b->plan.id, &e), e);
    CHECK_OK(launcher_answer(&b->launcher, &answer, NULL, &e), e);
    CHECK_INT(answer.head.type, LAUNCH_DESTROYED);
    CHECK_INT(answer.destroyed.leftover, 0);
    drop_fd(&b->control);
    drop_fd(&b->pidfd);
}

void box_close(struct box *b)
{
    box_destroy(b);
    launcher_done(&b->launcher);
}

/* talking */

static bool take_stashed(struct box *b, uint32_t tag, union supervisor_message *ret,
                         struct ipc_fds *ret_fds)
{
    for (struct heard **at = &b->stash; *at; at = &(*at)->next) {
        struct heard *h = *at;

        if (h->m.head.tag != tag)
            continue;
        *ret = h->m;
        *ret_fds = h->fds;
        *at = h->next;
        free(h);
        return true;
    }
    return false;
}

static void stash(struct box *b, const union supervisor_message *m, const struct ipc_fds *fds)
{
    struct heard **at = &b->stash, *h = malloc(sizeof *h);

    CHECK(h);
    while (*at)
        at = &(*at)->next;
    h->next = NULL;
    h->m = *m;
    h->fds = *fds;
    *at = h;
}

int box_hear(struct box *b, uint32_t tag, union supervisor_message *ret, struct ipc_fds *ret_fds)
{
    struct err e;

    ret_fds->n = 0;
    if (take_stashed(b, tag, ret, ret_fds))
        return ret->head.type;
    for (;;) {
        struct pollfd in = { .fd = b->control, .events = POLLIN };
        int r;

        if (poll(&in, 1, BOX_WAIT_MS) != 1)
            FAIL("PID 1 does not answer");
        r = supervisor_next(b->control, ret, ret_fds, &e);
        CHECK_OK(r, e);
        if (r == 0)
            FAIL("the sandbox is gone");
        if (ret->head.tag == tag)
            return ret->head.type;
        stash(b, ret, ret_fds);
        ret_fds->n = 0;
    }
}

void box_ping(struct box *b)
{
    static union supervisor_message m;
    struct ipc_fds fds;
    uint32_t tag = ++b->tag;
    struct err e;

    CHECK_OK(supervisor_request(b->control, tag, CONTROL_PING, &e), e);
    CHECK_INT(box_hear(b, tag, &m, &fds), CONTROL_PONG);
    CHECK_INT(fds.n, 0);
}

uint32_t box_count_procs(struct box *b)
{
    static union supervisor_message m;
    struct ipc_fds fds;
    uint32_t tag = ++b->tag;
    struct err e;

    CHECK_OK(supervisor_request(b->control, tag, CONTROL_LIST, &e), e);
    CHECK_INT(box_hear(b, tag, &m, &fds), CONTROL_PROCS);
    return m.procs.count;
}

int box_kill(struct box *b, uint32_t proc, int sig, bool tree)
{
    static union supervisor_message m;
    struct ipc_fds fds;
    uint32_t tag = ++b->tag;
    struct err e;

    CHECK_OK(supervisor_kill(b->control, tag, proc, sig, tree ? CONTROL_TREE : CONTROL_ONE, &e), e);
    CHECK_INT(box_hear(b, tag, &m, &fds), CONTROL_KILLED);
    CHECK_INT(m.killed.proc, proc);
    return m.killed.sys;
}

/* requests of tests alone */

int supervisor_kill_all(int sock, uint32_t tag, int sig, int64_t grace_ns, struct err *e)
{
    struct control_kill m = { .sig = sig, .scope = CONTROL_ALL, .grace_ns = grace_ns };

    control_fill(&m.head, CONTROL_KILL, tag, sizeof m);
    return ipc_send(sock, &m, sizeof m, NULL, 0, e);
}

int supervisor_request_one(int sock, uint32_t tag, enum control_type type, uint32_t proc,
                           struct err *e)
{
    struct control_one m = { .proc = proc };

    control_fill(&m.head, type, tag, sizeof m);
    return ipc_send(sock, &m, sizeof m, NULL, 0, e);
}

int launcher_answer(const struct launcher *l, union launch_answer *ret, int *ret_pidfd,
                    struct err *e)
{
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    int r = launcher_answer_with(l, ret, &fds, e);

    if (r >= 0 && ret->head.type == LAUNCH_CREATED && ret_pidfd && fds.n)
        *ret_pidfd = take_fd(&fds.fd[0]);
    return r;
}

/* jobs */

static void take_stdio(const struct process_start *s, struct ipc_fds *fds, struct job *j)
{
    size_t at = 0;

    if (s->flags & START_TTY) {
        CHECK_INT(fds->n, 1);
        j->out = fds->fd[0];
        return;
    }
    CHECK_INT(fds->n, s->flags & START_STDIN ? 3 : 2);
    if (s->flags & START_STDIN)
        j->in = fds->fd[at++];
    j->out = fds->fd[at++];
    j->err = fds->fd[at];
}

bool job_start(struct box *b, const struct process_start *s, struct job *ret,
               struct control_failed *ret_failure)
{
    static union supervisor_message m;
    struct ipc_fds fds;
    struct err e;

    *ret = (struct job){ .tag = ++b->tag, .in = -1, .out = -1, .err = -1 };
    CHECK_OK(supervisor_start(b->control, ret->tag, s, &e), e);
    if (box_hear(b, ret->tag, &m, &fds) == CONTROL_FAILED) {
        if (ret_failure)
            *ret_failure = m.failed;
        return false;
    }
    CHECK_INT(m.head.type, CONTROL_STARTED);
    ret->proc = m.started.proc;
    ret->pid = m.started.pid;
    take_stdio(s, &fds, ret);
    return true;
}

void job_close(struct job *j)
{
    drop_fd(&j->in);
    drop_fd(&j->out);
    drop_fd(&j->err);
}

void job_end(struct box *b, struct job *j, struct control_exited *ret)
{
    static union supervisor_message m;
    struct ipc_fds fds;

    job_close(j);
    CHECK_INT(box_hear(b, j->tag, &m, &fds), CONTROL_EXITED);
    CHECK_INT(m.exited.proc, j->proc);
    if (ret)
        *ret = m.exited;
}

static void feed(int *fd, struct str *input)
{
    ssize_t n = input->n ? write(*fd, input->p, input->n) : 0;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0)
        *input = (struct str){ input->p + n, input->n - (size_t)n };
    if (n < 0 || input->n == 0)
        drop_fd(fd);
}

static void collect(int *fd, struct buf *to)
{
    char *room;
    ssize_t n;

    CHECK(buf_room(to, 64 << 10, &room) >= 0);
    n = read(*fd, room, 64 << 10);
    if (n > 0)
        buf_grew(to, (size_t)n);
    else if (n == 0 || errno != EAGAIN)
        drop_fd(fd);
}

void job_finish(struct box *b, struct job *j, struct str input, struct outcome *ret)
{
    buf_init(&ret->out, OUTPUT_MAX);
    buf_init(&ret->err, OUTPUT_MAX);
    while (j->in >= 0 || j->out >= 0 || j->err >= 0) {
        struct pollfd waits[] = { { .fd = j->in, .events = POLLOUT },
                                  { .fd = j->out, .events = POLLIN },
                                  { .fd = j->err, .events = POLLIN } };

        if (poll(waits, COUNT_OF(waits), BOX_WAIT_MS) <= 0)
            FAIL("a program says nothing and does not end");
        if (waits[0].revents)
            feed(&j->in, &input);
        if (waits[1].revents)
            collect(&j->out, &ret->out);
        if (waits[2].revents)
            collect(&j->err, &ret->err);
    }
    job_end(b, j, &ret->end);
}

void box_run(struct box *b, const struct process_start *s, struct str input, struct outcome *ret)
{
    struct job j;

    outcome_done(ret);
    ret->failed = !job_start(b, s, &j, &ret->failure);
    if (!ret->failed)
        job_finish(b, &j, input, ret);
}

void outcome_done(struct outcome *o)
{
    buf_done(&o->out);
    buf_done(&o->err);
    *o = (struct outcome){ 0 };
}

struct process_start sh_start(const char *script)
{
    static const char *argv[4];

    argv[0] = "/bin/sh";
    argv[1] = "-c";
    argv[2] = script;
    return (struct process_start){ .what = START_PROGRAM, .argv = argv };
}

bool sh_job(struct box *b, const char *script, struct job *ret)
{
    struct process_start s = sh_start(script);

    return job_start(b, &s, ret, NULL);
}

void sh_run(struct box *b, const char *script, struct outcome *ret)
{
    struct process_start s = sh_start(script);

    box_run(b, &s, (struct str){ 0 }, ret);
}

void box_file(struct box *b, enum start_what what, const char *path, const char *to,
              struct str input, struct outcome *ret)
{
    const char *argv[] = { path, to, NULL };
    struct process_start s = { .what = what, .argv = argv, .cwd = "/" };

    if (what == START_WRITE || what == START_UNPACK || what == START_UPLOAD)
        s.flags = START_STDIN;
    box_run(b, &s, input, ret);
}

void check_end_(const char *file, int line, const char *script, const struct outcome *o, int status,
                const char *said)
{
    if (o->failed)
        tap_fail(file, line, "'%s' did not start: %s: %s", script, o->failure.step, o->failure.msg);
    if (o->end.how != CONTROL_BY_EXIT || o->end.status != status)
        tap_fail(file, line, "'%s' ended %u/%d, not with exit status %d; stderr: " STR_FMT, script,
                 o->end.how, o->end.status, status, STR_ARG(buf_str(&o->err)));
    if (!str_eq(buf_str(&o->out), str_from(said)))
        tap_fail(file, line, "'%s' said '" STR_FMT "', not '%s'; stderr: " STR_FMT, script,
                 STR_ARG(buf_str(&o->out)), said, STR_ARG(buf_str(&o->err)));
}

/* listening ones */

void place_init(struct place *p)
{
    *p = (struct place){ .dir = "/tmp/sandboxer-test-XXXXXX", .address.sun_family = AF_UNIX };
    CHECK(mkdtemp(p->dir));
    snprintf(p->address.sun_path, sizeof p->address.sun_path, "%s/control", p->dir);
    p->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(p->sock >= 0);
    CHECK(bind(p->sock, (const struct sockaddr *)&p->address, sizeof p->address) == 0);
    /* From now on, so that even one that is still on its way to be PID 1 can be told to end. */
    CHECK(listen(p->sock, BOX_BACKLOG) == 0);
}

void place_done(struct place *p)
{
    drop_fd(&p->sock);
    unlink(p->address.sun_path);
    CHECK(rmdir(p->dir) == 0);
}

int place_connect(const struct place *p)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    CHECK(connect(fd, (const struct sockaddr *)&p->address, sizeof p->address) == 0);
    return fd;
}

void box_build_listening(struct box *b, const struct place *p, uint32_t flags)
{
    union launch_answer answer;
    int pair[2], fds[8];
    struct err e;

    b->plan.flags = PLAN_LISTENER | flags;
    CHECK_OK(ipc_pair(pair, &e), e);
    fds[0] = pair[1];
    fds[1] = p->sock;
    memcpy(fds + 2, b->fds + 1, b->n_lent * sizeof fds[0]);
    CHECK_OK(launcher_create(&b->launcher, &b->plan, fds, 2 + b->n_lent, &e), e);
    close(pair[1]);
    for (size_t i = 1; i <= b->n_lent; i++)
        drop_fd(&b->fds[i]);
    b->control = pair[0];
    CHECK_OK(launcher_answer(&b->launcher, &answer, &b->pidfd, &e), e);
    b->pid = answer.created.pid;
    box_ping(b);
}

void box_open_listening(struct box *b, const struct place *p, uint32_t flags)
{
    box_prepare(b);
    box_build_listening(b, p, flags);
}

void box_reconnect(struct box *b, const struct place *p)
{
    drop_fd(&b->control);
    drop_stash(b);
    b->control = place_connect(p);
    box_ping(b);
}

/* small helpers */

size_t read_some(int fd, char *out, size_t n)
{
    size_t have = 0;

    while (have < n) {
        struct pollfd in = { .fd = fd, .events = POLLIN };
        ssize_t got;

        if (poll(&in, 1, BOX_WAIT_MS) != 1)
            break;
        got = read(fd, out + have, n - have);
        if (got < 0 && errno == EAGAIN)
            continue;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

void await_word(int fd, const char *word)
{
    char said[4096];
    size_t n = 0;

    while (n + 1 < sizeof said && read_some(fd, said + n, 1) == 1) {
        said[++n] = '\0';
        if (strstr(said, word))
            return;
    }
    said[n] = '\0';
    FAIL("waited for '%s' and heard '%s'", word, said);
}

int64_t process_cpu_ms(pid_t pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    AUTO_CLOSE int fd = -1;
    const char *rest;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    rest = strrchr(text, ')');
    CHECK(rest && sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                         &system) == 2);
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}
