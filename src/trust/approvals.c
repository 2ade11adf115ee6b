/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/approvals.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/own.h"
#include "control/owner/tokens.h"
#include "trust/held.h"
#include "trust/internal.h"

/* the analyzer does not track ownership through lists */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum { EXPIRE_RETRY_S = 10 };

/* A state change; `next` may be edited before submit_approval_move(). */
typedef void approval_move_fn(struct held_call *h, void *user, int r, const struct err *e);
struct approval_move {
    struct held_call *held;
    struct approval_record next;
    approval_move_fn *done;
    void *user;
};

/* --- the table --- */

static struct held_call *find_held_call(struct trust *t, struct str id)
{
    struct map_entry *v = map_find(&t->held_ids, id);

    return v ? container_of(v, struct held_call, entry) : NULL;
}

const struct approval_record *approvals_find(struct trust *t, struct str id)
{
    struct held_call *h = find_held_call(t, id);

    return h ? &h->record : NULL;
}

/* Whether the policy version has not changed. */
static bool is_current_call(const struct held_call *h)
{
    const struct trust_bundle *b = h->trust->policy.bundle;

    return b && strcmp(b->version, h->record.version) == 0;
}

/* Calls of administrators are charged like all others: every held call is kept in memory. */
struct held_call *held_new(struct trust *t, const struct approval_record *r,
                           const struct account *a)
{
    const struct quota_who who = { .key = str_from(a->name), .parts = { a->part } };
    struct held_call *h = new0(sizeof *h);

    h->trust = t;
    h->record = *r;
    arena_init(&h->arena, APPROVAL_ARGS_MAX + APPROVAL_REQUEST_MAX + APPROVAL_LABELS_MAX);
    h->record.args.p = arena_dup(&h->arena, r->args);
    h->record.request.p = arena_dup(&h->arena, r->request);
    h->record.result = STR("");
    if (!h->record.args.p || !h->record.request.p || !json_map_copy(&h->record.labels, &h->arena))
        abort(); /* the lengths were checked */
    quota_charge(&t->held_owned, &who, 1, &h->owned);
    quota_charge(&t->held_owned_bytes, &who, h->record.args.n, &h->owned_bytes);
    return h;
}

void held_count(struct held_call *h, struct trust_identity *d)
{
    h->counted = d;
    d->held_bytes += h->record.args.n;
    h->trust->held_bytes += h->record.args.n;
}

void held_free(struct held_call *h)
{
    if (h->counted) {
        h->counted->held_bytes -= h->record.args.n;
        h->trust->held_bytes -= h->record.args.n;
    }
    quota_drop(&h->owned);
    quota_drop(&h->owned_bytes);
    arena_done(&h->arena);
    free(h);
}

static void notify_approval_waiters(const struct held_call *h)
{
    LIST_EACH_SAFE (struct approval_waiter, w, &h->trust->waiters, link_) {
        if (!w->id[0] || strcmp(w->id, h->record.id) == 0)
            w->changed(w, &h->record);
    }
}

void held_add(struct held_call *h)
{
    h->entry.id = h->record.id;
    map_add(&h->trust->held_ids, &h->entry);
    list_append(&h->trust->held, &h->link);
    notify_approval_waiters(h);
}

/* Removes a decided call, or any call at close. */
static void drop_held_call(struct held_call *h)
{
    struct trust *t = h->trust;
    struct peer *p = peers_by_id(t, str_from(h->record.peer));

    if (p && p->pending_)
        p->pending_--;
    loop_timer_stop(&h->expiry);
    map_remove(&t->held_ids, &h->entry);
    link_leave(&h->link);
    held_free(h);
}

/* --- waiters --- */

void approvals_wait(struct trust *t, struct approval_waiter *w)
{
    list_append(&t->waiters, &w->link_);
}

void approval_waiter_stop(struct approval_waiter *w)
{
    link_leave(&w->link_);
}

