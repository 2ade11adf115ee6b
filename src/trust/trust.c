/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/trust.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/reach.h"
#include "trust/held.h"

/* --- verdicts --- */

/* Whether a master approved the network for this peer, or the token has it pre-approved. */
static bool has_network_approved(const struct trust_question *q)
{
    const struct trust_capabilities *about = q->declares ? q->declares : q->sandbox;
    const struct trust_identity *d = q->peer->identity_;

    if (!about || !about->policy)
        return false;
    if (!q->declares && about->approved_for && about->approved_for[0] &&
        strcmp(about->approved_for, q->peer->record.id) == 0)
        return true;
    return d->is_token && d->terms.network.n && policy_within(about->policy, d->terms.network);
}

void case_add_makers(struct trust_case *c, const struct peer *p)
{
    for (struct trust_identity *d = p->identity_->maker; d && c->n_above < COUNT_OF(c->above);
         d = d->maker)
        c->above[c->n_above++] =
            (struct trust_ancestor){ .terms = d->is_token ? &d->terms : NULL, .role = d->role };
}

void case_add_usage(struct trust_case *c, struct peer *p)
{
    const struct trust_identity *d = p->identity_;

    c->usage = peer_usage(p, clock_wall());
    for (size_t i = 0; i < c->n_above; i++, d = d->maker)
        c->above[i].usage = family_usage(d->maker, clock_wall());
}

/* Completes the question with the state of the peer. */
static void make_trust_case(struct trust *t, const struct trust_question *q, struct trust_case *c)
{
    struct trust_identity *d = q->peer->identity_;
    const struct trust_rule *rule =
        t->policy.bundle ? trust_bundle_find(t->policy.bundle, q->tool) : NULL;

    *c = (struct trust_case){ .bundle = t->policy.bundle,
                              .failure = t->policy.failure,
                              .tool = q->tool,
                              .args = q->args,
                              .sandbox = q->sandbox,
                              .role = role_least(q->role, q->peer->record.role),
                              .client = q->peer->record.client,
                              .declares = q->declares,
                              .makes = q->makes,
                              .terms = d->is_token ? &d->terms : NULL,
                              .now_ns = clock_mono() };
    if (!rule)
        return;
    c->network_approved = has_network_approved(q);
    case_add_makers(c, q->peer);
    c->rate_ns = identity_rate(d, rule->tool)->rate_ns;
    for (size_t i = 0; i < c->n_above; i++, d = d->maker)
        c->above[i].rate_ns = identity_rate(d->maker, rule->tool)->rate_ns;
    c->granted = t->n_grants && grant_find(t, q) != NULL;
    if (rule->creates)
        case_add_usage(c, q->peer);
}

static void finish_trust_op(struct trust_op *op, int r, const struct err *e)
{
    link_leave(&op->link_);
    op->trust_ = NULL;
    op->done(op, r, e);
}

static void on_trust_op_later(struct loop_later *l)
{
    struct trust_op *op = container_of(l, struct trust_op, later_);

    finish_trust_op(op, op->r_, &op->err_);
}

/* The action after a verdict is stored. The op may be cancelled by then. */
struct verdict_recording {
    struct trust *trust;
    struct trust_op *op;    /* NULL: cancelled */
    struct held_call *held; /* call to be added; NULL: none */
    struct peer *peer;      /* referenced */
    bool must;              /* the verdict is valid only if it is stored */
};

static void on_verdict_recorded(void *user, int r, const struct err *e)
{
    struct verdict_recording *x = user;

    if (x->held && r >= 0) {
        held_add(x->held);
        held_watch(x->held);
    } else if (x->held) {
        x->peer->pending_--;
        held_free(x->held);
    }
    if (x->op) {
        x->op->recording_ = NULL;
        finish_trust_op(x->op, x->must ? r : 0, e);
    }
    peer_unref(x->peer);
    free(x);
}

static void record_verdict(struct trust_op *op, struct held_call *h, bool must)
{
    struct verdict_recording *x = new0(sizeof *x);
    struct trust_write *w = take_ptr(op->write_);

    *x = (struct verdict_recording){
        .trust = op->trust_, .op = op, .held = h, .peer = peer_ref(op->ask.peer), .must = must
    };
    op->recording_ = x;
    trust_write_detail(w, "audit", op->verdict.audit_id);
    trust_write_detail(w, "rule", op->verdict.rule);
    trust_write_commit(w, on_verdict_recorded, x);
}

static const char *const events[VERDICT_KIND_COUNT_] = {
    [VERDICT_ALLOW] = "trust.allowed",
    [VERDICT_DENY] = "trust.denied",
    [VERDICT_RATE_LIMIT] = "trust.rate_limited",
    [VERDICT_REQUIRE_APPROVAL] = "trust.held",
};

