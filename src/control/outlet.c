#include "control/outlet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/outlet_inside.h"
#include "control/sandbox.h"
#include "egress/wire.h"
#include "ipc/listeners.h"

#define APPLY_NS (10 * NS_PER_S) /* for a policy to be in force */
#define REST_NS  NS_PER_S        /* until a box that failed is tried again */
enum {
    WORKERS_MAX = 256,
    ADDING_MAX = 64, /* boxes on their way to one worker: each is a dozen descriptors */
};

struct outlet_worker {
    struct egress_worker process;
    struct control *control;
    struct list outlets;
    struct list waiting; /* those whose turn to be added has not come */
    size_t n;
    unsigned adding;
    bool opened;
};

enum outlet_state {
    OUTLET_CLOSED, /* the worker knows nothing of it */
    OUTLET_ASKING, /* the box for its listeners */
    OUTLET_ADDING,
    OUTLET_OPEN, /* denies all, or what its policy does not allow */
};

struct outlet {
    struct control *control;
    struct ext_box *box;
    struct outlet_worker *worker;
    struct link link; /* in its worker */
    struct link turn; /* in its worker's waiting ones */
    struct index_entry entry;
    enum outlet_state state;
    struct policy_text *policy; /* that shall hold; NULL: none */
    uint64_t generation, sent, applied;
    struct list waiting; /* struct outlet_op */
    struct loop_timer rest;
    struct outlet_counters before, now; /* of workers that died; of this one */
};

/* ---- waiting ---- */

static void finish_op(struct outlet_op *op, int r, const struct err *e)
{
    link_leave(&op->link_);
    loop_timer_stop(&op->timer_);
    op->done(op, r, e);
}

/* Those that wait for this generation or one before it; 0: all. done may start another. */
static void finish_up_to(struct outlet *o, uint64_t generation, int r, const struct err *e)
{
    struct list over = { 0 };
    struct link *next;

    for (struct link *l = list_first(&o->waiting); l; l = next) {
        struct outlet_op *op = container_of(l, struct outlet_op, link_);

        next = list_after(&o->waiting, l);
        if (generation && op->generation_ > generation)
            continue;
        link_leave(l);
        list_append(&over, l);
    }
    for (struct link *l; (l = list_first(&over));)
        finish_op(container_of(l, struct outlet_op, link_), r, e);
}

static void on_time(struct loop_timer *t)
{
    struct err e;
    int r = err_set(&e, ERR_TIMEOUT,
                    "no egress worker has taken the policy yet; until one does, nothing passes");

    finish_op(container_of(t, struct outlet_op, timer_), r, &e);
}

/* ---- audit files ---- */

static void log_name(const char *box, enum outlet_log which, char ret[static ID_MAX + 16])
{
    snprintf(ret, ID_MAX + 16, "%s.jsonl%s", box, which == OUTLET_LOG_BEFORE ? ".1" : "");
}

