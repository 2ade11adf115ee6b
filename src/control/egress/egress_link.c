#include "control/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/anchors.h"
#include "control/outlet_inside.h"
#include "control/owner_share.h"
#include "control/plane.h"
#include "control/sandbox.h"
#include "crypto/secret.h"
#include "egress/wire.h"
#include "ipc/listeners.h"

#define APPLY_NS  (10 * NS_PER_S)  /* for a policy to be in force */
#define REST_NS   NS_PER_S         /* until a box that failed is tried again */
#define LOCKED_NS (20 * NS_PER_MS) /* until the log of a worker that ends is asked for again */
#define CLOSE_NS  (2 * NS_PER_S)   /* for a worker to tell its last counters */
enum { ADDING_MAX = 64 }; /* boxes on their way to one worker: each is a dozen descriptors */

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

static void send_room(struct outlet *o, struct outlet_room room, const int *fd)
{
    struct wire_audit m = { .room = room.bytes, .lack = room.lack };

    wire_fill(&m.head, WIRE_AUDIT, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    egress_worker_send(&o->worker->process, &m, sizeof m, fd, fd ? 1 : 0);
}

void outlet_rotate_log(struct outlet *o)
{
    AUTO_CLOSE int fd = -1;
    struct err e;

    if (outlet_log_rotate(o->control, o->box->id, &fd, &e) < 0)
        LOG(ERROR, "egress.audit_failed", LOG_S("error", e.msg));
    else
        send_room(o, outlet_room_begin(o), &fd);
}

static bool is_rotation_due(const struct outlet *o)
{
    return outlet_part_bytes(o->control, o->box->id, OUTLET_PART_NOW) > outlet_part_max(o->control);
}

/* Without room the worker asks again, and allows nothing meanwhile. */
void outlet_give_room(struct outlet *o)
{
    if (o->state == OUTLET_OPEN)
        send_room(o, outlet_room_more(o), NULL);
}

static void rest(struct outlet *o);
static void rest_for(struct outlet *o, int64_t ns);

void outlet_policy_failed(struct outlet *o, int r, const struct err *e)
{
    LOG(ERROR, "egress.policy_failed", LOG_S("sandbox", o->box->id), LOG_S("error", e->msg));
    finish_up_to(o, o->generation, r, e);
}

/* The policy is not in force, and is tried again with the next worker or policy. */
static void on_recount(struct loop_timer *t)
{
    struct outlet *o = container_of(t, struct outlet, recount);
    struct err e;
    int r = outlet_count_places(o, &e);

    if (r < 0)
        outlet_policy_failed(o, r, &e);
    else
        outlet_advance(o);
}

/* The worker may connect to all places of a policy before it has the policy. */
static bool is_placed(struct outlet *o)
{
    struct err e;

    if (outlet_count_places(o, &e) >= 0)
        return outlet_has_places(o);
    if (!loop_timer_started(&o->recount))
        loop_timer_start(o->control->loop, &o->recount, clock_mono(), on_recount, NULL);
    return false;
}

static void send_policy(struct outlet *o)
{
    struct wire_box m = { .generation = o->generation };
    struct err e;
    AUTO_CLOSE int fd = make_memfd(o->policy->json, &e);
    AUTO_CLOSE int ceiling = fd < 0 ? -1 : make_memfd(o->policy->ceiling, &e);

    if (fd < 0 || ceiling < 0) {
        LOG(ERROR, "egress.policy_failed", LOG_S("sandbox", o->box->id), LOG_S("error", e.msg));
        rest(o);
        return;
    }
    wire_fill(&m.head, WIRE_POLICY, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    o->sent = o->generation;
    egress_worker_send(&o->worker->process, &m, sizeof m, (const int[]){ fd, ceiling }, 2);
    if (o->policy->spent) { /* the uses are this worker's alone */
        struct policy_text *spent = policy_text_ref(o->policy->spent);

        policy_text_unref(o->policy);
        o->policy = spent;
    }
}

/* The worker knows it. */
static bool is_served(enum outlet_state s)
{
    return s == OUTLET_ADDING || s == OUTLET_OPEN;
}

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
        outlet_advance(container_of(next, struct outlet, turn));
}

void outlet_advance(struct outlet *o)
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
    } else if (o->state == OUTLET_OPEN && o->sent < o->generation && is_placed(o)) {
        send_policy(o);
    }
}

