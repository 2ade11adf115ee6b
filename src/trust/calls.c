/* Running what was approved: with the arguments on record, as the peer that asked. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
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

void held_call(struct held *h)
{
    const struct json_limits limits = { .bytes = APPROVAL_ARGS_MAX, .depth = ARGS_DEPTH };
    struct trust *t = h->trust;
    struct peer *p = peers_by_id(t, str_from(h->record.peer));
    struct trust_call *c = calloc(1, sizeof *c);
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
    t->runner.run(t->runner.user, c);
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
