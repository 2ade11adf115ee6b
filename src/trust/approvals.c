#include "trust/approvals.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hook.h"
#include "base/log.h"
#include "control/tokens.h"
#include "json/reader.h"
#include "model/time.h"
#include "trust/held.h"
#include "trust/inside.h"

#if defined(__GNUC__) && !defined(__clang__) /* it does not follow what lists own */
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum { EXPIRE_RETRY_S = 10 };

/* --- the table --- */

static struct held *find(struct trust *t, struct str id)
{
    struct index_entry *v = index_find(&t->held_ids, id);

    return v ? container_of(v, struct held, entry) : NULL;
}

const struct approval_record *approvals_find(struct trust *t, struct str id)
{
    struct held *h = find(t, id);

    return h ? &h->record : NULL;
}

/* Calls of administrators count like those of others: all are kept in memory. */
static struct quota_who find_call_holder(const struct account *a)
{
    return (struct quota_who){ .key = str_from(a->name), .parts = { a->part } };
}

struct held *held_new(struct trust *t, const struct approval_record *r, const struct account *a)
{
    const struct quota_who who = find_call_holder(a);
    struct held *h = calloc(1, sizeof *h);

    if (!h)
        abort();
    h->trust = t;
    h->record = *r;
    arena_init(&h->arena, APPROVAL_ARGS_MAX + APPROVAL_REQUEST_MAX + APPROVAL_LABELS_MAX);
    h->record.args.p = arena_dup(&h->arena, r->args);
    h->record.request.p = arena_dup(&h->arena, r->request);
    h->record.result = STR("");
    if (!h->record.args.p || !h->record.request.p || !json_map_copy(&h->record.labels, &h->arena))
        abort(); /* their lengths were checked */
    quota_charge(&t->held_owned, &who, 1, &h->owned);
    quota_charge(&t->held_owned_bytes, &who, h->record.args.n, &h->owned_bytes);
    return h;
}

void held_count(struct held *h, struct identity *d)
{
    h->counted = d;
    d->held_bytes += h->record.args.n;
    h->trust->held_bytes += h->record.args.n;
}

void held_free(struct held *h)
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

void held_add(struct held *h)
{
    struct trust *t = h->trust;

    h->entry.id = h->record.id;
    index_add(&t->held_ids, &h->entry);
    list_append(&t->held, &h->link);
    t->n_held++;
}

/* It is decided, or we close. */
static void held_drop(struct held *h)
{
    struct trust *t = h->trust;
    struct peer *p = peers_by_id(t, str_from(h->record.peer));

    if (p && p->pending_)
        p->pending_--;
    loop_timer_stop(&h->expiry);
    index_remove(&t->held_ids, &h->entry);
    link_leave(&h->link);
    t->n_held--;
    held_free(h);
}

/* --- who waits --- */

void approvals_wait(struct trust *t, struct approval_waiter *w)
{
    list_append(&t->waiters, &w->link_);
}

void approval_waiter_stop(struct approval_waiter *w)
{
    link_leave(&w->link_);
}

static void tell(struct trust *t, const struct approval_record *r)
{
    struct link *next;

    for (struct link *m = list_first(&t->waiters); m; m = next) {
        struct approval_waiter *w = container_of(m, struct approval_waiter, link_);

        next = list_after(&t->waiters, m);
        if (strcmp(w->id, r->id) == 0)
            w->changed(w, r);
    }
}

/* --- moves --- */

static const char *const move_events[] = {
    [APPROVAL_PENDING] = "approval.requested", [APPROVAL_APPROVED] = "approval.approved",
    [APPROVAL_RUNNING] = "approval.running",   [APPROVAL_DONE] = "approval.done",
    [APPROVAL_REJECTED] = "approval.rejected", [APPROVAL_EXPIRED] = "approval.expired",
    [APPROVAL_INVALID] = "approval.invalid",   [APPROVAL_INTERRUPTED] = "approval.interrupted",
};

struct trust_write *held_write(struct held *h, const struct approval_record *r,
                               const struct actor *who)
{
    struct trust_write *w = write_new(h->trust, move_events[r->state], r->owner, who, r->reason);

    snprintf(w->event.sandbox, sizeof w->event.sandbox, "%s", r->sandbox);
    write_detail(w, "request", r->id);
    write_detail(w, "peer", r->peer);
    write_detail(w, "tool", r->tool);
    write_detail(w, "policy", r->version);
    return w;
}

