/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/egress_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/anchors.h"
#include "control/egress/egress_link_internal.h"
#include "control/owner/owner_share.h"
#include "control/plane/plane.h"
#include "lib/crypto/secret.h"
#include "engine/egress/wire.h"
#include "lib/ipc/listeners.h"
#include "lib/proc/sealed.h"

#define APPLY_NS      (10 * NS_PER_S)  /* for a policy to get into force */
#define LINK_RETRY_NS NS_PER_S         /* until a failed box is retried */
#define LOCKED_NS     (20 * NS_PER_MS) /* until the log of an ending worker is tried again */
#define CLOSE_NS      (2 * NS_PER_S)   /* for a worker to report its last counters */
enum { ADDING_MAX = 64 }; /* boxes being added to one worker: each needs a dozen descriptors */

/* ---- waiting ---- */

static void finish_link_op(struct egress_link_op *op, int r, const struct err *e)
{
    link_leave(&op->link_);
    loop_timer_stop(&op->timer_);
    op->done(op, r, e);
}

/* Completes the operations that wait for this generation or an earlier one; 0: all. done may start
 * another. */
static void finish_waiting_ops(struct egress_link *o, uint64_t generation, int r,
                               const struct err *e)
{
    struct list finished = { 0 };

    LIST_EACH_SAFE (struct egress_link_op, op, &o->waiting, link_) {
        if (generation && op->generation_ > generation)
            continue;
        link_leave(&op->link_);
        list_append(&finished, &op->link_);
    }
    for (struct link *l; (l = list_first(&finished));)
        finish_link_op(container_of(l, struct egress_link_op, link_), r, e);
}

static void on_apply_timeout(struct loop_timer *t)
{
    struct err e;
    int r =
        err_set(&e, ERR_TIMEOUT,
                "no egress worker has applied the policy yet; everything is denied until one does");

    finish_link_op(container_of(t, struct egress_link_op, timer_), r, &e);
}

/* ---- to the worker ---- */

