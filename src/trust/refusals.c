/* SPDX-License-Identifier: Apache-2.0 */
/* Records refusals as events, limited by rate. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/owner/event_share.h"
#include "trust/internal.h"

enum { AUDIT_BURST = 32 };
static const int64_t AUDIT_EVERY_NS = NS_PER_S;

bool audit_may(const struct trust *t, const char *owner, const struct actor *who,
               struct audit_meter *m)
{
    int64_t now = clock_mono(), from = m->until_ns > now ? m->until_ns : now;

    if (from - now > AUDIT_BURST * AUDIT_EVERY_NS ||
        event_share_check(t->control, owner, who, NULL) < 0) {
        m->unrecorded++;
        return false;
    }
    m->until_ns = from + AUDIT_EVERY_NS;
    return true;
}

void audit_write(struct audit_meter *m, struct trust_write *w)
{
    char count[24];

    if (!m->unrecorded)
        return;
    snprintf(count, sizeof count, "%llu", (unsigned long long)m->unrecorded);
    trust_write_detail(w, "unrecorded", count);
    m->unrecorded = 0;
}

void trust_refused(struct trust *t, const struct trust_refusal *x)
{
    struct audit_meter *m = x->peer ? &x->peer->mistakes_ : &t->strangers;
    char tool[RECORD_TOOL_MAX], reason[RECORD_REASON_MAX], code[16];
    struct trust_write *w;

    if (!audit_may(t, x->owner, x->actor, m))
        return;
    log_printable(x->tool, tool, sizeof tool);
    log_printable(str_from(x->reason), reason, sizeof reason);
    LOG(INFO, x->type, LOG_S("peer", x->peer ? x->peer->record.id : ""),
        LOG_S("actor", x->actor->id), LOG_S("tool", tool), LOG_I("code", x->code),
        LOG_S("reason", reason));
    w = trust_write_new(t, x->type, x->owner, x->actor, reason);
    if (x->peer)
        trust_write_detail(w, "peer", x->peer->record.id);
    if (tool[0])
        trust_write_detail(w, "tool", tool);
    if (x->code) {
        snprintf(code, sizeof code, "%d", x->code);
        trust_write_detail(w, "code", code);
    }
    if (x->audit)
        trust_write_detail(w, "audit", x->audit);
    audit_write(m, w);
    trust_write_commit(w, NULL, NULL);
}
