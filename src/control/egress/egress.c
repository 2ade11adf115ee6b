/* What a sandbox may reach: its policy on disk, and in force. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/ceiling.h"
#include "control/sandbox.h"

void sandbox_take_policy(struct sandbox *s, struct policy_text *t, uint64_t generation,
                         const char *approved_for)
{
    if (!t)
        return;
    snprintf(s->approved_for, sizeof s->approved_for, "%s", approved_for ? approved_for : "");
    policy_text_ref(t);
    policy_text_unref(s->policy);
    s->policy = t;
    s->facts.has_egress = true;
    s->facts.egress.generation = generation;
    s->facts.egress.endpoints = t->endpoints;
}

static void put_policy(const struct sandbox *s, struct policy_text *p, uint64_t generation,
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

void sandbox_put_policy(const struct sandbox *s, struct store_txn *t)
{
    if (s->policy)
        put_policy(s, s->policy, s->facts.egress.generation, s->approved_for, t);
}

/* Its ceiling is that of the configuration that holds now. */
static int take_stored_policy(struct sandbox *s, const struct egress_record *stored,
                              struct arena *a, struct err *e)
{
    const struct policy_author author =
        ceiling_stored_author(s->control, s->record.owner, stored->admin, stored->most);
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct policy_bounds bounds;
    int r = ceiling_make(s->control, &author, s->profile, a, &bounds, e);

    if (r >= 0)
        r = policy_text_stored(stored->policy, stored->endpoints, &bounds, &t, e);
    if (r >= 0)
        sandbox_take_policy(s, t, stored->generation, stored->approved);
    return r;
}

int sandbox_load_policy(struct sandbox *s, struct err *e)
{
    struct store_query q = { .kind = STORE_EGRESS, .sandbox = str_from(s->record.id), .limit = 1 };
    int r;

    if (!s->facts.has_egress || s->record.state >= SANDBOX_EXPIRED)
        return 0;
    arena_init(&q.arena, CONTROL_ARENA_MAX * 4);
    r = store_ask_now(s->control->store, &q, e);
    if (r >= 0 && q.n == 0)
        r = err_set(e, ERR_NOT_FOUND, "its policy is not in the store: nothing passes");
    if (r >= 0)
        r = take_stored_policy(s, &q.egress[0], &q.arena, e);
    arena_done(&q.arena);
    return r;
}

void sandbox_reopen_outlet(struct sandbox *s)
{
    if (s->policy)
        outlet_set_policy(outlet_new(s->control, s->box, outlet_share(s->control, s->profile),
                                     s->record.owner, s->record.family),
                          s->policy, s->facts.egress.generation, NULL);
}

/* What was counted by workers of an earlier life of the daemon is in the facts. */
void sandbox_count_egress(struct sandbox *s)
{
    struct outlet *o = outlet_find(s->control, s->record.id);
    struct outlet_counters n;

    if (!o)
        return;
    n = outlet_counters(o);
    s->facts.egress.allowed = s->counted.allowed + n.allowed;
    s->facts.egress.denied = s->counted.denied + n.denied;
    s->facts.egress.bytes_out = s->counted.bytes_out + n.bytes_out;
    s->facts.egress.bytes_in = s->counted.bytes_in + n.bytes_in;
}

static void outlet_closed(struct outlet_op *op, int r, const struct err *e)
{
    struct sandbox *s = container_of(op, struct sandbox, applying);

    (void)r;
    (void)e;
    sandbox_count_egress(s);
    if (outlet_find(s->control, s->record.id)) {
        s->last_line.time_ns = clock_wall();
        outlet_put_line(outlet_find(s->control, s->record.id), &s->last_line);
    }
    outlet_free(outlet_find(s->control, s->record.id));
    s->after_outlet(s);
}

void sandbox_close_outlet(struct sandbox *s, void (*after)(struct sandbox *s))
{
    struct outlet *o = outlet_find(s->control, s->record.id);

    if (!o) {
        after(s);
        return;
    }
    outlet_abandon(o); /* who waits for a policy: us, maybe */
    s->after_outlet = after;
    s->applying = (struct outlet_op){ .done = outlet_closed };
    outlet_close(o, &s->applying);
}

bool sandbox_egress(const struct sandbox *s, struct sandbox_egress *ret)
{
    const struct outlet *o = outlet_find(s->control, s->record.id);
    struct outlet_counters n = { 0 };

    if (!s->facts.has_egress)
        return false;
    if (o)
        n = outlet_counters(o);
    *ret = (struct sandbox_egress){
        .generation = s->facts.egress.generation,
        .in_force = o ? outlet_in_force(o) : 0,
        .endpoints = s->facts.egress.endpoints,
        .allowed = o ? s->counted.allowed + n.allowed : s->facts.egress.allowed,
        .denied = o ? s->counted.denied + n.denied : s->facts.egress.denied,
        .bytes_out = o ? s->counted.bytes_out + n.bytes_out : s->facts.egress.bytes_out,
        .bytes_in = o ? s->counted.bytes_in + n.bytes_in : s->facts.egress.bytes_in,
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

/* ---- another policy ---- */

struct setting {
    struct policy_text *policy;
    struct outlet_op applying;
    egress_set_fn *done;
    void *user;
    uint64_t generation;
    char approved_for[ID_MAX];
};

static void finish(struct setting *x, int r, const struct err *e)
{
    x->done(x->user, r, e);
    policy_text_unref(x->policy);
    free(x);
}

static void applied(struct outlet_op *op, int r, const struct err *e)
{
    finish(container_of(op, struct setting, applying), r, e);
}

/* Asked when its turn comes. */
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

/* The row that the policy stands in has the generation too, and counts. */
static void edit_policy(struct change *c, struct sandbox_record *next)
{
    struct setting *x = c->user;

    (void)next;
    x->generation = c->sandbox->facts.egress.generation + 1;
}

static void put_setting(struct change *c, struct store_txn *t)
{
    const struct setting *x = c->user;

    put_policy(c->sandbox, x->policy, x->generation, x->approved_for, t);
}

static void told_set(struct change *c, int r, const struct err *e)
{
    struct sandbox *s = c->sandbox;
    struct setting *x = c->user;
    struct outlet *o = outlet_find(s->control, s->record.id);
    struct err gone;

    if (r >= 0 && !o) {
        r = err_set(&gone, ERR_CONFLICT, "sandbox %s is on its way out", s->record.id);
        e = &gone;
    }
    if (r < 0) {
        finish(x, r, e);
        return;
    }
    sandbox_take_policy(s, x->policy, x->generation, x->approved_for);
    x->applying = (struct outlet_op){ .done = applied };
    outlet_set_policy(o, x->policy, x->generation, &x->applying);
}

void sandbox_set_policy(struct sandbox *s, const struct actor *who, struct policy_text *t,
                        const char *approved_for, egress_set_fn *done, void *user)
{
    struct change *c = change_new(s, who, "a new policy");
    struct setting *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    *x = (struct setting){ .policy = policy_text_ref(t), .done = done, .user = user };
    snprintf(x->approved_for, sizeof x->approved_for, "%s", approved_for ? approved_for : "");
    c->type = "egress.policy";
    c->check = check_settable;
    c->edit = edit_policy;
    c->also = put_setting;
    c->done = told_set;
    c->user = x;
    change_submit(c);
}
