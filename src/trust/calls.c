/* Running what was approved: with the arguments on record, as the peer that asked. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "json/reader.h"
#include "trust/held.h"

void trust_call_done(struct trust_call *c, bool failed, struct str result)
{
    struct trust *t = c->trust_;
    struct index_entry *v = t ? index_find(&t->held_ids, str_from(c->request_id)) : NULL;

    link_leave(&c->link_);
    if (v)
        held_done(container_of(v, struct held, entry), failed, result);
    if (c->peer_)
        peer_detach(c->peer_);
    peer_unref(c->peer_);
    arena_done(&c->arena_);
    free(c);
}

/* A create counts when it runs, not when it was held: many may have been held meanwhile. */
static bool fits_limits(struct trust *t, struct peer *p, const struct trust_call *c,
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
                                .usage = peer_usage(p, clock_wall()),
                                .terms = p->identity_->is_token ? &p->identity_->terms : NULL,
                                .network_approved = true,
                                .granted = true };

    if (!rule || !rule->creates)
        return true;
    case_add_makers(&again, p);
    trust_decide(&again, d);
    if (d->verdict.kind != VERDICT_ALLOW)
        return false;
    uses_reserve(p, 1);
    return true;
}

static void refuse(struct trust_call *c, const char *why)
{
    AUTO(buf_done) struct buf text = BUF_INIT(16 << 10);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_key(&w, STR("error"));
    json_put_lossy(&w, str_from(why));
    json_end_object(&w);
    trust_call_done(c, true,
                    json_writer_finish(&w, NULL) < 0 ? STR("{\"error\":\"refused\"}")
                                                     : buf_str(&text));
}

void held_call(struct held *h)
{
    const struct json_limits limits = { .bytes = APPROVAL_ARGS_MAX, .depth = ARGS_DEPTH };
    struct trust *t = h->trust;
    struct peer *p = peers_by_id(t, str_from(h->record.peer));
    struct trust_call *c = calloc(1, sizeof *c);
    struct trust_decision d = { 0 };
    struct err e;

    if (!c)
        abort();
    arena_init(&c->arena_, ARGS_MEMORY);
    snprintf(c->request_id, sizeof c->request_id, "%s", h->record.id);
    snprintf(c->tool, sizeof c->tool, "%s", h->record.tool);
    c->trust_ = t;
    list_append(&t->calls, &c->link_);
    if (!p) {
        trust_call_done(c, true, STR("{\"error\":\"its peer is gone\"}"));
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
    if (fits_limits(t, p, c, &d))
        t->runner.run(t->runner.user, c);
    else
        refuse(c, d.verdict.reason);
}

void trust_set_runner(struct trust *t, const struct trust_runner *r)
{
    struct link *next;

    t->runner = r ? *r : (struct trust_runner){ 0 };
    for (struct link *m = r ? list_first(&t->held) : NULL; m; m = next) {
        struct held *h = container_of(m, struct held, link);

        next = list_after(&t->held, m);
        held_run(h); /* approved in an earlier life */
    }
}

/* Whoever runs them tells later, and finds nobody. */
void calls_close(struct trust *t)
{
    for (struct link *m; (m = list_take(&t->calls));)
        container_of(m, struct trust_call, link_)->trust_ = NULL;
}
