/* SPDX-License-Identifier: Apache-2.0 */
/* Runs calls that a master has approved: requests are replayed, tools run as jobs. */
#include "edge/tools/approved_calls.h"

#include <stdlib.h>

#include "base/own.h"
#include "edge/mcp/job.h"

struct approved_job {
    struct trust_call *call;
    struct mcp_job job;
};

/* The text of the error result of a tool. */
static const char *tool_failure_text(const struct json *result)
{
    const struct json *content = json_get(result, STR("content"));
    struct str text = content && content->type == JSON_ARRAY && content->list.n
                          ? mcp_text(json_first(content), "text")
                          : STR("the tool failed");

    return text.p ? text.p : "the tool failed";
}

static void on_approved_call_ran(struct mcp_job *j, const struct json *result, const char *error)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MCP_MESSAGE_MAX);
    struct approved_job *x = container_of(j, struct approved_job, job);
    const struct json *data = result ? json_get(result, STR("structuredContent")) : NULL;
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    if (!error && data)
        json_put_tree(&w, data);
    if (error || !data)
        approved_fail(x->call, error ? error : tool_failure_text(result));
    else if (json_writer_finish(&w, NULL) < 0)
        approved_fail(x->call, "the result cannot be written as JSON");
    else
        trust_call_done(x->call, false, buf_str(&text));
    free(x);
}

static void run_approved_tool(struct api *a, struct trust_call *c, struct peer *p,
                              const struct caller *who)
{
    struct mcp_verdict v;
    struct mcp_client *m;
    struct approved_job *x;

    if (!mcp_token_allows(who, c->tool, &v)) {
        approved_fail(c, v.reason);
        return;
    }
    x = new0(sizeof *x);
    m = mcp_client_new(a, who);
    mcp_client_bind(m, p);
    x->call = c;
    x->job.done = on_approved_call_ran;
    x->job.offer = p->workspace.sandbox[0] ? &mcp_workspace_offer : NULL;
    mcp_job_start(&a->mcp, m, mcp_client_free, str_from(c->tool), c->args, &x->job);
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
        run_approved_tool(a, c, p, &who);
}
