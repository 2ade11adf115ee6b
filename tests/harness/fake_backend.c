/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/fake_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

enum { WORLDS_MAX = 64, INSIDE_MAX = 600 };

/* What is there, whether a control plane looks or not. */
struct world {
    char id[ID_MAX];
    struct fake_process *process[INSIDE_MAX];
    uint32_t n;
    struct listeners listeners;
    int rejects; /* who could write to them */
};

struct backend {
    struct backend_context context;
};

struct fake_box {
    struct backend_box backend;
    struct world *world; /* NULL: not provisioned */
    struct list news;    /* struct news */
};

/* Something that is told in the next turn of the loop. */
struct news {
    struct loop_later later;
    struct link link;
    struct fake_box *box;
    void (*tell)(struct news *n);
    struct backend_process *process;
    struct fake_process *inside;
    const char *failure;
    uint64_t tag;
};

struct fake_plan fake_plan;
static struct world *worlds[WORLDS_MAX];

const struct backend_ops *const backends[] = { &backend_fake, NULL };

const struct backend_ops *backend_find(struct str id)
{
    return str_eq(id, str_from(backend_fake.id)) ? &backend_fake : NULL;
}

/* --- the inside --- */

static struct world *find_world(const char *id)
{
    for (size_t i = 0; i < WORLDS_MAX; i++)
        if (worlds[i] && strcmp(worlds[i]->id, id) == 0)
            return worlds[i];
    return NULL;
}

static struct world *make_world(const char *id)
{
    for (size_t i = 0; i < WORLDS_MAX; i++)
        if (!worlds[i]) {
            worlds[i] = calloc(1, sizeof *worlds[i]);
            CHECK(worlds[i]);
            snprintf(worlds[i]->id, ID_MAX, "%s", id);
            listeners_init(&worlds[i]->listeners);
            worlds[i]->rejects = -1;
            return worlds[i];
        }
    FAIL("too many boxes");
}

static void close_inside(struct fake_process *p)
{
    drop_fd(&p->in);
    drop_fd(&p->out);
    drop_fd(&p->err);
}

static void free_process(struct fake_process *p)
{
    close_inside(p);
    for (int i = 0; i < 3; i++)
        drop_fd(&p->outer[i]);
    free(p);
}

static void end_world(struct world *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        free_process(w->process[i]);
    listeners_done(&w->listeners);
    drop_fd(&w->rejects);
    for (size_t i = 0; i < WORLDS_MAX; i++)
        if (worlds[i] == w)
            worlds[i] = NULL;
    free(w);
}

void fake_forget_all(void)
{
    for (size_t i = 0; i < WORLDS_MAX; i++)
        if (worlds[i])
            end_world(worlds[i]);
}

size_t fake_box_count(void)
{
    size_t n = 0;

    for (size_t i = 0; i < WORLDS_MAX; i++)
        n += worlds[i] != NULL;
    return n;
}

struct fake_process *fake_find(const char *box, uint32_t proc)
{
    struct world *w = find_world(box);

    return w && proc >= 1 && proc <= w->n ? w->process[proc - 1] : NULL;
}

struct fake_process *fake_last(const char *box)
{
    struct world *w = find_world(box);

    return w ? fake_find(box, w->n) : NULL;
}

void fake_write(struct fake_process *p, int channel, const char *text)
{
    int fd = channel == 2 ? p->err : p->out;

    CHECK_INT(write(fd, text, strlen(text)), strlen(text));
}

static void make_pipe(int *reader, int *writer, bool outer_reads)
{
    int fd[2];

    CHECK(pipe2(fd, O_CLOEXEC) == 0);
    *reader = fd[0];
    *writer = fd[1];
    CHECK(fcntl(outer_reads ? fd[0] : fd[1], F_SETFL, O_NONBLOCK) == 0);
}

static void make_stdio(struct fake_process *p)
{
    int fd[2];

    p->in = p->out = p->err = p->outer[0] = p->outer[1] = p->outer[2] = -1;
    if (p->flags & START_TTY) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
        CHECK(fcntl(fd[0], F_SETFL, O_NONBLOCK) == 0);
        p->outer[0] = fd[0];
        p->in = fd[1];
        p->out = fcntl(fd[1], F_DUPFD_CLOEXEC, 3);
        return;
    }
    if (p->flags & START_STDIN)
        make_pipe(&p->in, &p->outer[0], false);
    make_pipe(&p->outer[1], &p->out, true);
    make_pipe(&p->outer[2], &p->err, true);
}