static int open_audit(const struct outlet *o, int *ret, struct err *e)
{
    char name[ID_MAX + 16];

    log_name(o->box->id, OUTLET_LOG_NOW, name);
    *ret = openat(o->control->outlets.dir, name,
                  O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *ret < 0 ? err_sys(e, "opening the egress log %s", name) : 0;
}

int outlet_open_log(const struct control *c, const char *box, enum outlet_log which, int *ret,
                    struct err *e)
{
    char name[ID_MAX + 16];

    log_name(box, which, name);
    *ret = openat(c->outlets.dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "%s has no egress log", box);
    return *ret < 0 ? err_sys(e, "opening the egress log of %s", box) : 0;
}

/* One older file is kept. */
static void rotate(struct outlet *o)
{
    struct wire_box m = { .generation = 0 };
    char now[ID_MAX + 16], before[ID_MAX + 16];
    int dir = o->control->outlets.dir;
    AUTO_CLOSE int fd = -1;
    struct err e;
    int r;

    log_name(o->box->id, OUTLET_LOG_NOW, now);
    log_name(o->box->id, OUTLET_LOG_BEFORE, before);
    r = renameat(dir, now, dir, before) < 0 ? err_sys(&e, "putting %s aside", now)
                                            : open_audit(o, &fd, &e);
    if (r < 0) {
        LOG(ERROR, "egress.audit_failed", LOG_S("error", e.msg));
        return;
    }
    wire_fill(&m.head, WIRE_AUDIT, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    egress_worker_send(&o->worker->process, &m, sizeof m, &fd, 1);
}

/* The time of the file is that of the outlet's end, as the record's is. */
static void date_log(const struct outlet *o)
{
    char name[ID_MAX + 16];

    log_name(o->box->id, OUTLET_LOG_NOW, name);
    (void)utimensat(o->control->outlets.dir, name, NULL, AT_SYMLINK_NOFOLLOW);
}

void outlet_remove_logs(struct control *c, const char *box)
{
    char name[ID_MAX + 16];

    for (unsigned which = OUTLET_LOG_NOW; which <= OUTLET_LOG_BEFORE; which++) {
        log_name(box, (enum outlet_log)which, name);
        (void)unlinkat(c->outlets.dir, name, 0);
    }
}

static void prune_log(struct control *c, const char *file, int64_t before_ns)
{
    struct str id;
    char box[ID_MAX];
    struct stat st;

    str_cut(str_from(file), '.', &id);
    if (!id_valid("sbx_", id) || !str_copy(id, box, sizeof box) || control_knows(c, box))
        return;
    if (fstatat(c->outlets.dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec < before_ns)
        (void)unlinkat(c->outlets.dir, file, 0);
}

void outlets_prune_logs(struct control *c, int64_t before_ns)
{
    int fd = openat(c->outlets.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *v; d && (v = readdir(d));)
        prune_log(c, v->d_name, before_ns);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}

/* ---- to the worker ---- */

static int make_memfd(struct str text, struct err *e)
{
    AUTO_CLOSE int fd = memfd_create("policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    for (size_t done = 0; fd >= 0 && done < text.n;) {
        ssize_t n = write(fd, text.p + done, text.n - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(e, "writing the policy");
        done += (size_t)n;
    }
    if (fd < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return err_sys(e, "making a file for the policy");
    return take_fd(&fd);
}

static void rest(struct outlet *o);

static void send_policy(struct outlet *o)
{
    struct wire_box m = { .generation = o->generation };
    struct err e;
    AUTO_CLOSE int fd = make_memfd(o->policy->json, &e);

    if (fd < 0) {
        LOG(ERROR, "egress.policy_failed", LOG_S("sandbox", o->box->id), LOG_S("error", e.msg));
        rest(o);
        return;
    }
    wire_fill(&m.head, WIRE_POLICY, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    o->sent = o->generation;
    egress_worker_send(&o->worker->process, &m, sizeof m, &fd, 1);
}

static void advance(struct outlet *o);

static bool is_adding(enum outlet_state s)
{
    return s == OUTLET_ASKING || s == OUTLET_ADDING;
}

static void enter(struct outlet *o, enum outlet_state s)
{
    struct outlet_worker *w = o->worker;
    bool was = is_adding(o->state), is = is_adding(s);
    struct link *next;

    o->state = s;
    w->adding += (unsigned)is - (unsigned)was;
    if (was && !is && (next = list_take(&w->waiting)))
        advance(container_of(next, struct outlet, turn));
}

static void advance(struct outlet *o)
{
    struct outlet_worker *w = o->worker;

    if (!egress_worker_is_up(&w->process))
        return;
    if (o->state == OUTLET_CLOSED && w->adding >= ADDING_MAX) {
        if (!link_joined(&o->turn))
            list_append(&w->waiting, &o->turn);
    } else if (o->state == OUTLET_CLOSED) {
        link_leave(&o->turn);
        enter(o, OUTLET_ASKING);
        o->box->ops->listeners(o->box);
    } else if (o->state == OUTLET_OPEN && o->sent < o->generation) {
        send_policy(o);
    }
}

static void on_rested(struct loop_timer *t)
{
    advance(container_of(t, struct outlet, rest));
}

static void rest(struct outlet *o)
{
    if (!loop_timer_started(&o->rest))
        loop_timer_start(o->control->loop, &o->rest, clock_mono() + REST_NS, on_rested, NULL);
}

/* It did not work, and is tried again; who waits need not. */
static void failed(struct outlet *o, const struct err *e)
{
    LOG(ERROR, "egress.failed", LOG_S("sandbox", o->box->id), LOG_S("error", e->msg));
    rest(o);
    enter(o, OUTLET_CLOSED);
    finish_up_to(o, 0, -(int)e->code, e);
}

static void send_add(struct outlet *o, const struct listeners *l)
{
    struct wire_add m = { .audit_max = o->control->config->egress.audit_max };
    AUTO_CLOSE int audit = -1;
    int fds[LISTENER_COUNT_ + 1];
    size_t n = listeners_pack(l, fds, &m.slots);
    struct err e;

    if (open_audit(o, &audit, &e) < 0) { /* nothing passes without a record */
        failed(o, &e);
        return;
    }
    wire_fill(&m.head, WIRE_ADD, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    m.has_audit = 1;
    fds[n++] = audit;
    enter(o, OUTLET_ADDING);
    egress_worker_send(&o->worker->process, &m, sizeof m, fds, n);
}

void outlet_listeners(struct control *c, struct ext_box *b, int r, const struct err *e,
                      struct listeners *l)
{
    struct outlet *o = outlet_find(c, b->id);

    if (!o || o->state != OUTLET_ASKING)
        return;
    if (r < 0)
        failed(o, e);
    else if (egress_worker_is_up(&o->worker->process))
        send_add(o, l);
    else
        enter(o, OUTLET_CLOSED); /* the next one is told of it */
}

/* ---- from the worker ---- */

static void on_added(struct outlet *o, const void *message)
{
    (void)message;
    if (o->state != OUTLET_ADDING)
        return;
    enter(o, OUTLET_OPEN);
    advance(o);
}

static void on_applied(struct outlet *o, const void *message)
{
    const struct wire_box *m = message;

    if (m->generation != o->sent || o->state != OUTLET_OPEN)
        return;
    o->applied = m->generation;
    finish_up_to(o, o->applied, 0, NULL);
}

/* A policy was compiled before it got here: if a worker does not take it, nothing passes that the
 * one before did not allow, and it is tried again. */
static void on_failed(struct outlet *o, const void *message)
{
    const struct wire_failed *m = message;
    struct err e;

    (void)err_set(&e, m->code > ERR_OK && m->code < ERR_CODE_COUNT_ ? m->code : ERR_BUG,
                  "the egress worker: %s", m->msg);
    if (m->request == WIRE_ADD && o->state == OUTLET_ADDING) {
        failed(o, &e);
    } else if (m->request == WIRE_POLICY && m->generation == o->sent) {
        LOG(ERROR, "egress.policy_failed", LOG_S("sandbox", o->box->id), LOG_S("error", e.msg));
        finish_up_to(o, m->generation, -(int)e.code, &e);
    }
}

static void on_used(struct outlet *o, const void *message)
{
    const struct wire_used *m = message;
    struct index_entry *at = index_find(&o->control->index, str_from(o->box->id));
    bool moved = m->bytes_out != o->now.bytes_out || m->bytes_in != o->now.bytes_in;

    o->now = (struct outlet_counters){ .allowed = m->allowed,
                                       .denied = m->denied,
                                       .connections = m->connections,
                                       .bytes_out = m->bytes_out,
                                       .bytes_in = m->bytes_in };
    if (at && moved)
        sandbox_touch(container_of(at, struct sandbox, entry));
}

/* The answer is for the worker that asked: the next one's questions have the same tags. */
static void on_who(struct outlet *o, const void *message)
{
    const struct wire_who *m = message;

    o->box->ops->who(o->box, o->worker->process.starts << 32 | m->head.tag, m->inode);
}

static void on_full(struct outlet *o, const void *message)
{
    (void)message;
    if (o->state == OUTLET_OPEN)
        rotate(o);
}

static void (*const answers[])(struct outlet *o, const void *message) = {
    [WIRE_ADDED] = on_added, [WIRE_APPLIED] = on_applied, [WIRE_FAILED] = on_failed,
    [WIRE_USED] = on_used,   [WIRE_FULL] = on_full,       [WIRE_WHO] = on_who,
};

/* A worker has a say in what it was given, and in nothing else. */
static void on_message(struct egress_worker *p, const void *message)
{
    struct outlet_worker *w = container_of(p, struct outlet_worker, process);
    const struct wire_box *m = message; /* all that a worker sends begin with an id */
    struct outlet *o = outlet_find(w->control, m->id);

    if (o && o->worker == w && m->head.type < COUNT_OF(answers) && answers[m->head.type])
        answers[m->head.type](o, message);
}

static void each_outlet(struct outlet_worker *w, void (*fn)(struct outlet *o))
{
    struct link *next;

    for (struct link *l = list_first(&w->outlets); l; l = next) {
        next = list_after(&w->outlets, l);
        fn(container_of(l, struct outlet, link));
    }
}

static void on_up(struct egress_worker *p)
{
    each_outlet(container_of(p, struct outlet_worker, process), advance);
}

static void add_counters(struct outlet_counters *to, const struct outlet_counters *more)
{
    to->allowed += more->allowed;
    to->denied += more->denied;
    to->connections += more->connections;
    to->bytes_out += more->bytes_out;
    to->bytes_in += more->bytes_in;
}

/* Listeners that are on their way to us are for the next one. */
static void lose(struct outlet *o)
{
    if (o->state != OUTLET_ASKING)
        enter(o, OUTLET_CLOSED);
    o->sent = o->applied = 0;
    add_counters(&o->before, &o->now);
    o->now = (struct outlet_counters){ 0 };
}

static void on_down(struct egress_worker *p)
{
    each_outlet(container_of(p, struct outlet_worker, process), lose);
}

static const struct egress_worker_events worker_events = { .up = on_up,
                                                           .down = on_down,
                                                           .message = on_message };

/* ---- outlets ---- */

struct outlet *outlet_find(struct control *c, const char *box)
{
    struct index_entry *at = index_find(&c->outlets.index, str_from(box));

    return at ? container_of(at, struct outlet, entry) : NULL;
}

static struct outlet_worker *choose_worker(struct control *c)
{
    struct outlet_worker *best = &c->outlets.workers[0];

    for (size_t i = 1; i < c->outlets.n && best->n; i++)
        if (c->outlets.workers[i].n < best->n)
            best = &c->outlets.workers[i];
    if (!best->opened)
        egress_worker_open(&best->process);
    best->opened = true;
    return best;
}

struct outlet *outlet_new(struct control *c, struct ext_box *b)
{
    struct outlet *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    o->control = c;
    o->box = b;
    o->entry.id = b->id;
    o->worker = choose_worker(c);
    o->worker->n++;
    list_append(&o->worker->outlets, &o->link);
    index_add(&c->outlets.index, &o->entry);
    advance(o);
    return o;
}

void outlet_free(struct outlet *o)
{
    struct wire_box m = { .generation = 0 };
    struct outlet_counters all;
    struct err e;
    int r;

    if (!o)
        return;
    r = err_set(&e, ERR_CONFLICT, "%s is on its way out", o->box->id);
    wire_fill(&m.head, WIRE_REMOVE, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    date_log(o);
    if (o->state >= OUTLET_ADDING)
        egress_worker_send(&o->worker->process, &m, sizeof m, NULL, 0);
    all = outlet_counters(o);
    add_counters(&o->control->outlets.ended, &all);
    link_leave(&o->turn);
    enter(o, OUTLET_CLOSED);
    link_leave(&o->link);
    o->worker->n--;
    index_remove(&o->control->outlets.index, &o->entry);
    loop_timer_stop(&o->rest);
    finish_up_to(o, 0, r, &e);
    policy_text_unref(o->policy);
    free(o);
}

void outlet_set_policy(struct outlet *o, struct policy_text *t, uint64_t generation,
                       struct outlet_op *op)
{
    policy_text_ref(t);
    policy_text_unref(o->policy);
    o->policy = t;
    o->generation = generation;
    if (op) {
        op->generation_ = generation;
        list_append(&o->waiting, &op->link_);
        loop_timer_start(o->control->loop, &op->timer_, clock_mono() + APPLY_NS, on_time, NULL);
    }
    advance(o);
}

struct egress_worker *outlet_worker(struct outlet *o)
{
    return &o->worker->process;
}

struct outlet_counters outlet_counters(const struct outlet *o)
{
    struct outlet_counters all = o->before;

    add_counters(&all, &o->now);
    return all;
}

uint64_t outlet_in_force(const struct outlet *o)
{
    return o->applied;
}

/* ---- all of them ---- */

static void add_up(struct index_entry *v, void *user)
{
    struct outlet_counters one = outlet_counters(container_of(v, struct outlet, entry));

    add_counters(user, &one);
}

struct outlet_counters outlets_counters(struct control *c)
{
    struct outlet_counters all = c->outlets.ended;

    index_each(&c->outlets.index, add_up, &all);
    return all;
}

uint64_t outlets_restarts(const struct control *c)
{
    uint64_t n = 0;

    for (size_t i = 0; i < c->outlets.n; i++)
        n +=
            c->outlets.workers[i].process.starts > 1 ? c->outlets.workers[i].process.starts - 1 : 0;
    return n;
}

static size_t count_workers(const struct control *c)
{
    long n =
        c->config->egress.workers ? (long)c->config->egress.workers : sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : (size_t)n;
}

int outlets_open(struct control *c, struct err *e)
{
    struct outlets *x = &c->outlets;

    x->dir = -1;
    if (mkdirat(c->context.state, "egress", 0700) < 0 && errno != EEXIST)
        return err_sys(e, "making the directory of egress logs");
    x->dir = openat(c->context.state, "egress", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (x->dir < 0)
        return err_sys(e, "opening the directory of egress logs");
    x->n = count_workers(c);
    x->workers = calloc(x->n, sizeof *x->workers);
    if (!x->workers)
        abort();
    for (size_t i = 0; i < x->n; i++)
        x->workers[i] = (struct outlet_worker){ .control = c,
                                                .process = { .loop = c->loop,
                                                             .events = &worker_events,
                                                             .start = c->egress_worker,
                                                             .user = c->user } };
    return 0;
}

/* Whoever waits goes too. */
static void let_go(struct index_entry *v, void *user)
{
    struct outlet *o = container_of(v, struct outlet, entry);

    (void)user;
    for (struct link *l; (l = list_take(&o->waiting));)
        loop_timer_stop(&container_of(l, struct outlet_op, link_)->timer_);
    outlet_free(o);
}

void outlets_close(struct control *c)
{
    struct outlets *x = &c->outlets;

    index_each(&x->index, let_go, NULL);
    for (size_t i = 0; i < x->n; i++)
        if (x->workers[i].opened)
            egress_worker_close(&x->workers[i].process);
    free(x->workers);
    index_done(&x->index);
    if (x->workers)
        drop_fd(&x->dir);
    x->workers = NULL;
    x->n = 0;
}