static void send_log_room(struct egress_link *o, struct egress_link_room room, const int *fd)
{
    struct wire_audit m = { .room = room.bytes, .lack = room.lack };

    wire_fill(&m.head, WIRE_AUDIT, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    egress_worker_send(&o->worker->process, &m, sizeof m, fd, fd ? 1 : 0);
}

void egress_link_rotate_log(struct egress_link *o)
{
    AUTO_CLOSE int fd = -1;
    struct err e;

    if (egress_link_log_rotate(o->control, o->box->id, &fd, &e) < 0)
        LOG(ERROR, "egress.audit_failed", LOG_S("error", e.msg));
    else
        send_log_room(o, egress_link_room_begin(o), &fd);
}

/* Without room, the worker asks again, and denies everything meanwhile. */
void egress_link_give_room(struct egress_link *o)
{
    if (o->state == EGRESS_LINK_OPEN)
        send_log_room(o, egress_link_room_more(o), NULL);
}

static void retry_link(struct egress_link *o, int64_t ns);

void egress_link_log_flaw(const char *box, uint64_t generation, const char *why)
{
    char remedy[sizeof "sandboxer egress set  FILE" + ID_MAX];

    snprintf(remedy, sizeof remedy, "sandboxer egress set %s FILE", box);
    LOG(ERROR, "egress.policy_failed", LOG_S("sandbox", box),
        LOG_I("generation", (int64_t)generation), LOG_S("error", why), LOG_S("remedy", remedy));
}

static void note_flaw(struct egress_link *o, const char *why)
{
    bool known = strcmp(o->flaw, why) == 0 || o->policy->problem;

    snprintf(o->flaw, sizeof o->flaw, "%s", why);
    if (!known)
        egress_link_log_flaw(o->box->id, o->generation, why);
}

void egress_link_policy_failed(struct egress_link *o, int r, const struct err *e)
{
    note_flaw(o, e->msg);
    finish_waiting_ops(o, o->generation, r, e);
}

/* The policy is not in force; it is tried again with the next worker or policy. */
static void on_recount(struct loop_timer *t)
{
    struct egress_link *o = container_of(t, struct egress_link, recount);
    struct err e;
    int r = egress_link_count_places(o, &e);

    if (r < 0)
        egress_link_policy_failed(o, r, &e);
    else
        egress_link_advance(o);
}

/* The worker must be able to connect to all places of a policy before it gets the policy. */
static bool prepare_places(struct egress_link *o)
{
    struct err e;

    if (egress_link_count_places(o, &e) >= 0)
        return egress_link_has_places(o);
    if (!loop_timer_started(&o->recount))
        loop_timer_start(o->control->loop, &o->recount, clock_mono(), on_recount, NULL);
    return false;
}

static void send_link_policy(struct egress_link *o)
{
    struct wire_box m = { .generation = o->generation };
    struct err e;
    AUTO_CLOSE int fd = -1, ceiling = -1;

    if (sealed_text(o->policy->json, "policy", &fd, &e) < 0 ||
        sealed_text(o->policy->ceiling, "ceiling", &ceiling, &e) < 0) {
        note_flaw(o, e.msg);
        retry_link(o, LINK_RETRY_NS);
        return;
    }
    wire_fill(&m.head, WIRE_POLICY, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    o->sent = o->generation;
    egress_worker_send(&o->worker->process, &m, sizeof m, (const int[]){ fd, ceiling }, 2);
    if (o->policy->spent) { /* the limited uses belong to this worker only */
        struct policy_text *spent = policy_text_ref(o->policy->spent);

        policy_text_unref(o->policy);
        o->policy = spent;
    }
}

/* The worker knows the link. */
static bool is_link_served(enum egress_link_state s)
{
    return s == EGRESS_LINK_ADDING || s == EGRESS_LINK_OPEN;
}

static bool is_adding(enum egress_link_state s)
{
    return s == EGRESS_LINK_REQUESTING || s == EGRESS_LINK_ADDING;
}

static void enter_link_state(struct egress_link *o, enum egress_link_state s)
{
    struct egress_link_worker *w = o->worker;
    bool was = is_adding(o->state), is = is_adding(s);
    struct link *next;

    o->state = s;
    w->adding += (unsigned)is - (unsigned)was;
    if (was && !is && (next = list_take(&w->waiting)))
        egress_link_advance(container_of(next, struct egress_link, turn));
}

void egress_link_advance(struct egress_link *o)
{
    struct egress_link_worker *w = o->worker;

    if (!egress_worker_is_up(&w->process))
        return;
    if (o->state == EGRESS_LINK_CLOSED && w->adding >= ADDING_MAX) {
        if (!link_joined(&o->turn))
            list_append(&w->waiting, &o->turn);
    } else if (o->state == EGRESS_LINK_CLOSED) {
        link_leave(&o->turn);
        enter_link_state(o, EGRESS_LINK_REQUESTING);
        o->box->ops->listeners(o->box);
    } else if (o->state == EGRESS_LINK_OPEN && o->sent < o->generation && prepare_places(o)) {
        send_link_policy(o);
    }
}

static void on_link_retry(struct loop_timer *t)
{
    egress_link_advance(container_of(t, struct egress_link, retry));
}

static void retry_link(struct egress_link *o, int64_t ns)
{
    if (!loop_timer_started(&o->retry))
        loop_timer_start(o->control->loop, &o->retry, clock_mono() + ns, on_link_retry, NULL);
}

/* The link is retried; waiting operations fail. */
static void fail_link(struct egress_link *o, const struct err *e)
{
    LOG(ERROR, "egress.failed", LOG_S("sandbox", o->box->id), LOG_S("error", e->msg));
    retry_link(o, LINK_RETRY_NS);
    enter_link_state(o, EGRESS_LINK_CLOSED);
    finish_waiting_ops(o, 0, -(int)e->code, e);
}

static void send_link_add(struct egress_link *o, const struct listeners *l)
{
    struct wire_add m = { .audit_part = egress_link_part_max(o->control) };
    struct egress_link_room room;
    AUTO_CLOSE int audit = -1;
    int fds[LISTENER_COUNT_ + 1];
    size_t n = listeners_pack(l, fds, &m.slots);
    const unsigned char *key = store_ledger_key(o->control->store);
    struct err e;
    int r = egress_link_log_append(o->control, o->box->id, &audit, &o->line, &e);

    if (r == -ERR_BUSY) { /* the previous worker has not ended yet */
        retry_link(o, LOCKED_NS);
        enter_link_state(o, EGRESS_LINK_CLOSED);
        return;
    }
    if (r < 0) { /* nothing is allowed without an audit record */
        fail_link(o, &e);
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
    room = egress_link_room_begin(o);
    m.audit_room = room.bytes;
    m.audit_lack = room.lack;
    fds[n++] = audit;
    enter_link_state(o, EGRESS_LINK_ADDING);
    egress_worker_send(&o->worker->process, &m, sizeof m, fds, n);
    crypto_wipe(m.chain_key, sizeof m.chain_key);
}

void egress_link_on_listeners(struct control *c, struct backend_box *b, int r, const struct err *e,
                              struct listeners *l)
{
    struct egress_link *o = egress_link_find(c, b->id);

    if (!o || o->state != EGRESS_LINK_REQUESTING)
        return;
    if (r < 0)
        fail_link(o, e);
    else if (egress_worker_is_up(&o->worker->process))
        send_link_add(o, l);
    else
        enter_link_state(o, EGRESS_LINK_CLOSED); /* the next worker gets it */
}

/* ---- from the worker ---- */

static void on_link_added(struct egress_link *o, const void *message)
{
    if (o->state != EGRESS_LINK_ADDING)
        return;
    enter_link_state(o, EGRESS_LINK_OPEN);
    egress_link_advance(o);
}

static void on_link_applied(struct egress_link *o, const void *message)
{
    const struct wire_box *m = message;

    if (m->generation != o->sent || o->state != EGRESS_LINK_OPEN)
        return;
    if (m->generation > 1)
        anchors_schedule_soon(o->control);
    o->applied = m->generation;
    o->flaw[0] = '\0';
    finish_waiting_ops(o, o->applied, 0, NULL);
}

/* The policy was compiled before it was sent: if the worker refuses it, the previous policy stays
 * in force, and this one is tried again. */
static void on_link_failed(struct egress_link *o, const void *message)
{
    const struct wire_failed *m = message;
    struct err e;

    (void)err_set(&e, m->code > ERR_OK && m->code < ERR_CODE_COUNT_ ? m->code : ERR_BUG,
                  "the egress worker: %s", m->msg);
    if (m->request == WIRE_ADD && o->state == EGRESS_LINK_ADDING) {
        fail_link(o, &e);
    } else if (m->request == WIRE_POLICY && m->generation == o->sent) {
        note_flaw(o, e.msg);
        finish_waiting_ops(o, m->generation, -(int)e.code, &e);
    }
}

static void on_link_used(struct egress_link *o, const void *message)
{
    const struct wire_used *m = message;
    bool moved = m->bytes_out != o->now.bytes_out || m->bytes_in != o->now.bytes_in;

    o->now = (struct egress_link_counters){ .allowed = m->allowed,
                                            .denied = m->denied,
                                            .connections = m->connections,
                                            .bytes_out = m->bytes_out,
                                            .bytes_in = m->bytes_in };
    o->line.seq = m->chain_seq;
    memcpy(o->line.digest, m->chain_digest, sizeof o->line.digest);
    if (moved)
        control_note_egress(o->control, o->box->id);
}

/* The answer must go to the worker that asked: its successor uses the same tags. */
static void on_link_who(struct egress_link *o, const void *message)
{
    const struct wire_who *m = message;

    o->box->ops->who(o->box, o->worker->process.starts << 32 | m->head.tag, m->inode);
}

static void on_link_log_full(struct egress_link *o, const void *message)
{
    if (o->state != EGRESS_LINK_OPEN)
        return;
    if (egress_link_part_bytes(o->control, o->box->id, EGRESS_LINK_PART_NOW) >
        egress_link_part_max(o->control))
        egress_link_rotate_log(o);
    else
        egress_link_give_room(o);
}

static void finish_link_close(struct egress_link *o)
{
    struct egress_link_op *op = take_ptr(o->closing);

    enter_link_state(o, EGRESS_LINK_CLOSED);
    if (op)
        finish_link_op(op, 0, NULL);
}

static void on_link_removed(struct egress_link *o, const void *message)
{
    if (o->state == EGRESS_LINK_CLOSING)
        finish_link_close(o);
}

static void (*const answers[])(struct egress_link *o, const void *message) = {
    [WIRE_ADDED] = on_link_added,     [WIRE_APPLIED] = on_link_applied,
    [WIRE_FAILED] = on_link_failed,   [WIRE_USED] = on_link_used,
    [WIRE_FULL] = on_link_log_full,   [WIRE_WHO] = on_link_who,
    [WIRE_REMOVED] = on_link_removed,
};

/* A worker may report on its own links only. */
static void on_worker_message(struct egress_worker *p, const void *message)
{
    struct egress_link_worker *w = container_of(p, struct egress_link_worker, process);
    const struct wire_box *m = message; /* every message of a worker begins with an id */
    struct egress_link *o = egress_link_find(w->control, m->id);

    if (o && o->worker == w && m->head.type < COUNT_OF(answers) && answers[m->head.type])
        answers[m->head.type](o, message);
}

static void each_egress_link(struct egress_link_worker *w, void (*fn)(struct egress_link *o))
{
    LIST_EACH_SAFE (struct egress_link, x, &w->egress_links, link)
        fn(x);
}

static void on_worker_up(struct egress_worker *p)
{
    struct egress_link_worker *w = container_of(p, struct egress_link_worker, process);

    egress_link_places_up(w);
    each_egress_link(w, egress_link_advance);
}

static void add_counters(struct egress_link_counters *to, const struct egress_link_counters *more)
{
    to->allowed += more->allowed;
    to->denied += more->denied;
    to->connections += more->connections;
    to->bytes_out += more->bytes_out;
    to->bytes_in += more->bytes_in;
}

/* Listeners that are being requested go to the next worker. */
static void reset_link(struct egress_link *o)
{
    bool closing = o->state == EGRESS_LINK_CLOSING;

    o->sent = o->applied = 0;
    add_counters(&o->before, &o->now);
    o->now = (struct egress_link_counters){ 0 };
    if (closing)
        finish_link_close(o);
    else if (o->state != EGRESS_LINK_REQUESTING)
        enter_link_state(o, EGRESS_LINK_CLOSED);
}

static void on_worker_down(struct egress_worker *p)
{
    struct egress_link_worker *w = container_of(p, struct egress_link_worker, process);

    egress_link_places_down(w);
    each_egress_link(w, reset_link);
}

const struct egress_worker_events egress_link_worker_events = { .up = on_worker_up,
                                                                .down = on_worker_down,
                                                                .message = on_worker_message };

/* ---- egress links ---- */

struct egress_link *egress_link_find(struct control *c, const char *box)
{
    struct map_entry *at = map_find(&c->egress_links->by_box, str_from(box));

    return at ? container_of(at, struct egress_link, entry) : NULL;
}

struct egress_link *egress_link_new(struct control *c, struct backend_box *b,
                                    enum egress_link_share share, const char *owner,
                                    const char *family)
{
    struct egress_link *o = new0(sizeof *o);

    o->control = c;
    o->box = b;
    o->entry.id = b->id;
    if (owner)
        egress_link_set_owner(o, owner, family);
    egress_link_join_worker(o, share, owner ? account_of(c, owner, family).name : NULL);
    map_add(&c->egress_links->by_box, &o->entry);
    egress_link_advance(o);
    return o;
}

static void send_link_remove(struct egress_link *o)
{
    struct wire_box m = { .generation = 0 };

    wire_fill(&m.head, WIRE_REMOVE, 0, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", o->box->id);
    if (is_link_served(o->state))
        egress_worker_send(&o->worker->process, &m, sizeof m, NULL, 0);
}

static void on_close_timeout(struct loop_timer *t)
{
    struct egress_link_op *op = container_of(t, struct egress_link_op, timer_);
    struct egress_link *o = op->egress_link_;

    LOG(WARN, "egress.uncounted", LOG_S("sandbox", o->box->id));
    finish_link_close(o);
}

static void on_close_now(struct loop_timer *t)
{
    finish_link_close(container_of(t, struct egress_link_op, timer_)->egress_link_);
}

void egress_link_close(struct egress_link *o, struct egress_link_op *op)
{
    bool wait = is_link_served(o->state) && egress_worker_is_up(&o->worker->process);
    int64_t now = clock_mono();

    send_link_remove(o);
    link_leave(&o->turn);
    loop_timer_stop(&o->retry);
    o->closing = op;
    op->egress_link_ = o;
    enter_link_state(o, EGRESS_LINK_CLOSING);
    loop_timer_start(o->control->loop, &op->timer_, wait ? now + CLOSE_NS : now,
                     wait ? on_close_timeout : on_close_now, NULL);
}

void egress_link_abandon(struct egress_link *o)
{
    struct err e;

    finish_waiting_ops(o, 0, err_set(&e, ERR_CONFLICT, "sandbox %s is being destroyed", o->box->id),
                       &e);
}

void egress_link_free(struct egress_link *o)
{
    struct egress_link_counters all;

    if (!o)
        return;
    egress_tail_link_ended(o);
    anchors_note(o);
    egress_link_log_date(o->control, o->box->id);
    egress_link_room_end(o);
    send_link_remove(o);
    all = egress_link_counters(o);
    add_counters(&o->control->egress_links->ended, &all);
    link_leave(&o->turn);
    enter_link_state(o, EGRESS_LINK_CLOSED);
    egress_link_drop_places(o);
    egress_link_leave_worker(o);
    map_remove(&o->control->egress_links->by_box, &o->entry);
    loop_timer_stop(&o->retry);
    loop_timer_stop(&o->recount);
    egress_link_abandon(o);
    policy_text_unref(o->policy);
    free(o);
}

void egress_link_forget(struct egress_link *o)
{
    for (struct link *l; (l = list_take(&o->waiting));)
        loop_timer_stop(&container_of(l, struct egress_link_op, link_)->timer_);
    if (o->closing)
        loop_timer_stop(&take_ptr(o->closing)->timer_);
    egress_link_free(o);
}

void egress_link_set_policy(struct egress_link *o, struct policy_text *t, uint64_t generation,
                            struct egress_link_op *op)
{
    policy_text_ref(t);
    policy_text_unref(o->policy);
    o->policy = t;
    o->generation = generation;
    o->flaw[0] = '\0';
    if (op) {
        op->generation_ = generation;
        list_append(&o->waiting, &op->link_);
        loop_timer_start(o->control->loop, &op->timer_, clock_mono() + APPLY_NS, on_apply_timeout,
                         NULL);
    }
    (void)prepare_places(o); /* starts counting while its listeners are being requested */
    egress_link_advance(o);
}

void egress_link_fill_head(const struct egress_link *o, struct egress_head_record *ret)
{
    snprintf(ret->sandbox, sizeof ret->sandbox, "%s", o->box->id);
    ret->seq = o->line.seq;
    memcpy(ret->digest, o->line.digest, sizeof ret->digest);
}

struct egress_link_counters egress_link_counters(const struct egress_link *o)
{
    struct egress_link_counters all = o->before;

    add_counters(&all, &o->now);
    return all;
}

uint64_t egress_link_in_force(const struct egress_link *o)
{
    return o->applied;
}

const char *egress_link_flaw(const struct egress_link *o)
{
    return o->flaw[0] ? o->flaw : NULL;
}

/* ---- totals ---- */

static void add_link_counters(struct map_entry *v, void *user)
{
    struct egress_link_counters one =
        egress_link_counters(container_of(v, struct egress_link, entry));

    add_counters(user, &one);
}

struct egress_link_counters egress_links_counters(struct control *c)
{
    struct egress_link_counters all = c->egress_links->ended;

    map_each(&c->egress_links->by_box, add_link_counters, &all);
    return all;
}
