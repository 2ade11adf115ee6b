/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a tool of an MCP server on pipes: one message per line. */
#include "base/clock.h"
#include "base/own.h"
#include "edge/run_steps/child.h"
#include "edge/run_steps/hook.h"
#include "edge/run_steps/tool_call.h"

enum { TO_SEND_MAX = 160 << 20 };

/* Handles all complete lines. */
static int receive_lines(struct tool_call *t, struct buf *in, struct buf *out, struct err *e)
{
    int r = 0;

    while (r >= 0 && t->stage != TOOL_CALL_DONE) {
        struct str all = buf_str(in);
        size_t n = str_find(all, '\n');

        if (n == all.n)
            break;
        if (str_trim((struct str){ all.p, n }).n)
            r = tool_call_receive(t, (struct str){ all.p, n }, out, e);
        buf_drop(in, n + 1);
    }
    return r;
}

static int exchange_by_pipe(struct tool_call *t, struct hook_child *c, int64_t deadline,
                            struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf in = BUF_INIT(STEP_MESSAGE_MAX);
    int r = 1;

    while (r > 0 && t->stage != TOOL_CALL_DONE) {
        struct str pending = buf_str(out);

        r = child_exchange(c, &pending, &in, deadline, e);
        buf_drop(out, out->n - pending.n);
        if (r == 0)
            return err_set(e, ERR_UPSTREAM, "the server closed the connection without an answer");
        if (r > 0 && receive_lines(t, &in, out, e) < 0)
            return -(int)ERR_UPSTREAM;
    }
    return r < 0 ? r : 0;
}

int step_by_pipe(const struct step *s, const struct json *question, struct buf *out, struct err *e)
{
    struct tool_call t = { .tool = s->tool, .question = question, .answer = out };
    AUTO(buf_done) struct buf to_send = BUF_INIT(TO_SEND_MAX);
    struct hook_child c AUTO(child_done) = CHILD_NONE;
    int r = tool_call_begin(&t, &to_send, e);

    if (r >= 0)
        r = child_start(&c, s->argv, e);
    return r < 0 ? r : exchange_by_pipe(&t, &c, clock_mono() + s->timeout_ns, &to_send, e);
}
