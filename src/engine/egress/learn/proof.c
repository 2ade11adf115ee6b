/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/proof.h"

#include "base/clock.h"
#include "base/own.h"
#include "domain/policy/egress_explain.h"
#include "domain/policy/egress_file.h"

static int fail_proof(const struct learn_destination *d, const char *what,
                      const struct egress_explanation *x, struct err *e)
{
    return err_set(e, ERR_BUG,
                   "nothing is proposed: the policy would not %s %s:%u (%s); please report this as "
                   "a defect",
                   what, d->host.name, d->port, x->why.code ? x->why.code : "allowed");
}

static int prove_item(const struct egress_snapshot *s, const struct learn_destination *d,
                      bool programs, struct err *e)
{
    struct egress_explanation x;

    if (!programs)
        return learn_is_allowed(s, d, NULL, &x) ? 0 : fail_proof(d, "allow", &x, e);
    for (size_t i = 0; i < d->n_programs; i++)
        if (!learn_is_allowed(s, d, d->programs[i], &x))
            return fail_proof(d, "allow", &x, e);
    return 0;
}

/* An endpoint of the base that names programs is kept as it is. The log has one program of a
 * connection and not all of its ancestors, so that its decision cannot be made again. */
static bool depends_on_program(const struct egress_explanation *x)
{
    struct str code = str_from(x->why.code);

    return str_eq(code, STR("identity_unknown")) || str_eq(code, STR("binary_not_allowed"));
}

static int prove_covered(const struct egress_snapshot *s, const struct learn_destination *d,
                         struct err *e)
{
    struct egress_explanation x;

    if (learn_is_allowed(s, d, d->n_programs ? d->programs[0] : NULL, &x) || depends_on_program(&x))
        return 0;
    return fail_proof(d, "allow", &x, e);
}

static int prove_left_out(const struct egress_snapshot *s, const struct learn_destination *d,
                          struct err *e)
{
    struct egress_explanation x;

    return learn_is_allowed(s, d, NULL, &x) ? fail_proof(d, "refuse", &x, e) : 0;
}

static int prove_decisions(const struct egress_snapshot *s, const struct learn_proposal *p,
                           const struct learn_choices *c, struct err *e)
{
    const struct learn_table *t = &p->log->opened;
    int r = 0;

    for (size_t i = 0; i < p->n_items && r >= 0; i++)
        r = prove_item(s, p->items[i].of, c->programs, e);
    for (size_t i = 0; i < t->n && r >= 0; i++) {
        if (t->list[i]->covered)
            r = prove_covered(s, t->list[i], e);
        else if (t->list[i]->left_out)
            r = prove_left_out(s, t->list[i], e);
    }
    return r;
}

int learn_prove(const struct learn_proposal *p, const struct learn_choices *c, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct egress_policy policy;
    int r = egress_policy_read(buf_str(&p->text), &a, &policy, e);

    if (r >= 0) {
        s = egress_compile(&policy, 1, e);
        r = s ? 0 : -(int)ERR_INVALID;
    }
    if (r < 0)
        return err_wrap(e, r, "nothing is proposed: the policy would not be valid");
    egress_snapshot_expire(s, clock_wall());
    return prove_decisions(s, p, c, e);
}