static struct fake_process *make_process(struct world *w, const struct process_start *s)
{
    struct fake_process *p = calloc(1, sizeof *p);

    CHECK(p && w->n < INSIDE_MAX);
    p->flags = s->flags;
    p->cookie = s->cookie;
    make_stdio(p);
    w->process[w->n++] = p;
    p->proc = w->n;
    return p;
}

static int open_listener(int type)
{
    struct sockaddr_in loopback = { .sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)&loopback, sizeof loopback) == 0);
    CHECK(type != SOCK_STREAM || listen(fd, 16) == 0);
    return fd;
}

static void open_boundary(struct world *w)
{
    static const enum listener_slot streams[] = { LISTENER_PROXY4, LISTENER_CAPTURE4,
                                                  LISTENER_DNS_TCP4 };
    int pair[2];

    for (size_t i = 0; i < COUNT_OF(streams); i++)
        w->listeners.fd[streams[i]] = open_listener(SOCK_STREAM);
    w->listeners.fd[LISTENER_DNS_UDP4] = open_listener(SOCK_DGRAM);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    w->listeners.fd[LISTENER_REJECTS] = pair[0];
    w->rejects = pair[1];
}

int fake_listener(const char *box, enum listener_slot slot)
{
    struct world *w = find_world(box);

    return w ? w->listeners.fd[slot] : -1;
}

/* --- telling --- */

static struct fake_box *of(struct backend_box *b)
{
    return container_of(b, struct fake_box, backend);
}

static void on_news(struct loop_later *l)
{
    struct news *n = container_of(l, struct news, later);

    link_leave(&n->link);
    n->tell(n);
    free(n);
}

static struct news *tell_later(struct fake_box *b, void (*tell)(struct news *n))
{
    struct news *n = calloc(1, sizeof *n);

    CHECK(n);
    n->box = b;
    n->tell = tell;
    list_append(&b->news, &n->link);
    CHECK(loop_later(b->backend.backend->context.loop, &n->later, on_news, NULL) >= 0);
    return n;
}

static int failure(const struct news *n, struct err *e)
{
    return n->failure ? err_set(e, ERR_UPSTREAM, "%s", n->failure) : 0;
}

static void tell_provisioned(struct news *n)
{
    struct backend_box *b = &n->box->backend;
    struct err e;
    int r = failure(n, &e);

    b->events->provisioned(b, r, &e);
}

static void tell_ready(struct news *n)
{
    struct backend_box *b = &n->box->backend;
    struct err e;
    int r = failure(n, &e);

    b->events->ready(b, r, &e);
}

static void tell_assigned(struct news *n)
{
    struct backend_box *b = &n->box->backend;
    struct err e;
    int r = failure(n, &e);

    b->events->assigned(b, r, &e);
}

static void tell_adopted(struct news *n)
{
    struct backend_box *b = &n->box->backend;
    struct world *w = find_world(b->id);
    struct backend_found found[INSIDE_MAX];
    size_t count = 0;
    struct err e;

    if (!w) {
        b->events->adopted(b, err_set(&e, ERR_NOT_FOUND, "there is no box %s", b->id), &e, NULL, 0);
        return;
    }
    n->box->world = w;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct fake_process *p = w->process[i];

        if ((p->flags & START_KEEP) && !p->forgotten)
            found[count++] = (struct backend_found){ .proc = p->proc,
                                                     .pid = (int)p->proc + 100,
                                                     .cookie = p->cookie,
                                                     .ended = p->ended,
                                                     .tty = p->flags & START_TTY,
                                                     .has_stdin = p->flags & START_STDIN,
                                                     .how = (int)p->end.how,
                                                     .status = p->end.status };
    }
    b->events->adopted(b, 0, NULL, found, count);
}

