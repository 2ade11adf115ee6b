/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "lib/ipc/channel.h"
#include "domain/profile/profile.h"
#include "sandbox/box.h"

/* the rig */

static int take_dead(int *ret, struct err *e)
{
    int pair[2], r = ipc_pair(pair, e);

    if (r < 0)
        return r;
    close(pair[1]);
    *ret = pair[0];
    return 0;
}

const char *rig_tag(void)
{
    static char tag[CGROUP_TAG_MAX];

    snprintf(tag, sizeof tag, "rig.%d", (int)getpid());
    return tag;
}

static int take_launcher(void *user, int *ret, struct err *e)
{
    struct rig *r = user;
    struct launcher *l = &r->launchers[r->n_launchers];
    int result;

    r->taken++;
    if (r->on_take)
        r->on_take(r);
    if (r->dead_launchers > 0) {
        r->dead_launchers--;
        return take_dead(ret, e);
    }
    if (r->refuse_launchers > 0) {
        r->refuse_launchers--;
        return err_set(e, ERR_UPSTREAM, "none is to be had today");
    }
    CHECK(r->n_launchers < RIG_LAUNCHERS_MAX);
    if (r->die_times > 0 && r->die_times--)
        setenv("SANDBOXER_TEST_DIE_STEP", r->die_step, 1);
    result = launcher_start_with(&(struct launcher_options){ .tag = rig_tag() }, l, e);
    unsetenv("SANDBOXER_TEST_DIE_STEP");
    if (result < 0)
        return result;
    r->n_launchers++;
    *ret = take_fd(&l->sock);
    return 0;
}

static void open_instance(struct rig *r)
{
    struct err e;

    CHECK_OK(loop_init(&r->loop, &e), e);
    r->context.loop = &r->loop;
    CHECK_OK(r->ops->open(&r->context, &r->x, &e), e);
}

void rig_open(struct rig *r, const struct backend_ops *ops)
{
    static const char yaml[] = "id: profile.test\nversion: 1\nworkdir: /tmp\n"
                               "env: { FROM_PROFILE: yes-it-is, BOTH: profile }\n";
    struct err e;

    *r = (struct rig){ .ops = ops };
    snprintf(r->path, sizeof r->path, "/tmp/conformance-XXXXXX");
    CHECK(mkdtemp(r->path));
    r->context =
        (struct backend_context){ .state = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                                  .launcher = take_launcher,
                                  .user = r };
    CHECK(r->context.state >= 0);
    CHECK_OK(profile_read(str_from(yaml), &r->profile, &e), e);
    open_instance(r);
}

/* Launchers end with their connections, sandboxes of theirs become our children. */
void rig_reap(struct rig *r, bool wait)
{
    for (size_t i = r->n_hung; i < r->n_launchers; i++) {
        if (r->launchers[i].pid > 0 && waitpid(r->launchers[i].pid, NULL, wait ? 0 : WNOHANG) > 0)
            r->launchers[i].pid = 0;
    }
}

static void close_instance(struct rig *r)
{
    r->ops->close(r->x);
    rig_reap(r, true);
    loop_done(&r->loop);
}

void rig_restart(struct rig *r)
{
    close_instance(r);
    open_instance(r);
}

void rig_close(struct rig *r)
{
    char run[80];

    close_instance(r);
    snprintf(run, sizeof run, "%s/run", r->path);
    if (rmdir(run) < 0)
        FAIL("%s: %s", run, strerror(errno));
    CHECK(rmdir(r->path) == 0);
    profile_unref(r->profile);
    close(r->context.state);
}

void rig_kill_launchers(struct rig *r)
{
    for (size_t i = 0; i < r->n_launchers; i++) {
        if (r->launchers[i].pid <= 0)
            continue;
        kill(r->launchers[i].pid, SIGKILL);
        waitpid(r->launchers[i].pid, NULL, 0);
        r->launchers[i].pid = 0;
    }
}

void rig_hang_launchers(struct rig *r)
{
    for (size_t i = 0; i < r->n_launchers; i++)
        if (r->launchers[i].pid > 0)
            kill(r->launchers[i].pid, SIGSTOP);
    r->n_hung = r->n_launchers;
}