/* --- state changes --- */

static const char *const move_events[] = {
    [APPROVAL_PENDING] = "approval.requested", [APPROVAL_APPROVED] = "approval.approved",
    [APPROVAL_RUNNING] = "approval.running",   [APPROVAL_DONE] = "approval.done",
    [APPROVAL_REJECTED] = "approval.rejected", [APPROVAL_EXPIRED] = "approval.expired",
    [APPROVAL_INVALID] = "approval.invalid",   [APPROVAL_INTERRUPTED] = "approval.interrupted",
};

struct trust_write *held_write(struct held_call *h, const struct approval_record *r,
                               const struct actor *who)
{
    struct trust_write *w =
        trust_write_new(h->trust, move_events[r->state], r->owner, who, r->reason);

    snprintf(w->event.sandbox, sizeof w->event.sandbox, "%s", r->sandbox);
    trust_write_detail(w, "request", r->id);
    trust_write_detail(w, "peer", r->peer);
    trust_write_detail(w, "tool", r->tool);
    trust_write_detail(w, "policy", r->version);
    return w;
}

static void on_move_stored(void *user, int r, const struct err *e)
{
    struct approval_move *m = user;
    struct held_call *h = m->held;

    h->moving = false;
    if (r >= 0) {
        m->next.args = h->record.args;
        m->next.request = h->record.request;
        h->record = m->next;
        notify_approval_waiters(h);
    }
    if (m->done)
        m->done(h, m->user, r, e);
    else if (r >= 0 && !approval_is_open(h->record.state))
        drop_held_call(h);
    free(m);
}

/* A state change of the call to `to`. If there is a `done`, it must drop the call. */
static struct approval_move *make_approval_move(struct held_call *h, enum approval_state to,
                                                const char *reason, approval_move_fn *done,
                                                void *user)
{
    struct approval_move *m = new0(sizeof *m);

    *m = (struct approval_move){ .held = h, .next = h->record, .done = done, .user = user };
    m->next.state = to;
    if (reason)
        snprintf(m->next.reason, sizeof m->next.reason, "%s", reason);
    return m;
}

static void submit_approval_move(struct approval_move *m, const struct actor *who,
                                 struct trust_write *w)
{
    struct held_call *h = m->held;

    h->moving = true;
    if (!w)
        w = held_write(h, &m->next, who);
    store_move_approval(&w->txn, &m->next, h->record.state);
    trust_write_commit(w, on_move_stored, m);
}

static void move_by_daemon(struct held_call *h, enum approval_state to, const char *reason)
{
    const struct actor daemon = ACTOR_DAEMON;
    struct approval_move *m;

    if (h->moving || !approval_may(h->record.state, to))
        return;
    m = make_approval_move(h, to, reason, NULL, NULL);
    m->next.finished_ns = clock_wall();
    submit_approval_move(m, &daemon, NULL);
}

/* --- expiry --- */

static void on_held_expiry(struct loop_timer *x)
{
    struct held_call *h = container_of(x, struct held_call, expiry);

    if (clock_wall() >= h->record.expires_ns)
        move_by_daemon(h, APPROVAL_EXPIRED, "no master decided in time");
    held_watch(h); /* retries if the write fails */
}

void held_watch(struct held_call *h)
{
    int64_t left = h->record.expires_ns - clock_wall();

    if (h->record.state != APPROVAL_PENDING)
        return;
    if (left < 0)
        left = h->moving ? EXPIRE_RETRY_S * NS_PER_S : 0;
    loop_timer_stop(&h->expiry);
    (void)loop_timer_start(h->trust->loop, &h->expiry, clock_mono() + left, on_held_expiry, NULL);
}

/* --- invalidation --- */

