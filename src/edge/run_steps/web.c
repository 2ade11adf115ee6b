/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a tool of an MCP server on HTTP (Streamable HTTP): one POST per message, answered with a
 * message or with an event stream that ends. */

#include "base/clock.h"
#include "base/own.h"
#include "lib/fetch/fetch.h"
#include "lib/loop/loop.h"
#include "edge/run_steps/hook.h"
#include "edge/run_steps/tool_call.h"

enum { TO_SEND_MAX = 160 << 20, SESSION_MAX = 256, HEADERS_MAX = 6 };

struct hook_web {
    const struct step *step;
    struct loop loop;
    struct fetch fetch;
    struct fetch_request request;
    struct tool_call call;
    char session[SESSION_MAX]; /* session id of the server, or "" */
    int64_t deadline;
    struct buf to_send;
    bool over;
    int result;
    struct err err;
};

static int receive_body(struct hook_web *w, struct str type, struct str body, struct err *e)
{
    AUTO(buf_done) struct buf event = BUF_INIT(STEP_MESSAGE_MAX);
    int r = 0;

    if (!str_starts(type, STR("text/event-stream")))
        return str_trim(body).n ? tool_call_receive(&w->call, body, &w->to_send, e) : 0;
    while (r >= 0 && tool_call_next_event(&body, &event))
        r = tool_call_receive(&w->call, buf_str(&event), &w->to_send, e);
    return r;
}

/* Whether the server rejected `initialize` with a 4xx status and an error message. */
static bool refuses_hello(struct hook_web *w, const struct fetch_answer *a)
{
    struct err e;

    return w->call.stage == TOOL_CALL_HELLO && a->status >= 400 && a->status < 500 &&
           receive_body(w, fetch_answer_header(a, "Content-Type"), a->body, &e) >= 0 &&
           w->call.stage == TOOL_CALL_SENT;
}

static int receive_hook_answer(struct hook_web *w, const struct fetch_answer *a, struct err *e)
{
    struct str session = fetch_answer_header(a, "Mcp-Session-Id");

    if (a->err.code != ERR_OK) {
        *e = a->err;
        return -(int)a->err.code;
    }
    if ((a->status < 200 || a->status > 299) && !refuses_hello(w, a))
        return err_set(e, ERR_UPSTREAM, "the server answers with status %d", a->status);
    if (a->status > 299)
        return 0; /* handled by refuses_hello() */
    if (session.n && !str_copy(session, w->session, sizeof w->session))
        return err_set(e, ERR_UPSTREAM, "the server's session id is longer than %zu bytes",
                       sizeof w->session - 1);
    return receive_body(w, fetch_answer_header(a, "Content-Type"), a->body, e);
}

static void on_hook_answer(struct fetch_request *r, const struct fetch_answer *a)
{
    struct hook_web *w = container_of(r, struct hook_web, request);

    w->result = receive_hook_answer(w, a, &w->err);
    w->over = true;
    loop_stop(&w->loop);
}

static size_t fill_mcp_headers(const struct hook_web *w, struct fetch_header *h)
{
    size_t n = 0;

    h[n++] = (struct fetch_header){ STR("Content-Type"), STR("application/json") };
    h[n++] = (struct fetch_header){ STR("Accept"), STR("application/json, text/event-stream") };
    if (w->call.version != MCP_NONE)
        h[n++] = (struct fetch_header){ STR("MCP-Protocol-Version"),
                                        str_from(mcp_version_names[w->call.version]) };
    if (mcp_is_new(w->call.version)) {
        h[n++] = (struct fetch_header){ STR("Mcp-Method"), STR("tools/call") };
        h[n++] = (struct fetch_header){ STR("Mcp-Name"), str_from(w->call.tool) };
    }
    if (w->session[0])
        h[n++] = (struct fetch_header){ STR("Mcp-Session-Id"), str_from(w->session) };
    return n;
}

static int exchange_message(struct hook_web *w, enum fetch_method method, struct str message,
                            struct err *e)
{
    struct fetch_header headers[HEADERS_MAX];
    int64_t left = w->deadline - clock_mono();
    int r;

    if (left <= 0)
        return err_set(e, ERR_TIMEOUT, "it timed out");
    w->request = (struct fetch_request){ .method = method,
                                         .url = w->step->url,
                                         .headers = headers,
                                         .header_count = fill_mcp_headers(w, headers),
                                         .body = message,
                                         .timeout = left,
                                         .max_body = STEP_MESSAGE_MAX,
                                         .reach = FETCH_REACH_ANY,
                                         .done = on_hook_answer };
    w->over = false;
    r = fetch_start(&w->fetch, &w->request, e);
    while (r >= 0 && !w->over)
        r = loop_run(&w->loop, e);
    if (r >= 0 && w->result < 0)
        *e = w->err;
    return r < 0 ? r : w->result;
}

static int exchange_by_web(struct hook_web *w, struct err *e)
{
    size_t at = 0;
    int r = tool_call_begin(&w->call, &w->to_send, e);

    while (r >= 0 && w->call.stage != TOOL_CALL_DONE) {
        struct str rest = { w->to_send.p + at, w->to_send.n - at }, line;
        AUTO(buf_done) struct buf message = BUF_INIT(TO_SEND_MAX);

        if (rest.n == 0)
            return err_set(e, ERR_UPSTREAM, "the server did not answer the call");
        (void)str_cut(rest, '\n', &line);
        at += line.n + 1;
        if (buf_add(&message, line) < 0) /* received data may move the pending output */
            return err_set(e, ERR_TOO_BIG, "the message to the server is longer than %d bytes",
                           TO_SEND_MAX);
        r = exchange_message(w, FETCH_POST, buf_str(&message), e);
    }
    return r;
}

int step_by_web(const struct step *s, const struct json *question, struct buf *out, struct err *e)
{
    struct hook_web w = { .step = s,
                          .call = { .tool = s->tool, .question = question, .answer = out },
                          .deadline = clock_mono() + s->timeout_ns,
                          .to_send = BUF_INIT(TO_SEND_MAX) };
    const struct fetch_limits limits = { .requests = 1, .connections = 1, .per_host = 1 };
    int r = loop_init(&w.loop, e);

    if (r < 0)
        return r;
    r = fetch_init(&w.fetch, &w.loop, limits, e);
    if (r >= 0) {
        r = exchange_by_web(&w, e);
        if (w.session[0]) /* best effort: ends the server's session */
            (void)exchange_message(&w, FETCH_DELETE, STR(""), &(struct err){ 0 });
        fetch_done(&w.fetch);
    }
    buf_done(&w.to_send);
    loop_done(&w.loop);
    return r;
}
