/* Running what a master has approved: the tool of that name, once, with the arguments that it was
 * asked with, as the peer that asked. */
#include "api/mcp_approved.h"

#include <stdio.h>
#include <stdlib.h>

#include "control/tokens.h"
#include "mcp/job.h"

struct approved {
    struct trust_call *call;
    struct mcp_job job;
};

static void finish(struct trust_call *c, const char *why, const struct json *result)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MCP_MESSAGE_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    if (why) {
        json_begin_object(&w);
        json_key(&w, STR("error"));
        json_put_lossy(&w, str_from(why));
        json_end_object(&w);
    } else {
        json_put_tree(&w, result);
    }
    if (json_writer_finish(&w, NULL) < 0)
        trust_call_done(c, true, STR("{\"error\":\"its result cannot be told\"}"));
    else
        trust_call_done(c, why != NULL, buf_str(&text));
}

/* What a tool that failed says, which is the text of its result. */
static const char *text_of(const struct json *result)
{
    const struct json *content = json_get(result, STR("content"));
    const struct json *text = content && content->type == JSON_ARRAY && content->list.n
                                  ? json_get(json_first(content), STR("text"))
                                  : NULL;

    return text && text->type == JSON_STR ? text->s.p : "the tool failed";
}

static void ran(struct mcp_job *j, const struct json *result, const char *error)
{
    struct approved *x = container_of(j, struct approved, job);
    const struct json *data = result ? json_get(result, STR("structuredContent")) : NULL;

    finish(x->call, error ? error : data ? NULL : text_of(result), data);
    free(x);
}

/* What whoever asked may now: a token that is gone, or good for less, counts as it is. */
static bool caller_now(struct api *a, const struct trust_call *c, struct caller *ret)
{
    const struct token_record *t;

    *ret = *c->caller;
    ret->labels = (struct json_map){ NULL, 0 }; /* the peer's come with it */
    if (!str_starts(str_from(ret->actor.id), STR("tok_")))
        return true;
    t = tokens_by_id(a->tokens, str_from(ret->actor.id));
    if (!t)
        return false;
    ret->verbs &= t->verbs;
    ret->labels = t->labels;
    return true;
}

void mcp_run_approved(void *user, struct trust_call *c)
{
    struct api *a = user;
    struct peer *p = peers_by_id(a->trust, str_from(c->peer));
    struct mcp_verdict v;
    struct mcp_client *m;
    struct approved *x;
    struct caller who;

    if (!p || !caller_now(a, c, &who)) {
        finish(c, p ? "the token that asked for it is gone" : "its peer is gone", NULL);
        return;
    }
    if (!mcp_token_allows(&who, c->tool, &v)) {
        finish(c, v.reason, NULL);
        return;
    }
    x = calloc(1, sizeof *x);
    if (!x)
        abort();
    m = mcp_client_new(a, &who);
    mcp_client_bind(m, p);
    x->call = c;
    x->job.done = ran;
    mcp_job_start(&a->mcp, m, mcp_client_free, str_from(c->tool), c->args, &x->job);
}
