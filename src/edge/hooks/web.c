/* A tool of an MCP server on HTTP (Streamable HTTP): a POST for each message, answered by a message
 * or by a stream of events that ends. */
#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"
#include "fetch/fetch.h"
#include "loop/loop.h"
#include "step/step.h"
#include "step/talk.h"

enum { TO_SEND_MAX = 160 << 20, SESSION_MAX = 256, HEADERS_MAX = 6 };

struct web {
    const struct step *step;
    struct loop loop;
    struct fetch fetch;
    struct fetch_request request;
    struct talk talk;
    char session[SESSION_MAX]; /* as the server calls it; "": it does not */
    int64_t deadline;
    struct buf to_send;
    bool over;
    int result;
    struct err err;
};

static int hear_body(struct web *w, struct str type, struct str body, struct err *e)
{
    AUTO(buf_done) struct buf event = BUF_INIT(STEP_MESSAGE_MAX);
    int r = 0;

    if (!str_starts(type, STR("text/event-stream")))
        return str_trim(body).n ? talk_hear(&w->talk, body, &w->to_send, e) : 0;
    while (r >= 0 && talk_next_event(&body, &event))
        r = talk_hear(&w->talk, buf_str(&event), &w->to_send, e);
    return r;
}

/* A server that begins with no `initialize` says so with a status, and a message. */
static bool refuses_hello(struct web *w, const struct fetch_answer *a)
{
    struct err e;

    return w->talk.stage == TALK_HELLO && a->status >= 400 && a->status < 500 &&
           hear_body(w, fetch_answer_header(a, "Content-Type"), a->body, &e) >= 0 &&
           w->talk.stage == TALK_CALL;
}

static int hear(struct web *w, const struct fetch_answer *a, struct err *e)
{
    struct str session = fetch_answer_header(a, "Mcp-Session-Id");

    if (a->err.code != ERR_OK) {
        *e = a->err;
        return -(int)a->err.code;
    }
    if ((a->status < 200 || a->status > 299) && !refuses_hello(w, a))
        return err_set(e, ERR_UPSTREAM, "the server answers with status %d", a->status);
    if (a->status > 299)
        return 0; /* it was heard */
    if (session.n && !str_copy(session, w->session, sizeof w->session))
        return err_set(e, ERR_UPSTREAM, "the server's name for the session is too long");
    return hear_body(w, fetch_answer_header(a, "Content-Type"), a->body, e);
}

static void on_answer(struct fetch_request *r, const struct fetch_answer *a)
{
    struct web *w = container_of(r, struct web, request);

    w->result = hear(w, a, &w->err);
    w->over = true;
    loop_stop(&w->loop);
}

static size_t fill_headers(const struct web *w, struct fetch_header *h)
{
    size_t n = 0;

    h[n++] = (struct fetch_header){ STR("Content-Type"), STR("application/json") };
    h[n++] = (struct fetch_header){ STR("Accept"), STR("application/json, text/event-stream") };
    if (w->talk.version != MCP_NONE)
        h[n++] = (struct fetch_header){ STR("MCP-Protocol-Version"),
                                        str_from(mcp_version_names[w->talk.version]) };
    if (mcp_is_new(w->talk.version)) {
        h[n++] = (struct fetch_header){ STR("Mcp-Method"), STR("tools/call") };
        h[n++] = (struct fetch_header){ STR("Mcp-Name"), str_from(w->talk.tool) };
    }
    if (w->session[0])
        h[n++] = (struct fetch_header){ STR("Mcp-Session-Id"), str_from(w->session) };
    return n;
}

static int exchange(struct web *w, enum fetch_method method, struct str message, struct err *e)
{
    struct fetch_header headers[HEADERS_MAX];
    int64_t left = w->deadline - clock_mono();
    int r;

    if (left <= 0)
        return err_set(e, ERR_TIMEOUT, "it took too long");
    w->request = (struct fetch_request){ .method = method,
                                         .url = w->step->url,
                                         .headers = headers,
                                         .header_count = fill_headers(w, headers),
                                         .body = message,
                                         .timeout = left,
                                         .max_body = STEP_MESSAGE_MAX,
                                         .reach = FETCH_REACH_ANY,
                                         .done = on_answer };
    w->over = false;
    r = fetch_start(&w->fetch, &w->request, e);
    while (r >= 0 && !w->over)
        r = loop_run(&w->loop, e);
    if (r >= 0 && w->result < 0)
        *e = w->err;
    return r < 0 ? r : w->result;
}

static int converse(struct web *w, struct err *e)
{
    size_t at = 0;
    int r = talk_begin(&w->talk, &w->to_send, e);

    while (r >= 0 && w->talk.stage != TALK_DONE) {
        struct str rest = { w->to_send.p + at, w->to_send.n - at }, line;
        AUTO(buf_done) struct buf message = BUF_INIT(TO_SEND_MAX);

        if (rest.n == 0)
            return err_set(e, ERR_UPSTREAM, "the server leaves the call without an answer");
        (void)str_cut(rest, '\n', &line);
        at += line.n + 1;
        if (buf_add(&message, line) < 0) /* what comes may move what is still to be sent */
            return err_set(e, ERR_TOO_BIG, "there is more to send than may be");
        r = exchange(w, FETCH_POST, buf_str(&message), e);
    }
    return r;
}

int step_by_web(const struct step *s, const struct json *question, struct buf *out, struct err *e)
{
    struct web w = { .step = s,
                     .talk = { .tool = s->tool, .question = question, .answer = out },
                     .deadline = clock_mono() + s->timeout_ns,
                     .to_send = BUF_INIT(TO_SEND_MAX) };
    const struct fetch_limits limits = { .requests = 1, .connections = 1, .per_host = 1 };
    int r = loop_init(&w.loop, e);

    if (r < 0)
        return r;
    r = fetch_init(&w.fetch, &w.loop, limits, e);
    if (r >= 0) {
        r = converse(&w, e);
        if (w.session[0]) /* out of politeness: whether it hears changes nothing */
            (void)exchange(&w, FETCH_DELETE, STR(""), &(struct err){ 0 });
        fetch_done(&w.fetch);
    }
    buf_done(&w.to_send);
    loop_done(&w.loop);
    return r;
}