static void tell_usage(struct news *n)
{
    fake_plan.looks++;
    fake_plan.usage.cpu_ns += fake_plan.cpu_a_look;
    n->box->backend.events->usage(&n->box->backend, 0, &fake_plan.usage);
}

static void tell_listeners(struct news *n)
{
    struct backend_box *b = &n->box->backend;
    struct listeners l;
    struct err e;
    int r = failure(n, &e);

    if (r >= 0 && (!n->box->world || n->box->world->rejects < 0))
        r = err_set(&e, ERR_NOT_FOUND, "the box is not running, or has no network boundary");
    if (r < 0) {
        b->events->listeners(b, r, &e, NULL);
        return;
    }
    for (size_t i = 0; i < LISTENER_COUNT_; i++) {
        int fd = n->box->world->listeners.fd[i];

        l.fd[i] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    }
    b->events->listeners(b, 0, NULL, &l);
    listeners_done(&l);
}

static void tell_who(struct news *n)
{
    static const struct backend_who nobody = { 0 };
    struct backend_box *b = &n->box->backend;
    struct err e;
    int r = failure(n, &e);

    if (r < 0)
        b->events->who(b, n->tag, r, &e, NULL);
    else
        b->events->who(b, n->tag, 0, NULL, fake_plan.who ? fake_plan.who : &nobody);
}

static struct backend_process *let_go(struct fake_process *p)
{
    struct backend_process *x = p->owner;

    p->owner = NULL;
    x->box = NULL;
    return x;
}

static void tell_ended(struct news *n)
{
    struct fake_process *p = n->inside;

    if (p->owner && p->ended)
        n->process = let_go(p), n->process->events->ended(n->process, &p->end);
}

static void hand_out(struct fake_process *p, struct backend_process *x)
{
    for (int i = 0; i < 3; i++)
        x->stdio[i] = p->outer[i] < 0 ? -1 : fcntl(p->outer[i], F_DUPFD_CLOEXEC, 3);
    x->proc = p->proc;
    x->pid = (int)p->proc + 100;
}

static void tell_started(struct news *n)
{
    struct fake_process *p = n->inside;
    struct backend_process *x = n->process;
    struct err e;
    int r = failure(n, &e);

    if (x->box != &n->box->backend || (p && p->owner != x))
        return; /* dropped meanwhile */
    if (r < 0 || !p) {
        if (p)
            p->owner = NULL;
        x->box = NULL;
        x->events->started(x, r, &e);
        return;
    }
    hand_out(p, x);
    x->events->started(x, 0, NULL);
    if (p->ended && p->owner)
        tell_later(n->box, tell_ended)->inside = p;
}

static void lose_all(struct fake_box *b)
{
    for (uint32_t i = 0; b->world && i < b->world->n; i++) {
        struct fake_process *p = b->world->process[i];

        close_inside(p);
        if (!p->ended)
            p->end = (struct backend_end){ .how = BACKEND_LOST };
        p->ended = true;
        if (p->owner) {
            struct backend_process *x = let_go(p);

            x->events->ended(x, &p->end);
        }
    }
}

static void tell_torn_down(struct news *n)
{
    struct backend_box *b = &n->box->backend;
    struct world *w = find_world(b->id);

    lose_all(n->box);
    n->box->world = NULL;
    if (w)
        end_world(w);
    b->events->torn_down(b, 0, NULL, &(struct backend_report){ 0 });
}

static void tell_gone(struct news *n)
{
    lose_all(n->box);
    n->box->backend.events->gone(&n->box->backend, "it was killed by a test");
}

/* --- what tests do to it --- */

static struct fake_box *box_of_process(const struct fake_process *p)
{
    return p->owner ? of(p->owner->box) : NULL;
}

void fake_end(struct fake_process *p, enum backend_how how, int status, bool keep_open)
{
    struct fake_box *b = box_of_process(p);

    p->ended = true;
    p->end = (struct backend_end){ .how = how, .status = status };
    if (!keep_open)
        close_inside(p);
    if (b)
        tell_later(b, tell_ended)->inside = p;
}

static struct fake_box *boxes[WORLDS_MAX];

void fake_kill_box(const char *id)
{
    for (size_t i = 0; i < WORLDS_MAX; i++)
        if (boxes[i] && strcmp(boxes[i]->backend.id, id) == 0) {
            tell_later(boxes[i], tell_gone);
            return;
        }
    FAIL("there is no box %s", id);
}