static void moved(void *user, int r, const struct err *e)
{
    struct move *m = user;
    struct held *h = m->held;
    struct trust *t = h->trust;

    h->moving = false;
    if (r >= 0) {
        m->next.args = h->record.args;
        m->next.request = h->record.request;
        h->record = m->next;
        tell(t, &h->record);
    }
    if (m->done)
        m->done(h, m->user, r, e);
    else if (r >= 0 && !approval_is_open(h->record.state))
        held_drop(h);
    free(m);
}

/* From where it is to `to`. With a done, that drops it. */
struct move *move_new(struct held *h, enum approval_state to, const char *reason, move_fn *done,
                      void *user)
{
    struct move *m = calloc(1, sizeof *m);

    if (!m)
        abort();
    m->held = h;
    m->next = h->record;
    m->next.state = to;
    m->done = done;
    m->user = user;
    if (reason)
        snprintf(m->next.reason, sizeof m->next.reason, "%s", reason);
    return m;
}

void move_submit(struct move *m, const struct actor *who, struct trust_write *w)
{
    struct held *h = m->held;

    h->moving = true;
    if (!w)
        w = held_write(h, &m->next, who);
    store_move_approval(&w->txn, &m->next, h->record.state);
    write_commit(w, moved, m);
}

static void move_alone(struct held *h, enum approval_state to, const char *reason)
{
    const struct actor daemon = ACTOR_DAEMON;
    struct move *m;

    if (h->moving || !approval_may(h->record.state, to))
        return;
    m = move_new(h, to, reason, NULL, NULL);
    m->next.finished_ns = clock_wall();
    move_submit(m, &daemon, NULL);
}

/* --- time --- */

static void on_expiry(struct loop_timer *x)
{
    struct held *h = container_of(x, struct held, expiry);

    if (clock_wall() >= h->record.expires_ns)
        move_alone(h, APPROVAL_EXPIRED, "nobody decided in time");
    held_watch(h); /* also for when that fails */
}

void held_watch(struct held *h)
{
    int64_t left = h->record.expires_ns - clock_wall();

    if (h->record.state != APPROVAL_PENDING)
        return;
    if (left < 0)
        left = h->moving ? EXPIRE_RETRY_S * NS_PER_S : 0;
    loop_timer_stop(&h->expiry);
    (void)loop_timer_start(h->trust->loop, &h->expiry, clock_mono() + left, on_expiry, NULL);
}

/* --- what ends them from outside --- */

void approvals_peer_ended(struct peer *p)
{
    struct link *next;

    for (struct link *m = list_first(&p->trust->held); m; m = next) {
        struct held *h = container_of(m, struct held, link);

        next = list_after(&p->trust->held, m);
        if (h->record.state == APPROVAL_PENDING && strcmp(h->record.peer, p->record.id) == 0)
            move_alone(h, APPROVAL_INVALID, "its peer is gone");
    }
    grants_peer_ended(p);
}

void approvals_policy_moved(struct trust *t)
{
    struct link *next;

    for (struct link *m = list_first(&t->held); m; m = next) {
        struct held *h = container_of(m, struct held, link);

        next = list_after(&t->held, m);
        if (h->record.state == APPROVAL_PENDING && !held_is_current(h))
            move_alone(h, APPROVAL_INVALID, "the policy has changed since");
    }
}

bool held_is_current(const struct held *h)
{
    const struct trust_bundle *b = h->trust->policy.bundle;

    return b && strcmp(b->version, h->record.version) == 0;
}

/* --- deciding --- */

static void op_finish(struct approval_op *op, int r, const struct err *e)
{
    link_leave(&op->link_);
    op->trust_ = NULL;
    op->done(op, r, e);
}

static void op_refused(struct loop_later *l)
{
    struct approval_op *op = container_of(l, struct approval_op, later_);

    op_finish(op, op->r_, &op->err_);
}

/* Whether one token of both is made, directly or not, with the same token as the other. Whoever can
 * make tokens can have one ask and another decide: so a family decides nothing of its own. */