static void on_rested(struct loop_timer *t)
{
    outlet_advance(container_of(t, struct outlet, rest));
}

static void rest_for(struct outlet *o, int64_t ns)
{
    if (!loop_timer_started(&o->rest))
        loop_timer_start(o->control->loop, &o->rest, clock_mono() + ns, on_rested, NULL);
}

static void rest(struct outlet *o)
{
    rest_for(o, REST_NS);
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
    struct wire_add m = { .audit_part = outlet_part_max(o->control) };
    struct outlet_room room;
    AUTO_CLOSE int audit = -1;
    int fds[LISTENER_COUNT_ + 1];
    size_t n = listeners_pack(l, fds, &m.slots);
    const unsigned char *key = store_ledger_key(o->control->store);
    struct err e;
    int r = outlet_log_append(o->control, o->box->id, &audit, &o->line, &e);

    if (r == -ERR_BUSY) { /* the worker before has not ended yet */
        rest_for(o, LOCKED_NS);
        enter(o, OUTLET_CLOSED);
        return;
    }
    if (r < 0) { /* nothing passes without a record */
        failed(o, &e);
        return;
    }
    m.chain_seq = o->line.seq;
    memcpy(m.chain_digest, o->line.digest, sizeof m.chain_digest);
    m.has_chain_key = key != NULL;
    if (key)
        chain_box_key(key, o->box->id, m.chain_key);
    wire_fill(&m.head, WIRE_ADD, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    m.has_audit = 1;
    room = outlet_room_begin(o);
    m.audit_room = room.bytes;
    m.audit_lack = room.lack;
    fds[n++] = audit;
    enter(o, OUTLET_ADDING);
    egress_worker_send(&o->worker->process, &m, sizeof m, fds, n);
    crypto_wipe(m.chain_key, sizeof m.chain_key);
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
    outlet_advance(o);
}

static void on_applied(struct outlet *o, const void *message)
{
    const struct wire_box *m = message;

    if (m->generation != o->sent || o->state != OUTLET_OPEN)
        return;
    if (m->generation > 1)
        anchors_soon(o->control);
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
    o->line.seq = m->chain_seq;
    memcpy(o->line.digest, m->chain_digest, sizeof o->line.digest);
    if (at && moved)
        idle_note(&container_of(at, struct sandbox, entry)->idle, USE_EGRESS);
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
    if (o->state != OUTLET_OPEN)
        return;
    if (is_rotation_due(o))
        outlet_rotate_log(o);
    else
        outlet_give_room(o);
}

static void closed(struct outlet *o)
{
    struct outlet_op *op = take_ptr(o->closing);

    enter(o, OUTLET_CLOSED);
    if (op)
        finish_op(op, 0, NULL);
}

static void on_removed(struct outlet *o, const void *message)
{
    (void)message;
    if (o->state == OUTLET_CLOSING)
        closed(o);
}

static void (*const answers[])(struct outlet *o, const void *message) = {
    [WIRE_ADDED] = on_added,     [WIRE_APPLIED] = on_applied, [WIRE_FAILED] = on_failed,
    [WIRE_USED] = on_used,       [WIRE_FULL] = on_full,       [WIRE_WHO] = on_who,
    [WIRE_REMOVED] = on_removed,
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
    struct outlet_worker *w = container_of(p, struct outlet_worker, process);

    outlet_places_up(w);
    each_outlet(w, outlet_advance);
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
    bool closing = o->state == OUTLET_CLOSING;

    o->sent = o->applied = 0;
    add_counters(&o->before, &o->now);
    o->now = (struct outlet_counters){ 0 };
    if (closing)
        closed(o);
    else if (o->state != OUTLET_ASKING)
        enter(o, OUTLET_CLOSED);
}

static void on_down(struct egress_worker *p)
{
    struct outlet_worker *w = container_of(p, struct outlet_worker, process);

    outlet_places_down(w);
    each_outlet(w, lose);
}

const struct egress_worker_events outlet_worker_events = { .up = on_up,
                                                           .down = on_down,
                                                           .message = on_message };

/* ---- outlets ---- */

struct outlet *outlet_find(struct control *c, const char *box)
{
    struct index_entry *at = index_find(&c->outlets.index, str_from(box));

    return at ? container_of(at, struct outlet, entry) : NULL;
}

struct outlet *outlet_new(struct control *c, struct ext_box *b, enum outlet_share share,
                          const char *owner, const char *family)
{
    struct outlet *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    o->control = c;
    o->box = b;
    o->entry.id = b->id;
    if (owner)
        outlet_set_owner(o, owner, family);
    outlet_join_worker(o, share, owner ? account_of(c, owner, family).name : NULL);
    index_add(&c->outlets.index, &o->entry);
    outlet_advance(o);
    return o;
}

static void send_remove(struct outlet *o)
{
    struct wire_box m = { .generation = 0 };

    wire_fill(&m.head, WIRE_REMOVE, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    if (is_served(o->state))
        egress_worker_send(&o->worker->process, &m, sizeof m, NULL, 0);
}

static void on_close_time(struct loop_timer *t)
{
    struct outlet_op *op = container_of(t, struct outlet_op, timer_);
    struct outlet *o = op->outlet_;

    LOG(WARN, "egress.uncounted", LOG_S("sandbox", o->box->id));
    closed(o);
}

static void close_now(struct loop_timer *t)
{
    closed(container_of(t, struct outlet_op, timer_)->outlet_);
}

void outlet_close(struct outlet *o, struct outlet_op *op)
{
    bool wait = is_served(o->state) && egress_worker_is_up(&o->worker->process);
    int64_t now = clock_mono();

    send_remove(o);
    link_leave(&o->turn);
    loop_timer_stop(&o->rest);
    o->closing = op;
    op->outlet_ = o;
    enter(o, OUTLET_CLOSING);
    loop_timer_start(o->control->loop, &op->timer_, wait ? now + CLOSE_NS : now,
                     wait ? on_close_time : close_now, NULL);
}

void outlet_abandon(struct outlet *o)
{
    struct err e;
    int r = err_set(&e, ERR_CONFLICT, "%s is on its way out", o->box->id);

    finish_up_to(o, 0, r, &e);
}

void outlet_free(struct outlet *o)
{
    struct outlet_counters all;

    if (!o)
        return;
    feed_outlet_ends(o);
    anchors_note(o);
    outlet_log_date(o->control, o->box->id);
    outlet_room_end(o);
    send_remove(o);
    all = outlet_counters(o);
    add_counters(&o->control->outlets.ended, &all);
    link_leave(&o->turn);
    enter(o, OUTLET_CLOSED);
    outlet_drop_places(o);
    outlet_leave_worker(o);
    index_remove(&o->control->outlets.index, &o->entry);
    loop_timer_stop(&o->rest);
    loop_timer_stop(&o->recount);
    outlet_abandon(o);
    policy_text_unref(o->policy);
    free(o);
}

void outlet_forget(struct outlet *o)
{
    for (struct link *l; (l = list_take(&o->waiting));)
        loop_timer_stop(&container_of(l, struct outlet_op, link_)->timer_);
    if (o->closing)
        loop_timer_stop(&take_ptr(o->closing)->timer_);
    outlet_free(o);
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
    (void)is_placed(o); /* while its listeners are still on their way */
    outlet_advance(o);
}

void outlet_put_line(const struct outlet *o, struct egress_head_record *ret)
{
    snprintf(ret->sandbox, sizeof ret->sandbox, "%s", o->box->id);
    ret->seq = o->line.seq;
    memcpy(ret->digest, o->line.digest, sizeof ret->digest);
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