void rig_wake_launchers(struct rig *r)
{
    for (size_t i = 0; i < r->n_hung; i++) {
        if (r->launchers[i].pid <= 0)
            continue;
        kill(r->launchers[i].pid, SIGCONT);
        waitpid(r->launchers[i].pid, NULL, 0);
        r->launchers[i].pid = 0;
    }
    r->n_hung = 0;
}

void rig_await(struct rig *r, const int *counter, int n, const char *what)
{
    int64_t end = clock_mono() + RIG_PATIENCE;
    struct err e;

    while (*counter < n) {
        CHECK_OK(loop_run_once(&r->loop, 100 * NS_PER_MS, &e), e);
        if (clock_mono() > end)
            FAIL("waited in vain for %s", what);
    }
}

void rig_idle(struct rig *r, int64_t time)
{
    int64_t end = clock_mono() + time, left;
    struct err e;

    while ((left = end - clock_mono()) > 0)
        CHECK_OK(loop_run_once(&r->loop, left, &e), e);
}

bool rig_has_dir(struct rig *r, const char *id)
{
    char path[160];

    snprintf(path, sizeof path, "%s/run/%s", r->path, id);
    return access(path, F_OK) == 0;
}

/* subjects */

static void note(struct subject *s, int *counter, int r, const struct err *e)
{
    ++*counter;
    s->r = r;
    s->e = e ? *e : (struct err){ 0 };
    CHECK(r >= 0 || (e && e->msg[0] && -(int)e->code == r));
}

static void on_provisioned(struct backend_box *b, int r, const struct err *e)
{
    struct subject *s = b->owner;

    note(s, &s->provisioned, r, e);
    if (s->on_provisioned)
        s->on_provisioned(s);
}

static void on_ready(struct backend_box *b, int r, const struct err *e)
{
    struct subject *s = b->owner;

    CHECK_INT(s->torn_down, 0);
    note(s, &s->ready, r, e);
}

static void on_adopted(struct backend_box *b, int r, const struct err *e,
                       const struct backend_found *found, size_t n)
{
    struct subject *s = b->owner;

    CHECK(n <= RIG_FOUND_MAX);
    s->n_found = n;
    if (n)
        memcpy(s->found, found, n * sizeof *found);
    note(s, &s->adopted, r, e);
}

static void on_torn_down(struct backend_box *b, int r, const struct err *e,
                         const struct backend_report *report)
{
    struct subject *s = b->owner;

    s->report = *report;
    note(s, &s->torn_down, r, e);
}

static void on_gone(struct backend_box *b, const char *reason)
{
    struct subject *s = b->owner;

    CHECK_INT(s->torn_down, 0);
    s->gone++;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
}

static void on_usage(struct backend_box *b, int r, const struct backend_usage *u)
{
    struct subject *s = b->owner;

    s->used++;
    s->r = r;
    if (r >= 0)
        s->usage = *u;
}

static void on_listeners(struct backend_box *b, int r, const struct err *e, struct listeners *l)
{
    struct subject *s = b->owner;

    CHECK_INT(s->torn_down, 0);
    CHECK((r < 0) == !l);
    if (l) {
        listeners_done(&s->listeners);
        s->listeners = take_listeners(l);
    }
    note(s, &s->listening, r, e);
}

