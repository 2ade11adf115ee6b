/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/mcp/line.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "edge/mcp/internal.h"
#include "edge/mcp/pipe.h"

enum { ERROR_MAX = 4 << 10 };
#define DRAIN (5 * NS_PER_S) /* time for open requests after MCP_LINE_END */

struct mcp_line {
    struct mcp_out out;
    struct mcp_pipe pipe;
    struct mcp_session *session;
    struct buf in; /* the start of a message */
    size_t max;
    bool skipping; /* the rest of a message that is too long */
    bool paused;
    bool closing; /* after MCP_LINE_END: waits for the open answers */
    struct loop_timer drain;
    struct loop_later later;
};

static void on_line_free(struct loop_later *l)
{
    struct mcp_line *n = container_of(l, struct mcp_line, later);

    mcp_session_unref(n->session);
    mcp_pipe_done(&n->pipe);
    buf_done(&n->in);
    free(n);
}

static void end_line_connection(struct mcp_line *n)
{
    struct loop *loop = n->session->loop;

    n->pipe.x = NULL;
    loop_timer_stop(&n->drain);
    mcp_out_gone(&n->out, true);
    mcp_session_end(n->session);
    mcp_session_release(n->session);
    loop_later(loop, &n->later, on_line_free, NULL);
}

/* The session has ended: closes the connection if it is still open. */
static void on_line_session_ended(struct mcp_session *s)
{
    struct mcp_line *n = s->transport;

    if (!n->pipe.x)
        return;
    http_cut(take_ptr(n->pipe.x));
    end_line_connection(n);
}

static void on_line_gone(struct http_exchange *x)
{
    end_line_connection(http_state(x));
}

/* --- out --- */

/* Pauses reading from a client that does not read its answers. */
static int pause_slow_client(struct mcp_line *n, int r)
{
    if (r < 0) {
        end_line_connection(n);
    } else if (r > 0 && !n->paused) {
        n->paused = true;
        http_body_pause(n->pipe.x);
    }
    return r;
}

static int send_line_message(struct mcp_out *o, struct str message)
{
    struct mcp_line *n = container_of(o, struct mcp_line, out);
    int r;

    if (!n->pipe.x)
        return -1;
    r = mcp_pipe_add(&n->pipe, message);
    if (r >= 0)
        r = mcp_pipe_add(&n->pipe, STR("\n"));
    return pause_slow_client(n, r);
}

static void end_line_if_answered(struct mcp_line *n)
{
    if (n->closing && n->pipe.x && !list_first(&n->out.requests) && mcp_pipe_end(&n->pipe))
        end_line_connection(n);
}

static void send_line_answer(struct mcp_out *o, const struct json *id, struct str message,
                             int status)
{
    if (!message.n || send_line_message(o, message) >= 0)
        end_line_if_answered(container_of(o, struct mcp_line, out));
}

static const struct mcp_out_ops ops = { .send = send_line_message, .answer = send_line_answer };

static void on_line_drained(struct http_exchange *x)
{
    struct mcp_line *n = http_state(x);
    int r = mcp_pipe_drain(&n->pipe);

    if (r < 0)
        end_line_connection(n);
    if (r != 0)
        return;
    if (n->paused) {
        n->paused = false;
        http_body_resume(x);
    }
    mcp_out_drained(&n->out);
    end_line_if_answered(n);
}

/* --- in --- */

static void refuse_line_message(struct mcp_line *n, enum rpc_code code, struct str id,
                                const char *why)
{
    AUTO(buf_done) struct buf text = BUF_INIT(ERROR_MAX);
    struct mcp_refusal x = { .code = code, .reason = why };

    mcp_refused(n->session->server, n->session->user, &x);
    rpc_write_error(&text, id, code, why);
    send_line_message(&n->out, buf_str(&text));
}

static void refuse_long_message(struct mcp_line *n)
{
    char why[64];

    snprintf(why, sizeof why, "the message is longer than %zu bytes", n->in.max);
    refuse_line_message(n, RPC_INVALID_REQUEST, STR(""), why);
}

static void on_line_drain_timeout(struct loop_timer *t)
{
    struct mcp_line *n = container_of(t, struct mcp_line, drain);

    http_cut(take_ptr(n->pipe.x));
    end_line_connection(n);
}

