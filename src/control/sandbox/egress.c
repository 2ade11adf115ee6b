/* SPDX-License-Identifier: Apache-2.0 */
/* The egress policy of a sandbox: on disk, and in force. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/ceiling.h"
#include "control/sandbox/sandbox.h"

void sandbox_take_policy(struct sandbox *s, struct policy_text *t, uint64_t generation,
                         const char *approved_for)
{
    if (!t)
        return;
    snprintf(s->approved_for, sizeof s->approved_for, "%s", approved_for ? approved_for : "");
    policy_text_ref(t);
    policy_text_unref(s->policy);
    s->policy = t;
    s->detail.has_egress = true;
    s->detail.egress.generation = generation;
    s->detail.egress.endpoints = t->endpoints;
}

static void store_policy_row(const struct sandbox *s, struct policy_text *p, uint64_t generation,
                             const char *approved_for, struct store_txn *t)
{
    struct egress_record r = { .generation = generation,
                               .endpoints = p->endpoints,
                               .policy = p->spent ? p->spent->json : p->json,
                               .admin = p->author.admin,
                               .most = p->author.most };

    snprintf(r.sandbox, sizeof r.sandbox, "%s", s->record.id);
    snprintf(r.approved, sizeof r.approved, "%s", approved_for);
    store_put_egress(t, &r);
}

void sandbox_store_policy(const struct sandbox *s, struct store_txn *t)
{
    if (s->policy)
        store_policy_row(s, s->policy, s->detail.egress.generation, s->approved_for, t);
}

/* Its ceiling is that of the configuration that holds now. One that has become invalid is kept,
 * and denies everything, until another one is set. */
static int take_stored_policy(struct sandbox *s, const struct egress_record *stored,
                              struct arena *a, struct err *e)
{
    const struct policy_author author =
        ceiling_stored_author(s->control, s->record.owner, stored->admin, stored->most);
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct policy_bounds bounds;
    int r = ceiling_make(s->control, &author, s->profile, a, &bounds, e);

    r = r < 0 ? r : policy_text_stored(stored->policy, stored->endpoints, &bounds, &t, e);
    if (r < 0)
        return r;
    sandbox_take_policy(s, t, stored->generation, stored->approved);
    return 0;
}

void sandbox_load_policy(struct sandbox *s)
{
    struct store_query q = { .kind = STORE_EGRESS, .sandbox = str_from(s->record.id), .limit = 1 };
    AUTO(policy_text_unrefp_) struct policy_text *none = NULL;
    struct err e;
    int r;

    if (!s->detail.has_egress || s->record.state >= SANDBOX_EXPIRED)
        return;
    arena_init(&q.arena, CONTROL_ARENA_MAX * 4);
    r = store_ask_now(s->control->store, &q, &e);
    if (r >= 0 && q.n == 0)
        r = err_set(&e, ERR_NOT_FOUND, "the store has no policy of it");
    r = r < 0 ? r : take_stored_policy(s, &q.egress[0], &q.arena, &e);
    if (r < 0 && policy_text_missing(e.msg, &none, NULL) >= 0)
        sandbox_take_policy(s, none, s->detail.egress.generation, NULL);
    if (s->policy && s->policy->problem)
        egress_link_log_flaw(s->record.id, s->detail.egress.generation, s->policy->problem);
    arena_done(&q.arena);
}

void sandbox_reopen_egress_link(struct sandbox *s)
{
    if (s->policy)
        egress_link_set_policy(egress_link_new(s->control, s->box,
                                               egress_link_share(s->control, s->profile),
                                               s->record.owner, s->record.family),
                               s->policy, s->detail.egress.generation, NULL);
}

/* Adds the counters of earlier daemon runs, which are in the detail. */
void sandbox_count_egress(struct sandbox *s)
{
    struct egress_link *o = egress_link_find(s->control, s->record.id);
    struct egress_link_counters n;

    if (!o)
        return;
    n = egress_link_counters(o);
    s->detail.egress.allowed = s->counted.allowed + n.allowed;
    s->detail.egress.denied = s->counted.denied + n.denied;
    s->detail.egress.bytes_out = s->counted.bytes_out + n.bytes_out;
    s->detail.egress.bytes_in = s->counted.bytes_in + n.bytes_in;
}

static void on_egress_link_closed(struct egress_link_op *op, int r, const struct err *e)
{
    struct sandbox *s = container_of(op, struct sandbox, applying);

    sandbox_count_egress(s);
    if (egress_link_find(s->control, s->record.id)) {
        s->last_line.time_ns = clock_wall();
        egress_link_fill_head(egress_link_find(s->control, s->record.id), &s->last_line);
    }
    egress_link_free(egress_link_find(s->control, s->record.id));
    s->after_egress_link(s);
}

void sandbox_close_egress_link(struct sandbox *s, void (*after)(struct sandbox *s))
{
    struct egress_link *o = egress_link_find(s->control, s->record.id);

    if (!o) {
        after(s);
        return;
    }
    egress_link_abandon(o); /* may complete `applying` */
    s->after_egress_link = after;
    s->applying = (struct egress_link_op){ .done = on_egress_link_closed };
    egress_link_close(o, &s->applying);
}