/* Descriptors come with whatever can be opened. */
static void check_who(const struct backend_who *w)
{
    for (size_t i = 0; i < w->n_exes; i++)
        CHECK(w->exes[i].fd < 0 || (fcntl(w->exes[i].fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
    for (size_t i = 0; i < w->n; i++)
        CHECK(w->holders[i].exe >= w->exes && w->holders[i].exe < w->exes + w->n_exes);
}

static void on_who(struct backend_box *b, uint64_t tag, int r, const struct err *e,
                   const struct backend_who *w)
{
    struct subject *s = b->owner;

    CHECK_INT(s->torn_down, 0);
    CHECK((r < 0) == !w);
    s->tag = tag;
    s->n_holders = w ? w->n : 0;
    if (w)
        check_who(w);
    if (w && w->n) {
        s->pid = w->holders[0].pid;
        snprintf(s->exe, sizeof s->exe, "%s",
                 w->holders[0].exe->path ? w->holders[0].exe->path : "");
    }
    note(s, &s->told, r, e);
}

static void on_held(struct backend_box *b, bool frozen, int r, const struct err *e)
{
    struct subject *s = b->owner;

    CHECK_INT(s->torn_down, 0);
    s->frozen = frozen && r >= 0;
    note(s, &s->held, r, e);
}

static void on_upper(struct backend_box *b, int r, const struct err *e, int *fd)
{
    struct subject *s = b->owner;

    CHECK((r < 0) == !fd);
    drop_fd(&s->upper);
    s->upper = fd ? take_fd(fd) : -1;
    note(s, &s->shown, r, e);
}

static void on_assigned(struct backend_box *b, int r, const struct err *e)
{
    struct subject *s = b->owner;

    CHECK_INT(s->torn_down, 0);
    CHECK_INT(s->gone, 0);
    note(s, &s->assigned, r, e);
}

static const struct backend_box_events subject_events = {
    .provisioned = on_provisioned,
    .ready = on_ready,
    .adopted = on_adopted,
    .torn_down = on_torn_down,
    .gone = on_gone,
    .assigned = on_assigned,
    .usage = on_usage,
    .listeners = on_listeners,
    .who = on_who,
    .held = on_held,
    .upper = on_upper,
};

void subject_init_id(struct rig *r, struct subject *s, const char *id)
{
    *s = (struct subject){ .rig = r, .upper = -1 };
    listeners_init(&s->listeners);
    snprintf(s->id, sizeof s->id, "%s", id);
    s->b = r->ops->box_new(r->x, s->id, &subject_events, s);
}

void subject_init(struct rig *r, struct subject *s)
{
    char id[ID_MAX];
    struct err e;

    CHECK_OK(id_make("sbx_", id, &e), e);
    subject_init_id(r, s, id);
}

struct backend_spec subject_spec(struct rig *r)
{
    static const struct backend_owner owner = { .key = RIG_OWNER };

    return (struct backend_spec){
        .profile = r->profile, .owner = &owner, .disk = 64 << 20, .pids = 64, .host = "local"
    };
}

void subject_provision(struct subject *s)
{
    struct backend_spec spec = subject_spec(s->rig);

    spec.egress = s->egress;
    if (s->prepared)
        spec.owner = NULL;
    s->rig->ops->provision(s->b, &spec);
    CHECK_INT(s->provisioned, 0); /* never from inside the call */
}

static void check_good(const struct subject *s, const char *what)
{
    if (s->r < 0)
        FAIL("%s: %d: %s", what, s->r, s->e.msg);
}

void subject_ready(struct rig *r, struct subject *s)
{
    subject_init(r, s);
    subject_provision(s);
    AWAIT(r, s->provisioned);
    check_good(s, "provisioned");
    r->ops->wait_ready(s->b);
    CHECK_INT(s->ready, 0);
    AWAIT(r, s->ready);
    check_good(s, "ready");
}

size_t rig_count_groups(const char *pattern)
{
    char path[256];
    glob_t found = { 0 };
    size_t n;

    snprintf(path, sizeof path, "/sys/fs/cgroup/{memory,pids,cpu}/sandboxer-%s/%s", rig_tag(),
             pattern);
    n = glob(path, GLOB_NOSORT | GLOB_BRACE, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return n;
}

void subject_prepare(struct rig *r, struct subject *s)
{
    subject_init(r, s);
    s->prepared = true;
    subject_provision(s);
    r->ops->wait_ready(s->b);
    AWAIT(r, s->ready);
    CHECK(s->r >= 0);
}

void subject_teardown(struct subject *s)
{
    int before = s->torn_down;

    s->rig->ops->teardown(s->b);
    CHECK_INT(s->torn_down, before);
    rig_await(s->rig, &s->torn_down, before + 1, "torn_down");
    check_good(s, "torn_down");
    CHECK_INT(s->report.leftover, 0);
    CHECK(!rig_has_dir(s->rig, s->id));
    box_expect_gone(s->id);
}

void subject_free(struct subject *s)
{
    drop_fd(&s->upper);
    s->rig->ops->box_free(s->b);
    s->b = NULL;
    listeners_done(&s->listeners);
}

void subject_end(struct subject *s)
{
    subject_teardown(s);
    subject_free(s);
}

void subject_adopt(struct rig *r, struct subject *s, const char *id)
{
    char handle[BACKEND_HANDLE_MAX];

    subject_init_id(r, s, id);
    snprintf(handle, sizeof handle, "run/%s", id);
    r->ops->adopt(s->b, handle);
    CHECK_INT(s->adopted, 0);
    AWAIT(r, s->adopted);
}

/* tasks */

static void on_started(struct backend_process *p, int r, const struct err *e)
{
    struct task *j = container_of(p, struct task, p);

    j->started++;
    j->r = r;
    if (e)
        j->e = *e;
    CHECK((r < 0) == (p->box == NULL));
    CHECK(r >= 0 || (e && e->msg[0]));
}

static void on_ended(struct backend_process *p, const struct backend_end *end)
{
    struct task *j = container_of(p, struct task, p);

    CHECK(!p->box);
    j->ended++;
    j->end = *end;
    snprintf(j->msg, sizeof j->msg, "%s", end->msg ? end->msg : "");
}

static void on_signalled(struct backend_process *p)
{
    container_of(p, struct task, p)->signalled++;
}

void task_init(struct task *j, struct subject *s)
{
    static const struct backend_process_events events = { .started = on_started,
                                                          .ended = on_ended,
                                                          .signalled = on_signalled };

    *j = (struct task){ .rig = s->rig, .p = { .events = &events } };
    buf_init(&j->out, 16 << 20);
    buf_init(&j->err, 16 << 20);
}

void task_start(struct subject *s, struct task *j, const struct process_start *start)
{
    task_init(j, s);
    s->rig->ops->start(s->b, &j->p, start);
    CHECK_INT(j->started, 0);
    CHECK(j->p.box == s->b);
}

static void collect(int *fd, struct buf *to)
{
    char *room;
    ssize_t n = 0;

    while (*fd >= 0) {
        CHECK(buf_room(to, 64 << 10, &room) >= 0);
        n = read(*fd, room, 64 << 10);
        if (n > 0)
            buf_grew(to, (size_t)n);
        else if (n < 0 && errno == EAGAIN)
            return;
        else
            drop_fd(fd);
    }
}

void task_drain(struct task *j)
{
    int64_t end = clock_mono() + RIG_PATIENCE;
    bool tty = j->p.stdio[1] < 0 && j->p.stdio[0] >= 0;
    int *out = tty ? &j->p.stdio[0] : &j->p.stdio[1];

    while (*out >= 0 || j->p.stdio[2] >= 0) {
        rig_idle(j->rig, NS_PER_MS);
        collect(out, &j->out);
        collect(&j->p.stdio[2], &j->err);
        if (clock_mono() > end)
            FAIL("the output does not end");
    }
}

void task_follow(struct task *j)
{
    AWAIT(j->rig, j->started);
    if (j->r < 0)
        return;
    task_drain(j);
    AWAIT(j->rig, j->ended);
}

struct process_start sh(const char *script)
{
    static const char *argv[4];

    argv[0] = "/bin/sh";
    argv[1] = "-c";
    argv[2] = script;
    return (struct process_start){ .what = START_PROGRAM, .argv = argv };
}

void task_sh(struct subject *s, struct task *j, const char *script)
{
    struct process_start start = sh(script);

    task_start(s, j, &start);
    task_follow(j);
}

void task_done(struct task *j)
{
    for (int i = 0; i < BACKEND_STDIO_MAX && j->started && j->r >= 0; i++)
        drop_fd(&j->p.stdio[i]);
    buf_done(&j->out);
    buf_done(&j->err);
}

/* every row, or the only one that the test is for */

static void (*conformance_body)(struct rig *r);
static const struct backend_ops *conformance_only;

static void run_rows(void)
{
    for (size_t i = 0; backends[i]; i++) {
        struct rig *r;

        if (conformance_only && conformance_only != backends[i])
            continue;
        r = calloc(1, sizeof *r);
        CHECK(r);
        rig_open(r, backends[i]);
        conformance_body(r);
        rig_close(r);
        box_reap_orphans();
        free(r);
    }
}

void conformance_(void (*body)(struct rig *r), const struct backend_ops *only, bool as_root)
{
    conformance_body = body;
    conformance_only = only;
    log_setup(LOG_ERROR, LOG_PLAIN);
    box_test_(run_rows, as_root);
}