/* --- the row --- */

static int fake_open(const struct backend_context *c, struct backend **ret, struct err *e)
{
    struct backend *x = calloc(1, sizeof *x);

    CHECK(x);
    x->context = *c;
    *ret = x;
    return 0;
}

static void fake_close(struct backend *x)
{
    free(x);
}

static int fake_sweep(struct backend *x, backend_known_fn *known, backend_stale_fn *each,
                      void *user, struct err *e)
{
    for (size_t i = 0; i < WORLDS_MAX; i++)
        if (worlds[i] && !known(user, worlds[i]->id)) {
            each(user, worlds[i]->id, "box");
            end_world(worlds[i]);
        }
    return 0;
}

static int fake_stale(struct backend *x, backend_known_fn *known, backend_stale_fn *each,
                      void *user, struct err *e)
{
    for (size_t i = 0; i < WORLDS_MAX; i++)
        if (worlds[i] && !known(user, worlds[i]->id))
            each(user, worlds[i]->id, "box");
    return 0;
}

static struct backend_box *fake_box_new(struct backend *x, const char *id,
                                        const struct backend_box_events *events, void *owner)
{
    struct fake_box *b = calloc(1, sizeof *b);

    CHECK(b);
    b->backend = (struct backend_box){
        .ops = &backend_fake, .backend = x, .events = events, .owner = owner
    };
    snprintf(b->backend.id, sizeof b->backend.id, "%s", id);
    for (size_t i = 0; i < WORLDS_MAX; i++)
        if (!boxes[i]) {
            boxes[i] = b;
            return &b->backend;
        }
    FAIL("too many boxes");
}

static void fake_box_free(struct backend_box *x)
{
    struct fake_box *b = of(x);

    for (struct link *m; (m = list_take(&b->news));) {
        struct news *n = container_of(m, struct news, link);

        loop_later_stop(&n->later);
        if (n->process)
            n->process->box = NULL;
        free(n);
    }
    for (uint32_t i = 0; b->world && i < b->world->n; i++)
        if (b->world->process[i]->owner)
            let_go(b->world->process[i]);
    for (size_t i = 0; i < WORLDS_MAX; i++)
        if (boxes[i] == b)
            boxes[i] = NULL;
    free(b);
}

static void fake_provision(struct backend_box *x, const struct backend_spec *s)
{
    struct fake_box *b = of(x);

    if (!fake_plan.fail_provision)
        b->world = make_world(x->id);
    if (b->world && s->egress)
        open_boundary(b->world);
    snprintf(x->handle, sizeof x->handle, "fake:%s", x->id);
    snprintf(x->step, sizeof x->step, "%s", fake_plan.fail_provision ? "fake" : "");
    tell_later(b, tell_provisioned)->failure = fake_plan.fail_provision;
}

static void fake_wait_ready(struct backend_box *x)
{
    tell_later(of(x), tell_ready)->failure = fake_plan.fail_ready;
}

static void fake_assign(struct backend_box *x, const struct backend_owner *o)
{
    snprintf(fake_plan.assigned, sizeof fake_plan.assigned, "%s", o->key);
    tell_later(of(x), tell_assigned)->failure = fake_plan.fail_assign;
}

static void fake_adopt(struct backend_box *x, const char *handle)
{
    snprintf(x->handle, sizeof x->handle, "%s", handle);
    tell_later(of(x), tell_adopted);
}

static void fake_teardown(struct backend_box *x)
{
    tell_later(of(x), tell_torn_down);
}

static bool fake_alive(struct backend_box *x)
{
    return true;
}

static void fake_usage(struct backend_box *x)
{
    tell_later(of(x), tell_usage);
}

static void fake_listeners(struct backend_box *x)
{
    tell_later(of(x), tell_listeners)->failure = fake_plan.fail_listeners;
}

static void fake_who(struct backend_box *x, uint64_t tag, uint64_t inode)
{
    struct news *n = tell_later(of(x), tell_who);

    n->tag = tag;
    n->failure = of(x)->world ? fake_plan.fail_who : "the box is not running";
}

