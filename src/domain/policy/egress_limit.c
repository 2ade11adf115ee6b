/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of entries with `until` or `uses`. */
#include "domain/policy/compiled.h"

int64_t egress_snapshot_expire(struct egress_snapshot *s, int64_t now)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < s->limit_count; i++) {
        struct egress_limit *l = &s->limits[i];

        if (l->until <= now)
            l->ended = true;
        else if (!l->ended && l->until < next)
            next = l->until;
    }
    return next;
}

bool egress_match_ended(const struct egress_match *m)
{
    if (!m->snapshot_ || m->snapshot_->limit_count == 0)
        return false;
    for (size_t i = 0; i < m->all_count_; i++)
        if (m->all_[i]->limit && m->all_[i]->limit->ended)
            return true;
    return false;
}

bool egress_limit_use(struct egress_limit *l)
{
    if (limit_is_over(l))
        return false;
    if (l && l->counted)
        l->left--;
    return true;
}

void egress_limit_refuse(const struct egress_limit *l, struct egress_reason *why)
{
    static const char next[] = "Ask the owner of the policy to extend it.";

    if (l->ended)
        egress_reason_set_(why, "policy_expired", l->place, next,
                           "'" STR_FMT "' allowed it until " STR_FMT ".", STR_ARG(l->policy),
                           STR_ARG(l->until_text));
    else
        egress_reason_set_(why, "uses_spent", l->place, next,
                           "'" STR_FMT "' allowed it %u time%s, and all uses are spent.",
                           STR_ARG(l->policy), l->uses, l->uses == 1 ? "" : "s");
}
