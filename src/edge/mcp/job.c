/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/mcp/job.h"

#include "base/own.h"
#include "lib/json/reader.h"
#include "edge/mcp/internal.h"

enum { CALL_MAX = 32 << 20, DEPTH = 64, ERROR_MAX = 4 << 10 };

static int ignore_job_message(struct mcp_out *o, struct str message)
{
    return 0;
}

static void on_job_answered(struct mcp_out *o, const struct json *id, struct str message,
                            int status)
{
    const struct json_limits limits = { .bytes = MCP_MESSAGE_MAX, .depth = DEPTH };
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)4 * MCP_MESSAGE_MAX);
    struct mcp_job *j = container_of(o, struct mcp_job, out_);
    const struct json *v, *result = NULL;
    struct str why = STR("the call was interrupted and may have had effects");

    if (message.n && json_read(message, limits, &a, &v, NULL) >= 0) {
        result = mcp_object(v, "result");
        if (!result && mcp_text(mcp_object(v, "error"), "message").p)
            why = mcp_text(mcp_object(v, "error"), "message");
    }
    mcp_session_end(j->session_);
    j->done(j, result, result ? NULL : why.p);
}

static const struct mcp_out_ops ops = { .send = ignore_job_message, .answer = on_job_answered };

void mcp_job_start(struct mcp_server *server, void *user, void (*free_user)(void *user),
                   struct str tool, const struct json *arguments, struct mcp_job *j)
{
    AUTO(buf_done) struct buf text = BUF_INIT(CALL_MAX);
    AUTO(buf_done) struct buf id = BUF_INIT(ERROR_MAX);
    struct rpc_frame *f;
    struct mcp_session *s;
    struct json_writer w;
    enum rpc_code code;
    struct err e;

    j->out_ = (struct mcp_out){ .ops = &ops };
    json_writer_init(&w, &text, JSON_COMPACT);
    rpc_begin_request(&w, 1, "tools/call");
    json_begin_object(&w);
    json_field_str(&w, "name", tool);
    json_field_tree(&w, "arguments", arguments);
    json_end_object(&w);
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    if (rpc_read(buf_str(&text), CALL_MAX, &f, &code, &id, &e) < 0) {
        free_user(user);
        j->done(j, NULL, e.msg);
        return;
    }
    if (mcp_session_new(server, "", user, free_user, &s, &e) < 0) {
        j->done(j, NULL, e.msg);
    } else {
        s->approved = true;
        if (j->offer)
            s->offer = j->offer;
        s->version = MCP_LAST_OLD;
        j->session_ = mcp_session_ref(s);
        mcp_take(s, &j->out_, f, 0);
        mcp_session_unref(s);
    }
    rpc_frame_unref(f);
}
