/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of a client: every frame is read, and what is one is answered by an engine whose tools
 * echo, ask back and hold on. A request gets exactly one answer or, if it is held, none. */
#include <stdlib.h>

#include "base/own.h"
#include "edge/mcp/request.h"

enum { MESSAGE_MAX = 64 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static size_t answers;

static int hear(struct mcp_out *o, struct str message)
{
    must(message.n && str_is_utf8(message) && !memchr(message.p, '\n', message.n));
    return 0;
}

static void hear_answer(struct mcp_out *o, const struct json *id, struct str message, int status)
{
    must(status >= 200 && status < 600);
    answers++;
    if (message.n)
        hear(o, message);
}

static void write_tree(struct json_writer *w, const void *what)
{
    json_put_tree(w, what);
}

static void echo(struct mcp_request *r, const struct json *v)
{
    mcp_tool_reply(r, write_tree, v);
}

static void ask(struct mcp_request *r, const struct json *v)
{
    const struct json *a = mcp_input(r, "a", "elicitation/create", STR("{}"));

    if (a)
        mcp_tool_reply(r, write_tree, a);
}

static void hold(struct mcp_request *r, const struct json *v)
{
    mcp_progress(r, 1, 2, STR("on"), NULL, NULL);
    mcp_log(r, MCP_ERROR, "l", STR("text"));
}

static void watch(struct mcp_request *r, struct str uri)
{
    static const struct mcp_verdict no = { .kind = MCP_DENY, .reason = "no", .audit_id = "aud_1" };

    if (uri.n % 3)
        mcp_watched(r, uri.n % 2);
    else
        mcp_refuse(r, &no);
}

static void nothing(void *user)
{
}

static const struct mcp_tool tools[] = {
    { .name = "e", .description = "d", .call = echo },
    { .name = "a", .description = "d", .call = ask },
    { .name = "h", .description = "d", .call = hold },
    { .name = "t", .description = "d", .call = ask, .hints = MCP_MUST_BE_TASK },
};
static const struct mcp_offer offer = { .name = "n",
                                        .version = "1",
                                        .tools = tools,
                                        .n_tools = COUNT_OF(tools),
                                        .lists_change = true,
                                        .watch = watch };
static const struct mcp_out_ops ops = { .send = hear, .answer = hear_answer };

static void take(struct mcp_session *s, struct mcp_out *o, struct str line)
{
    AUTO(buf_done) struct buf id = BUF_INIT(8 << 10), text = BUF_INIT(16 << 10);
    struct rpc_frame *f;
    enum rpc_code code;
    struct err e;

    if (rpc_read(line, MESSAGE_MAX, &f, &code, &id, &e) < 0) {
        must(code == RPC_PARSE_ERROR || code == RPC_INVALID_REQUEST);
        must(rpc_write_error(&text, buf_str(&id), code, e.msg) >= 0);
        return;
    }
    for (size_t i = 0; i < f->n; i++) {
        size_t before = answers;

        mcp_take(s, o, f, i);
        must(f->messages[i].kind == RPC_REQUEST ? answers <= before + 1 : true);
    }
    rpc_frame_unref(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = { (const char *)data, size }, line;
    struct mcp_out out = { .ops = &ops };
    struct mcp_server server;
    struct mcp_session *s;
    struct loop loop;

    must(loop_init(&loop, NULL) >= 0);
    must(mcp_server_init(&server, &loop, &offer, NULL, NULL) >= 0);
    must(mcp_session_new(&server, "p", NULL, nothing, &s, NULL) >= 0);
    s->back = &out;
    while (rest.p) {
        rest = str_cut(rest, '\n', &line);
        take(s, &out, line);
        must(loop_run_once(&loop, 0, NULL) >= 0);
    }
    mcp_list_changed(&server, MCP_TOOLS);
    mcp_out_gone(&out, true);
    mcp_server_done(&server);
    must(loop_run_once(&loop, 0, NULL) >= 0);
    must(loop_run_once(&loop, 0, NULL) >= 0);
    loop_done(&loop);
    return 0;
}