static bool is_of_one_family(const struct held *h, const struct trust_master *m)
{
    const char *asker = h->actor, *master = m->actor.id;
    struct tokens *all = h->trust->tokens;

    if (!str_starts(str_from(asker), STR("tok_")) || !str_starts(str_from(master), STR("tok_")))
        return false;
    return strcmp(tokens_family(all, asker), tokens_family(all, master)) == 0;
}

/* A master, and not who asked: by the owner behind both, by the very token, and by its family. The
 * policy does not ask an administrator's token, which gains nothing by deciding. */
static int check_master(const struct held *h, const struct trust_master *m, struct err *e)
{
    if (m->role != ROLE_MASTER)
        return err_set(e, ERR_DENIED, "only a master decides this, and you are %s",
                       role_names[m->role]);
    if (strcmp(m->actor.id, h->actor) == 0 && m->by_token)
        return err_set(e, ERR_DENIED, "nobody decides what they asked for: the token is the same");
    if (m->by_token && !m->admin && is_of_one_family(h, m))
        return err_set(e, ERR_DENIED,
                       "a token does not decide what its own family asked for (the tokens that it "
                       "made, or was made with); use a master's token that a user made");
    if (m->by_token || strcmp(m->owner, h->record.owner) != 0)
        return 0;
    if (m->self && h->trust->self_approval)
        return 0;
    if (m->self)
        return err_set(e, ERR_DENIED,
                       "you cannot approve your own request: trust.self_approval is off");
    return err_set(e, ERR_DENIED,
                   "you cannot approve your own request; approve as another user, or with a "
                   "master's token");
}

static int check_decision(struct trust *t, struct approval_op *op, bool approve, struct held **ret,
                          struct err *e)
{
    struct held *h = find(t, str_from(op->id));
    int r;

    if (!h)
        return err_set(e, ERR_NOT_FOUND, "there is no call %s that waits", op->id);
    r = check_master(h, &op->master, e);
    if (r < 0)
        return r;
    if (h->moving || h->record.state != APPROVAL_PENDING)
        return err_set(e, ERR_CONFLICT, "%s is %s: it is decided already", op->id,
                       h->moving ? "being decided" : approval_state_names[h->record.state]);
    if (clock_wall() >= h->record.expires_ns)
        return err_set(e, ERR_CONFLICT, "%s has waited too long: it must be asked again", op->id);
    if (approve && !held_is_current(h))
        return err_set(e, ERR_CONFLICT,
                       "the policy has changed since %s was held: it must be asked again", op->id);
    if (approve && op->grant_ns && !grants_have_room(t, h->record.owner))
        return err_set(e, ERR_QUOTA,
                       "there are too many grants (%d of all, %d of an owner): approve %s without "
                       "one, or wait "
                       "until some end",
                       GRANTS_MAX, GRANTS_PER_OWNER, op->id);
    *ret = h;
    return 0;
}

static void decided(struct held *h, void *user, int r, const struct err *e)
{
    struct approval_op *op = user;
    struct trust *t = h->trust;

    loop_timer_stop(&h->expiry);
    if (op->grant_.id[0])
        grant_stored(t, &op->grant_, r >= 0);
    if (r >= 0 && h->record.state == APPROVAL_APPROVED) {
        hook_point("trust.approved");
        held_run(h);
    } else if (r >= 0) {
        held_drop(h);
    } else {
        held_watch(h);
    }
    if (op->trust_)
        op_finish(op, r, e);
}

static void put_on_record(struct trust *t, struct approval_op *op)
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

static void decide(struct trust *t, struct approval_op *op, enum approval_state to)
{
    struct trust_write *w;
    struct held *h = NULL;
    struct move *m;
    bool self;

    op->trust_ = t;
    op->audit_id[0] = 0;
    op->grant_ = (struct grant_record){ 0 };
    list_append(&t->held_ops, &op->link_);
    op->r_ = check_decision(t, op, to == APPROVAL_APPROVED, &h, &op->err_);
    if (op->r_ < 0) {
        put_on_record(t, op);
        (void)loop_later(t->loop, &op->later_, op_refused, NULL);
        return;
    }
    m = move_new(h, to, op->reason ? op->reason : "", decided, op);
    m->next.decided_ns = clock_wall();
    if (to == APPROVAL_REJECTED)
        m->next.finished_ns = m->next.decided_ns;
    self = !op->master.by_token && strcmp(op->master.owner, h->record.owner) == 0;
    snprintf(m->next.approver, sizeof m->next.approver, "%s", self ? "self" : op->master.actor.id);
    w = held_write(h, &m->next, &op->master.actor);
    if (self)
        write_detail(w, "approver", "self");
    if (to == APPROVAL_APPROVED && op->grant_ns && grant_put(h, op, w, &op->err_) < 0)
        LOG(WARN, "trust.grant_failed",
            LOG_S("error", op->err_.msg)); /* this one call still runs */
    move_submit(m, &op->master.actor, w);
}