void approvals_peer_ended(struct peer *p)
{
    LIST_EACH_SAFE (struct held_call, h, &p->trust->held, link) {
        if (h->record.state == APPROVAL_PENDING && strcmp(h->record.peer, p->record.id) == 0)
            move_by_daemon(h, APPROVAL_INVALID, "its peer has ended");
    }
    grants_peer_ended(p);
}

void approvals_policy_changed(struct trust *t)
{
    LIST_EACH_SAFE (struct held_call, h, &t->held, link) {
        if (h->record.state == APPROVAL_PENDING && !is_current_call(h))
            move_by_daemon(h, APPROVAL_INVALID, "the policy has changed since");
    }
}

/* --- decisions --- */

static void finish_approval_op(struct approval_op *op, int r, const struct err *e)
{
    link_leave(&op->link_);
    op->trust_ = NULL;
    op->done(op, r, e);
}

static void on_decision_refused(struct loop_later *l)
{
    struct approval_op *op = container_of(l, struct approval_op, later_);

    finish_approval_op(op, op->r_, &op->err_);
}

/* Whether both tokens descend from the same token. A holder who can make tokens could request with
 * one and decide with another, so a token family cannot decide its own calls. */
static bool shares_token_family(const struct held_call *h, const struct trust_master *m)
{
    const char *asker = h->actor, *master = m->actor.id;
    struct tokens *all = h->trust->tokens;

    if (!str_starts(str_from(asker), STR("tok_")) || !str_starts(str_from(master), STR("tok_")))
        return false;
    return strcmp(tokens_family(all, asker), tokens_family(all, master)) == 0;
}

/* Refuses a user's decision on their own request, with the remedy that this daemon has, unless
 * trust.self_approval lets its own user decide on a terminal. */
static int check_self(const struct held_call *h, const struct trust_master *m, struct err *e)
{
    const struct trust *t = h->trust;

    if (t->serves_tenants)
        return err_set(
            e, ERR_DENIED,
            "you cannot approve your own request; approve as another user, or with a master "
            "token: export SANDBOXER_MASTER=$(sandboxer token create -q --role master NAME)");
    if (!t->self_approval)
        return err_set(
            e, ERR_DENIED,
            "you cannot approve your own request; approve as another user or with a master token "
            "('sandboxer token create --role master'), or, if you are alone: set "
            "trust.self_approval: true, run 'sandboxer daemon restart', ask again");
    if (!m->self)
        return err_set(e, ERR_DENIED,
                       "you cannot approve your own request without a question on your terminal: "
                       "use 'sandboxer approvals watch', or add --self");
    if (m->not_self)
        return err_set(e, ERR_DENIED, "you cannot approve your own request: %s", m->not_self);
    return 0;
}

/* Checks that the decider is a master and not the requester: neither the same owner, nor the same
 * token, nor its token family. Administrator tokens may decide for their family: they are not
 * subject to the policy and gain nothing. */
static int check_master(const struct held_call *h, const struct trust_master *m, struct err *e)
{
    if (m->role != ROLE_MASTER)
        return err_set(e, ERR_DENIED, "only a master may decide this call; your role is %s",
                       role_names[m->role]);
    if (strcmp(m->actor.id, h->actor) == 0 && m->by_token)
        return err_set(e, ERR_DENIED, "you cannot approve your own request: this token made it");
    if (m->by_token && !m->admin && shares_token_family(h, m))
        return err_set(e, ERR_DENIED,
                       "a token cannot decide calls of its own token family (tokens that it made, "
                       "or was made with); use a master token that a user made");
    if (m->by_token || strcmp(m->owner, h->record.owner) != 0)
        return 0;
    return check_self(h, m, e);
}

static int check_decision(struct trust *t, struct approval_op *op, bool approve,
                          struct held_call **ret, struct err *e)
{
    struct held_call *h = find_held_call(t, str_from(op->id));
    int r;