bool sandbox_egress(const struct sandbox *s, struct sandbox_egress *ret)
{
    const struct egress_link *o = egress_link_find(s->control, s->record.id);
    struct egress_link_counters n = { 0 };

    if (!s->detail.has_egress)
        return false;
    if (o)
        n = egress_link_counters(o);
    *ret = (struct sandbox_egress){
        .generation = s->detail.egress.generation,
        .in_force = o ? egress_link_in_force(o) : 0,
        .problem = s->policy && s->policy->problem ? s->policy->problem
                   : o                             ? egress_link_flaw(o)
                                                   : NULL,
        .sandbox = s->record.id,
        .endpoints = s->detail.egress.endpoints,
        .allowed = o ? s->counted.allowed + n.allowed : s->detail.egress.allowed,
        .denied = o ? s->counted.denied + n.denied : s->detail.egress.denied,
        .bytes_out = o ? s->counted.bytes_out + n.bytes_out : s->detail.egress.bytes_out,
        .bytes_in = o ? s->counted.bytes_in + n.bytes_in : s->detail.egress.bytes_in,
    };
    return true;
}

struct policy_text *sandbox_policy_text(const struct sandbox *s)
{
    return s->policy;
}

const char *sandbox_approved_for(const struct sandbox *s)
{
    return s->approved_for;
}

struct str sandbox_policy(const struct sandbox *s)
{
    return s->policy ? s->policy->json : (struct str){ NULL, 0 };
}

struct str sandbox_policy_ceiling(const struct sandbox *s)
{
    return s->policy ? s->policy->ceiling : (struct str){ NULL, 0 };
}

int sandbox_ceiling(const struct sandbox *s, const struct caller *who, struct arena *a,
                    struct policy_bounds *ret, struct err *e)
{
    const struct policy_author author = ceiling_author(who);

    return ceiling_make(s->control, &author, s->profile, a, ret, e);
}

/* ---- setting a policy ---- */

struct policy_setting {
    struct policy_text *policy;
    struct egress_link_op applying;
    egress_set_fn *done;
    void *user;
    uint64_t generation;
    char approved_for[ID_MAX];
};

static void finish_policy_setting(struct policy_setting *x, int r, const struct err *e)
{
    x->done(x->user, r, e);
    policy_text_unref(x->policy);
    free(x);
}

static void on_new_policy_applied(struct egress_link_op *op, int r, const struct err *e)
{
    finish_policy_setting(container_of(op, struct policy_setting, applying), r, e);
}

/* Checked when the change's turn comes. */
static int check_settable(const struct change *c, struct err *e)
{
    const struct sandbox *s = c->sandbox;

    if (s->destroying || s->after_teardown || !sandbox_state_usable(s->record.state))
        return err_set(e, s->record.state == SANDBOX_PAUSED ? ERR_PAUSED : ERR_CONFLICT,
                       "sandbox %s is %s: its policy cannot be changed", s->record.id,
                       sandbox_state_names[s->record.state]);
    if (!s->policy)
        return err_set(e, ERR_CONFLICT,
                       "sandbox %s was made without a network; create another with `egress` "
                       "(--allow, --allow-packages or --policy)",
                       s->record.id);
    return 0;
}

/* The row of the policy has the generation, too, and is the one that counts. */
static void edit_policy(struct change *c, struct sandbox_record *next)
{
    struct policy_setting *x = c->user;

    x->generation = c->sandbox->detail.egress.generation + 1;
}

static void store_policy_setting(struct change *c, struct store_txn *t)
{
    const struct policy_setting *x = c->user;

    store_policy_row(c->sandbox, x->policy, x->generation, x->approved_for, t);
}

static void on_policy_recorded(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;
    struct policy_setting *x = c->user;
    struct egress_link *o = egress_link_find(s->control, s->record.id);
    struct err why;

    if (r >= 0 && !o) {
        r = err_set(&why, ERR_CONFLICT, "sandbox %s is being destroyed", s->record.id);
        e = &why;
    }
    if (r < 0) {
        finish_policy_setting(x, r, e);
        return;
    }
    sandbox_take_policy(s, x->policy, x->generation, x->approved_for);
    x->applying = (struct egress_link_op){ .done = on_new_policy_applied };
    egress_link_set_policy(o, x->policy, x->generation, &x->applying);
}

void sandbox_set_policy(struct sandbox *s, const struct actor *who, struct policy_text *t,
                        const char *approved_for, egress_set_fn *done, void *user)
{
    struct change *c = change_new(s, who, "a new policy");
    struct policy_setting *x = new0(sizeof *x);

    *x = (struct policy_setting){ .policy = policy_text_ref(t), .done = done, .user = user };
    snprintf(x->approved_for, sizeof x->approved_for, "%s", approved_for ? approved_for : "");
    c->type = "egress.policy";
    c->check = check_settable;
    c->edit = edit_policy;
    c->also = store_policy_setting;
    c->done = on_policy_recorded;
    c->user = x;
    change_submit(c);
}