static void begin_verdict_write(struct trust_op *op, const char *type)
{
    const struct peer_record *p = &op->ask.peer->record;
    char tool[RECORD_TOOL_MAX];

    op->write_ = trust_write_new(op->trust_, type, p->owner, &p->actor, op->verdict.reason);
    log_printable(op->ask.tool, tool, sizeof tool);
    trust_write_detail(op->write_, "peer", p->id);
    trust_write_detail(op->write_, "tool", tool);
    audit_write(&op->ask.peer->audit_, op->write_);
}

static void log_verdict(const struct trust_op *op)
{
    const struct verdict *v = &op->verdict;
    char tool[RECORD_TOOL_MAX];

    log_printable(op->ask.tool, tool, sizeof tool);
    /* Every request of a token has a verdict: allowed ones are logged at DEBUG only. */
    if (op->ask.peer->is_token && v->would == VERDICT_ALLOW)
        LOG(DEBUG, "trust.verdict", LOG_S("audit", v->audit_id),
            LOG_S("peer", op->ask.peer->record.id), LOG_S("tool", tool),
            LOG_S("verdict", verdict_kind_names[v->kind]));
    else
        LOG(INFO, "trust.verdict", LOG_S("audit", v->audit_id),
            LOG_S("peer", op->ask.peer->record.id), LOG_S("tool", tool),
            LOG_S("verdict", verdict_kind_names[v->kind]),
            LOG_S("would", verdict_kind_names[v->would]), LOG_S("rule", v->rule),
            LOG_S("reason", v->reason));
}

/* Turns a verdict that cannot be held into a refusal. False: an internal error. */
static bool refuse_to_hold(struct trust_op *op)
{
    struct verdict *v = &op->verdict;
    bool full = op->r_ == -(int)ERR_QUOTA || op->r_ == -(int)ERR_BUSY;

    if (!full && op->r_ != -(int)ERR_TOO_BIG)
        return false;
    v->kind = v->would = full ? VERDICT_RATE_LIMIT : VERDICT_DENY;
    snprintf(v->reason, sizeof v->reason, "%s", op->err_.msg);
    op->r_ = 0;
    return true;
}

/* Stores records that must precede the answer. True: a write is pending. */
static bool record_before_answer(struct trust_op *op, const struct trust_decision *d)
{
    struct verdict *v = &op->verdict;
    struct call_grant *g = d->used_grant ? grant_find(op->trust_, &op->ask) : NULL;
    struct held_call *h = NULL;

    if (v->kind == VERDICT_REQUIRE_APPROVAL) {
        op->r_ = trust_hold_call(op, d, &h, &op->err_);
        if (op->r_ >= 0) {
            memcpy(v->request_id, h->record.id, sizeof v->request_id);
            record_verdict(op, h, true);
            return true;
        }
        if (!refuse_to_hold(op))
            return false;
    }
    if (g && v->kind == VERDICT_ALLOW) {
        begin_verdict_write(op, "trust.grant_used");
        grant_use(op->trust_, g, op->write_);
        record_verdict(op, NULL, true);
        return true;
    }
    if (v->would == VERDICT_ALLOW || !audit_may(op->trust_, op->ask.peer->record.owner,
                                                &op->ask.peer->record.actor, &op->ask.peer->audit_))
        return false;
    begin_verdict_write(op, v->kind == v->would ? events[v->kind] : "trust.audited");
    record_verdict(op, NULL, false);
    return true;
}

static void evaluate_question(struct trust_op *op, struct trust_decision *d)
{
    struct peer *p = op->ask.peer;
    struct trust_identity *x = p->identity_;
    struct trust_case c;

    make_trust_case(op->trust_, &op->ask, &c);
    trust_decide(&c, d);
    op->verdict = d->verdict;
    op->verdict.granted = d->used_grant;
    if (d->rule)
        identity_rate(x, d->rule->tool)->rate_ns = d->rate_ns;
    for (size_t i = 0; d->rule && i < c.n_above; i++, x = x->maker)
        identity_rate(x->maker, d->rule->tool)->rate_ns = d->above_rate_ns[i];
    if (d->rule && d->rule->creates && d->verdict.kind == VERDICT_ALLOW)
        uses_reserve(p, op->ask.makes > 1 ? op->ask.makes : 1);
    peer_seen(p);
}

static enum verdict_kind foresee_verdict(struct trust *t, const struct trust_question *q)
{
    struct trust_decision d;
    struct trust_case c;

    if (q->peer->record.ended_ns || !q->peer->trust)
        return VERDICT_DENY;
    make_trust_case(t, q, &c);
    trust_decide(&c, &d);
    return d.verdict.kind;
}