    if (!h)
        return err_set(e, ERR_NOT_FOUND, "there is no waiting call %s", op->id);
    r = check_master(h, &op->master, e);
    if (r < 0)
        return r;
    if (h->moving || h->record.state != APPROVAL_PENDING)
        return err_set(e, ERR_CONFLICT, "%s cannot be decided: it is %s", op->id,
                       h->moving ? "being decided" : approval_state_names[h->record.state]);
    if (clock_wall() >= h->record.expires_ns)
        return err_set(e, ERR_CONFLICT, "%s has expired: request the call again", op->id);
    if (approve && !is_current_call(h))
        return err_set(e, ERR_CONFLICT,
                       "the policy has changed since %s was held: request the call again", op->id);
    if (approve && op->grant_ns && !grants_have_room_for(h))
        return err_set(e, ERR_QUOTA,
                       "too many grants (limit: %d in total, %d per owner): approve %s without a "
                       "grant, or wait until some expire",
                       GRANTS_MAX, GRANTS_PER_OWNER, op->id);
    *ret = h;
    return 0;
}

static void on_decision_stored(struct held_call *h, void *user, int r, const struct err *e)
{
    struct approval_op *op = user;
    struct trust *t = h->trust;

    loop_timer_stop(&h->expiry);
    if (op->grant_.id[0])
        grant_stored(t, &op->grant_, r >= 0);
    if (r >= 0 && h->record.state == APPROVAL_APPROVED) {
        fault_point("trust.approved");
        held_run(h);
    } else if (r >= 0) {
        drop_held_call(h);
    } else {
        held_watch(h);
    }
    if (op->trust_)
        finish_approval_op(op, r, e);
}

static void record_refused_decision(struct trust *t, struct approval_op *op)
{
    const struct trust_refusal x = { .type = "approval.refused",
                                     .owner = op->master.owner,
                                     .actor = &op->master.actor,
                                     .tool = str_from(op->id),
                                     .reason = op->err_.msg,
                                     .audit = op->audit_id };

    if (id_make("aud_", op->audit_id, NULL) >= 0)
        trust_refused(t, &x);
}

static void decide_held_call(struct trust *t, struct approval_op *op, enum approval_state to)
{
    struct trust_write *w;
    struct held_call *h = NULL;
    struct approval_move *m;
    bool self;

    op->trust_ = t;
    op->audit_id[0] = 0;
    op->grant_ = (struct grant_record){ 0 };
    list_append(&t->held_ops, &op->link_);
    op->r_ = check_decision(t, op, to == APPROVAL_APPROVED, &h, &op->err_);
    if (op->r_ < 0) {
        record_refused_decision(t, op);
        (void)loop_later(t->loop, &op->later_, on_decision_refused, NULL);
        return;
    }
    m = make_approval_move(h, to, op->reason ? op->reason : "", on_decision_stored, op);
    m->next.decided_ns = clock_wall();
    if (to == APPROVAL_REJECTED)
        m->next.finished_ns = m->next.decided_ns;
    self = !op->master.by_token && strcmp(op->master.owner, h->record.owner) == 0;
    snprintf(m->next.approver, sizeof m->next.approver, "%s", self ? "self" : op->master.actor.id);
    w = held_write(h, &m->next, &op->master.actor);
    if (self)
        trust_write_detail(w, "approver", "self");
    if (to == APPROVAL_APPROVED && op->grant_ns && grant_add_to_write(h, op, w, &op->err_) < 0)
        LOG(WARN, "trust.grant_failed",
            LOG_S("error", op->err_.msg)); /* the approved call itself still runs */
    submit_approval_move(m, &op->master.actor, w);
}

void approvals_approve(struct trust *t, struct approval_op *op)
{
    decide_held_call(t, op, APPROVAL_APPROVED);
}

void approvals_reject(struct trust *t, struct approval_op *op)
{
    decide_held_call(t, op, APPROVAL_REJECTED);
}

/* --- execution --- */