void approvals_approve(struct trust *t, struct approval_op *op)
{
    decide(t, op, APPROVAL_APPROVED);
}

void approvals_reject(struct trust *t, struct approval_op *op)
{
    decide(t, op, APPROVAL_REJECTED);
}

/* --- running --- */

static void run_ended(struct held *h, void *user, int r, const struct err *e)
{
    (void)user;
    (void)e;
    if (r >= 0)
        held_drop(h); /* else it stays `running`: the next start calls it interrupted */
}

void held_done(struct held *h, bool failed, struct str result)
{
    const struct actor daemon = ACTOR_DAEMON;
    struct move *m = move_new(h, APPROVAL_DONE, NULL, run_ended, NULL);

    hook_point("trust.ran");
    m->next.finished_ns = clock_wall();
    m->next.failed = failed;
    m->next.result = result.n <= APPROVAL_RESULT_MAX
                         ? result
                         : STR("{\"error\":\"the result is too large to be kept\"}");
    move_submit(m, &daemon, NULL); /* which copies it */
}

static void run_begins(struct held *h, void *user, int r, const struct err *e)
{
    (void)user;
    (void)e;
    if (r < 0)
        return; /* it is still approved, and the next start takes it up */
    hook_point("trust.running");
    held_call(h);
}

/* It was approved, now or in an earlier life. */
void held_run(struct held *h)
{
    const struct actor daemon = ACTOR_DAEMON;

    if (h->moving || h->record.state != APPROVAL_APPROVED)
        return;
    if (!held_is_current(h))
        move_alone(h, APPROVAL_INVALID, "the policy has changed since");
    else if (!peers_by_id(h->trust, str_from(h->record.peer)))
        move_alone(h, APPROVAL_INVALID, "its peer is gone");
    else if (h->trust->runner.run)
        move_submit(move_new(h, APPROVAL_RUNNING, NULL, run_begins, NULL), &daemon, NULL);
}

/* --- opening and closing --- */

/* What an earlier life left. */
static void take_up(struct trust *t, const struct approval_record *r)
{
    struct peer *p = peers_by_id(t, str_from(r->peer));
    struct account a = p ? peer_account(t, &p->record) : account_of(t->control, r->owner, "");
    struct held *h = held_new(t, r, &a);

    held_add(h);
    if (r->state == APPROVAL_RUNNING) {
        move_alone(
            h, APPROVAL_INTERRUPTED,
            "the daemon ended while it ran: it may have had an effect, and is not run again");
        return;
    }
    if (p) {
        held_count(h, p->identity_);
        p->pending_++;
        snprintf(h->actor, sizeof h->actor, "%s", p->record.actor.id);
    }
    if (r->state == APPROVAL_PENDING && !p)
        move_alone(h, APPROVAL_INVALID, "its peer is gone");
    else if (r->state == APPROVAL_PENDING && !held_is_current(h))
        move_alone(h, APPROVAL_INVALID, "the policy has changed since");
    else
        held_watch(h);
}

int approvals_open(struct trust *t, struct err *e)
{
    struct store_query q = { .kind = STORE_APPROVALS_OPEN };
    int r;

    arena_init(&q.arena, PTRDIFF_MAX); /* however many there are, a start takes them up */
    r = store_ask_now(t->store, &q, e);
    for (size_t i = 0; r >= 0 && i < q.n; i++)
        take_up(t, &q.approvals[i]);
    arena_done(&q.arena);
    return r < 0 ? r : grants_open(t, e);
}

void approvals_silence(struct trust *t)
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
        held_drop(container_of(m, struct held, link));
    index_done(&t->held_ids);
}