bool trust_would_hold(struct trust *t, const struct trust_question *q)
{
    return foresee_verdict(t, q) == VERDICT_REQUIRE_APPROVAL;
}

bool trust_would_allow(struct trust *t, const struct trust_question *q)
{
    return foresee_verdict(t, q) == VERDICT_ALLOW;
}

bool trust_checks_filesystem(const struct trust *t)
{
    return t->policy.bundle && t->policy.bundle->asks_filesystem;
}

void trust_request(struct trust *t, struct trust_op *op)
{
    struct trust_decision d = { 0 };

    op->trust_ = t;
    op->write_ = NULL;
    op->recording_ = NULL;
    op->r_ = 0;
    list_append(&t->asks, &op->link_);
    if (op->ask.peer->record.ended_ns || !op->ask.peer->trust)
        op->verdict = (struct verdict){ .kind = VERDICT_DENY,
                                        .would = VERDICT_DENY,
                                        .rule = "peer",
                                        .reason = "the session has ended: register again" };
    else
        evaluate_question(op, &d);
    op->r_ = id_make("aud_", op->verdict.audit_id, &op->err_);
    if (op->r_ < 0 || !op->ask.peer->trust || !record_before_answer(op, &d))
        (void)loop_later(t->loop, &op->later_, on_trust_op_later, NULL);
    log_verdict(op);
}

void trust_op_cancel(struct trust_op *op)
{
    if (!op->trust_)
        return;
    loop_later_stop(&op->later_);
    if (op->recording_)
        op->recording_->op = NULL;
    link_leave(&op->link_);
    op->trust_ = NULL;
}

/* --- the policy --- */

const struct trust_policy *trust_current(const struct trust *t)
{
    return &t->policy;
}

int trust_reload(struct trust *t, struct err *e)
{
    int r = trust_policy_reload(&t->policy, e);

    if (r > 0)
        approvals_policy_changed(t);
    if (r > 0)
        minutes_check(t);
    return r;
}

/* --- opening and closing --- */

static void on_trust_event(struct event_subscriber *s, const struct event_record *v)
{
    struct trust *t = container_of(s, struct trust, events);

    uses_event(t, v);
    peers_event(t, v);
}

int trust_open(const struct trust_setup *s, struct trust **ret, struct err *e)
{
    const struct quota_limits held = quota_token_limits(APPROVALS_PER_OWNER),
                              held_bytes = quota_token_limits(APPROVALS_BYTES / 4);
    struct trust *t = new0(sizeof *t);
    int r;

    *t = (struct trust){ .control = s->control,
                         .tokens = s->tokens,
                         .loop = control_loop(s->control),
                         .store = control_store(s->control),
                         .silence_ns = s->silence_ns,
                         .grace_ns = s->grace_ns,
                         .self_approval = s->self_approval,
                         .serves_tenants = s->serves_tenants,
                         .minutes_due = INT64_MAX };
    quota_init(&t->held_owned, &held, "held calls", "", "a fixed limit");
    quota_init(&t->held_owned_bytes, &held_bytes, "bytes of held calls", "", "a fixed limit");
    rate_init(&t->held_rate, APPROVALS_DAY_BYTES, 24 * 3600 * NS_PER_S);
    rate_init(&t->family_held_rate, quota_token_part(APPROVALS_DAY_BYTES), 24 * 3600 * NS_PER_S);
    trust_policy_open(&t->policy, s->bundle, (enum trust_failure)s->failure, s->mode);
    control_subscribe(t->control, &t->events, on_trust_event);
    r = peers_open(t, e);
    if (r >= 0)
        r = approvals_open(t, e);
    if (r < 0) {
        trust_close(t);
        return r;
    }
    minutes_check(t);
    *ret = t;
    return r;
}

void trust_close(struct trust *t)
{
    if (!t)
        return;
    event_unsubscribe(&t->events);
    minutes_close(t);
    for (struct link *m; (m = list_first(&t->asks));)
        trust_op_cancel(container_of(m, struct trust_op, link_));
    peers_detach_ops(t);
    approvals_detach_ops(t);
    trust_writes_close(t);
    approvals_close(t);
    peers_close(t);
    trust_policy_done(&t->policy);
    quota_done(&t->held_owned);
    quota_done(&t->held_owned_bytes);
    rate_done(&t->held_rate);
    rate_done(&t->family_held_rate);
    free(t);
}

bool trust_is_idle(struct trust *t)
{
    return !list_first(&t->held) && !list_first(&t->held_ops) && !list_first(&t->asks) &&
           !list_first(&t->calls) && !list_first(&t->writes) && !list_first(&t->peer_ops);
}