static void on_run_end_stored(struct held_call *h, void *user, int r, const struct err *e)
{
    if (r >= 0)
        /* otherwise it stays `running`, and the next start marks it interrupted */
        drop_held_call(h);
}

void held_done(struct held_call *h, bool failed, struct str result)
{
    const struct actor daemon = ACTOR_DAEMON;
    struct approval_move *m = make_approval_move(h, APPROVAL_DONE, NULL, on_run_end_stored, NULL);

    fault_point("trust.ran");
    m->next.finished_ns = clock_wall();
    m->next.failed = failed;
    m->next.result = result.n <= APPROVAL_RESULT_MAX
                         ? result
                         : STR("{\"error\":\"the result is too large to be stored\"}");
    submit_approval_move(m, &daemon, NULL); /* copies the result */
}

static void on_run_begin_stored(struct held_call *h, void *user, int r, const struct err *e)
{
    if (r < 0)
        return; /* still approved: the next start runs it */
    fault_point("trust.running");
    held_start_call(h);
}

/* Runs a call that was approved in this or an earlier daemon run. */
void held_run(struct held_call *h)
{
    const struct actor daemon = ACTOR_DAEMON;

    if (h->moving || h->record.state != APPROVAL_APPROVED)
        return;
    if (!is_current_call(h))
        move_by_daemon(h, APPROVAL_INVALID, "the policy has changed since");
    else if (!peers_by_id(h->trust, str_from(h->record.peer)))
        move_by_daemon(h, APPROVAL_INVALID, "its peer has ended");
    else if (h->trust->runner.run)
        submit_approval_move(
            make_approval_move(h, APPROVAL_RUNNING, NULL, on_run_begin_stored, NULL), &daemon,
            NULL);
}

/* --- opening and closing --- */

/* Restores a call of an earlier daemon run. */
static void restore_held_call(struct trust *t, const struct approval_record *r)
{
    struct peer *p = peers_by_id(t, str_from(r->peer));
    struct account a = p ? peer_account(t, &p->record) : account_of(t->control, r->owner, "");
    struct held_call *h = held_new(t, r, &a);

    held_add(h);
    if (r->state == APPROVAL_RUNNING) {
        move_by_daemon(h, APPROVAL_INTERRUPTED,
                       "the daemon stopped while the call ran: it may have had an effect and is "
                       "not run again");
        return;
    }
    if (p) {
        held_count(h, p->identity_);
        p->pending_++;
        snprintf(h->actor, sizeof h->actor, "%s", p->record.actor.id);
    }
    if (r->state == APPROVAL_PENDING && !p)
        move_by_daemon(h, APPROVAL_INVALID, "its peer has ended");
    else if (r->state == APPROVAL_PENDING && !is_current_call(h))
        move_by_daemon(h, APPROVAL_INVALID, "the policy has changed since");
    else
        held_watch(h);
}

int approvals_open(struct trust *t, struct err *e)
{
    struct store_query q = { .kind = STORE_APPROVALS_OPEN };
    int r;

    arena_init(&q.arena, PTRDIFF_MAX); /* no limit: every open call must be restored */
    r = store_ask_now(t->store, &q, e);
    for (size_t i = 0; r >= 0 && i < q.n; i++)
        restore_held_call(t, &q.approvals[i]);
    arena_done(&q.arena);
    return r < 0 ? r : grants_open(t, e);
}

void approvals_detach_ops(struct trust *t)
{
    for (struct link *m; (m = list_take(&t->held_ops));) {
        struct approval_op *op = container_of(m, struct approval_op, link_);

        loop_later_stop(&op->later_);
        op->trust_ = NULL;
    }
    while (list_take(&t->waiters))
        ;
}

void approvals_close(struct trust *t)
{
    calls_close(t);
    grants_close(t);
    for (struct link *m; (m = list_first(&t->held));)
        drop_held_call(container_of(m, struct held_call, link));
    map_done(&t->held_ids);
}
