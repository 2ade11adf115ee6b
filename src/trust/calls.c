/* SPDX-License-Identifier: Apache-2.0 */
/* Runs approved calls: with the stored arguments, as the peer that requested them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "lib/json/reader.h"
#include "trust/held.h"

void trust_call_done(struct trust_call *c, bool failed, struct str result)
{
    struct trust *t = c->trust_;
    struct map_entry *v = t ? map_find(&t->held_ids, str_from(c->request_id)) : NULL;

    link_leave(&c->link_);
    if (v)
        held_done(container_of(v, struct held_call, entry), failed, result);
    if (c->peer_)
        peer_detach(c->peer_);
    peer_unref(c->peer_);
    arena_done(&c->arena_);
    free(c);
}

/* Checks limits again when the call runs: other creates may have been approved since it was
 * held. */
static bool call_fits_limits(struct trust *t, struct peer *p, const struct trust_call *c,
                             struct trust_decision *d)
{
    const struct trust_rule *rule = trust_bundle_find(t->policy.bundle, str_from(c->tool));
    struct trust_case again = { .bundle = t->policy.bundle,
                                .failure = t->policy.failure,
                                .tool = str_from(c->tool),
                                .args = c->args,
                                .role = p->record.role,
                                .client = p->record.client,
                                .now_ns = clock_mono(),
                                .terms = p->identity_->is_token ? &p->identity_->terms : NULL,
                                .network_approved = true,
                                .granted = true };

    if (!rule || !rule->creates)
        return true;
    case_add_makers(&again, p);
    case_add_usage(&again, p);
    trust_decide(&again, d);
    if (d->verdict.kind != VERDICT_ALLOW)
        return false;
    uses_reserve(p, 1);
    return true;
}

static void refuse_approved_call(struct trust_call *c, const char *why)
{
    AUTO(buf_done) struct buf text = BUF_INIT(16 << 10);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_field_text(&w, "error", why);
    json_end_object(&w);
    trust_call_done(c, true,
                    json_writer_finish(&w, NULL) < 0 ? STR("{\"error\":\"refused\"}")
                                                     : buf_str(&text));
}

void held_start_call(struct held_call *h)
{
    const struct json_limits limits = { .bytes = APPROVAL_ARGS_MAX, .depth = ARGS_DEPTH };
    struct trust *t = h->trust;
    struct peer *p = peers_by_id(t, str_from(h->record.peer));
    struct trust_call *c = new0(sizeof *c);
    struct trust_decision d = { 0 };
    struct err e;

    arena_init(&c->arena_, ARGS_MEMORY);
    snprintf(c->request_id, sizeof c->request_id, "%s", h->record.id);
    snprintf(c->tool, sizeof c->tool, "%s", h->record.tool);
    c->trust_ = t;
    list_append(&t->calls, &c->link_);
    if (!p) {
        trust_call_done(c, true, STR("{\"error\":\"its peer has ended\"}"));
        return;
    }
    snprintf(c->peer, sizeof c->peer, "%s", p->record.id);
    c->peer_ = peer_ref(p);
    peer_attach(p);
    peer_caller(p, &c->caller_);
    c->caller = &c->caller_;
    c->request = (struct str){ arena_dup(&c->arena_, h->record.request), h->record.request.n };
    if (!c->request.p || json_read(h->record.args, limits, &c->arena_, &c->args, &e) < 0) {
        LOG(ERROR, "approval.unreadable", LOG_S("request", c->request_id), LOG_S("error", e.msg));
        trust_call_done(c, true, STR("{\"error\":\"its arguments cannot be read\"}"));
        return;
    }
    if (call_fits_limits(t, p, c, &d))
        t->runner.run(t->runner.user, c);
    else
        refuse_approved_call(c, d.verdict.reason);
}

void trust_set_runner(struct trust *t, const struct trust_runner *r)
{
    t->runner = r ? *r : (struct trust_runner){ 0 };
    if (!r)
        return;
    LIST_EACH_SAFE (struct held_call, h, &t->held, link)
        held_run(h); /* approved in an earlier daemon run */
}

/* Detaches running calls: their completion is ignored. */
void calls_close(struct trust *t)
{
    for (struct link *m; (m = list_take(&t->calls));)
        container_of(m, struct trust_call, link_)->trust_ = NULL;
}