static void fake_start(struct backend_box *x, struct backend_process *p,
                       const struct process_start *s)
{
    struct fake_box *b = of(x);
    struct news *n = tell_later(b, tell_started);

    *p = (struct backend_process){ .box = x, .events = p->events, .stdio = { -1, -1, -1 } };
    n->process = p;
    n->failure = b->world ? fake_plan.fail_start : "the box is not running";
    if (n->failure)
        return;
    n->inside = make_process(b->world, s);
    n->inside->owner = p;
}

static struct fake_process *inside_of(struct backend_process *x)
{
    struct world *w = x->box ? of(x->box)->world : NULL;

    for (uint32_t i = 0; w && i < w->n; i++)
        if (w->process[i]->owner == x)
            return w->process[i];
    return NULL;
}

static void fake_signal(struct backend_process *x, int sig, enum backend_scope scope)
{
    struct fake_process *p = inside_of(x);

    if (!p || p->ended)
        return;
    p->sig = sig;
    p->scope = scope;
    if (sig == SIGKILL)
        fake_end(p, BACKEND_SIGNALLED, SIGKILL, false);
}

static void fake_signal_all(struct backend_box *x, int sig)
{
    struct world *w = of(x)->world;

    for (uint32_t i = 0; w && i < w->n; i++)
        w->process[i]->sig = sig;
}

static void fake_close_stdin(struct backend_process *x)
{
    struct fake_process *p = inside_of(x);

    if (p && !(p->flags & START_TTY))
        drop_fd(&p->outer[0]);
}

static void fake_drop(struct backend_process *x)
{
    struct fake_process *p = inside_of(x);

    if (p)
        p->owner = NULL;
    x->box = NULL;
}

static struct {
    struct backend_box *box;
    struct backend_process *process;
    uint32_t proc;
} held;

static void fake_reattach(struct backend_box *x, struct backend_process *p, uint32_t proc)
{
    struct fake_box *b = of(x);
    struct news *n;

    if (fake_plan.reattach_waits) {
        held.box = x;
        held.process = p;
        held.proc = proc;
        return;
    }
    n = tell_later(b, tell_started);
    *p = (struct backend_process){ .box = x, .events = p->events, .stdio = { -1, -1, -1 } };
    n->process = p;
    n->inside = fake_find(x->id, proc);
    n->failure = n->inside ? fake_plan.fail_reattach : "there is no such process";
    if (n->inside)
        n->inside->owner = p;
}

void fake_reattach_held(void)
{
    fake_plan.reattach_waits = false;
    fake_reattach(held.box, held.process, held.proc);
}

static void fake_forget(struct backend_box *x, uint32_t proc)
{
    struct fake_process *p = fake_find(x->id, proc);

    if (p)
        p->forgotten = true;
}

static int fake_estimate(const struct profile *p, int64_t duration_ns, struct backend_quote *ret,
                         struct err *e)
{
    *ret = (struct backend_quote){ 0 };
    return 0;
}

static const char *const nothing[] = { NULL };

const struct backend_ops backend_fake = {
    .id = "ext.fake",
    .version = "1",
    .can = BACKEND_CAN_EXEC | BACKEND_CAN_FILES | BACKEND_CAN_REATTACH | BACKEND_CAN_POOL |
           BACKEND_CAN_USAGE | BACKEND_CAN_EGRESS,
    .vector = { .regions = nothing, .languages = nothing },
    .open = fake_open,
    .close = fake_close,
    .sweep = fake_sweep,
    .stale = fake_stale,
    .box_new = fake_box_new,
    .box_free = fake_box_free,
    .provision = fake_provision,
    .wait_ready = fake_wait_ready,
    .assign = fake_assign,
    .adopt = fake_adopt,
    .teardown = fake_teardown,
    .usage = fake_usage,
    .alive = fake_alive,
    .listeners = fake_listeners,
    .who = fake_who,
    .start = fake_start,
    .signal = fake_signal,
    .signal_all = fake_signal_all,
    .close_stdin = fake_close_stdin,
    .drop = fake_drop,
    .reattach = fake_reattach,
    .forget = fake_forget,
    .estimate = fake_estimate,
};