/* MCP_LINE_END: gives open requests DRAIN to finish, and cancels those that stream or need inputs
 * from the client. */
static void begin_line_close(struct mcp_line *n)
{
    if (n->closing || n->session->ended)
        return;
    n->closing = true;
    LIST_EACH_SAFE (struct mcp_request, r, &n->out.requests, in_out) {
        if (r->streams || r->n_inputs)
            mcp_request_cancel(r);
    }
    if (!n->pipe.x)
        return;
    loop_timer_start(n->session->loop, &n->drain, clock_mono() + DRAIN, on_line_drain_timeout,
                     NULL);
    end_line_if_answered(n);
}

static void take_line_message(struct mcp_line *n, struct str text)
{
    AUTO(buf_done) struct buf id = BUF_INIT(ERROR_MAX);
    struct rpc_frame *f;
    enum rpc_code code;
    struct err e;

    if (rpc_read(text, n->max, &f, &code, &id, &e) < 0) {
        refuse_line_message(n, code, buf_str(&id), e.msg);
        return;
    }
    if (f->batch && !mcp_has_batches(n->session->version))
        refuse_line_message(n, RPC_INVALID_REQUEST, STR(""),
                            n->session->version ? "this revision of the protocol has no batches"
                                                : "initialize first, in a message of its own");
    for (size_t i = 0; i < f->n && !n->session->ended; i++)
        if (f->messages[i].kind == RPC_NOTIFICATION &&
            str_eq(f->messages[i].method, STR(MCP_LINE_END)))
            begin_line_close(n);
        else if (!f->batch || mcp_has_batches(n->session->version))
            mcp_take(n->session, &n->out, f, i);
    rpc_frame_unref(f);
}

static void on_line_data(struct http_exchange *x, struct str data)
{
    struct mcp_line *n = http_state(x);

    if (!data.n) { /* end of input without MCP_LINE_END: drop the answers */
        http_end(take_ptr(n->pipe.x));
        end_line_connection(n);
        return;
    }
    while (data.n && !n->session->ended) {
        size_t end = str_find(data, '\n');

        if (!n->skipping && buf_add(&n->in, (struct str){ data.p, end }) < 0) {
            n->skipping = true;
            buf_done(&n->in);
            refuse_long_message(n);
        }
        if (end == data.n)
            return;
        if (!n->skipping && str_trim(buf_str(&n->in)).n)
            take_line_message(n, str_trim(buf_str(&n->in)));
        n->skipping = false;
        buf_done(&n->in);
        data = (struct str){ data.p + end + 1, data.n - end - 1 };
    }
}

bool mcp_line_wanted(const struct http_exchange *x)
{
    const struct h1_head *h = &http_request(x)->head;

    return h->upgrade && h1_same(h->proto, STR(MCP_LINE_PROTOCOL));
}

void mcp_line_accept(struct mcp_server *server, const struct mcp_offer *offer,
                     struct http_exchange *x, const char *peer, void *user,
                     void (*free_user)(void *user), size_t max)
{
    static const struct h1_field fields[] = { { { "Upgrade", 7 }, { MCP_LINE_PROTOCOL, 13 } } };
    struct mcp_line *n = new0(sizeof *n);
    struct err e;

    if (mcp_session_new(server, peer, user, free_user, &n->session, &e) < 0) {
        http_fail(x, 503, str_from(e.msg));
        free(n);
        return;
    }
    mcp_session_ref(n->session);
    n->session->offer = offer;
    mcp_session_hold(n->session);
    n->session->back = &n->out;
    n->session->transport = n;
    n->session->on_end = on_line_session_ended;
    n->out.ops = &ops;
    n->max = max;
    buf_init(&n->in, max);
    mcp_pipe_init(&n->pipe, x);
    http_set_state(x, n);
    http_on_gone(x, on_line_gone);
    http_on_drain(x, on_line_drained);
    if (http_upgrade(x, fields, COUNT_OF(fields), on_line_data, &e) < 0) {
        http_fail(x, 400, str_from(e.msg));
        end_line_connection(n);
    }
}
