/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/approved.h"

#include <stdio.h>

#include "edge/tools/approved_calls.h"
#include "edge/core/replay.h"
#include "control/owner/owner_share.h"
#include "control/owner/tokens.h"

void approved_fail(struct trust_call *c, const char *why)
{
    AUTO(buf_done) struct buf text = BUF_INIT(16 << 10);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_field_text(&w, "error", why);
    json_end_object(&w);
    if (json_writer_finish(&w, NULL) < 0)
        trust_call_done(c, true, STR("{\"error\":\"its result cannot be encoded as JSON\"}"));
    else
        trust_call_done(c, true, buf_str(&text));
}

bool approved_caller(struct api *a, const struct trust_call *c, struct caller *ret)
{
    const struct token_record *t;

    *ret = *c->caller;
    ret->labels = (struct json_map){ NULL, 0 }; /* the peer's labels are added later */
    if (!str_starts(str_from(ret->actor.id), STR("tok_")))
        return true;
    t = tokens_by_id(a->tokens, str_from(ret->actor.id));
    if (!t)
        return false;
    ret->verbs &= t->verbs;
    ret->egress = t->egress;
    ret->labels = t->labels;
    ret->by_token = true;
    snprintf(ret->family, sizeof ret->family, "%s", t->family);
    ret->role = t->role;
    ret->expires_ns = t->expires_ns;
    return true;
}

void approved_run(void *user, struct trust_call *c)
{
    struct api *a = user;
    struct peer *p = peers_by_id(a->trust, str_from(c->peer));
    struct caller who;

    if (!p || !approved_caller(a, c, &who))
        approved_fail(c, p ? "the token that requested the call no longer exists"
                           : "its peer has ended");
    else if (c->request.n)
        replay_run(a, c, p);
    else
        mcp_run_approved(a, c, p, &who);
}
