/* A tool of an MCP server on pipes: a message a line. */
#include <string.h>

#include "base/clock.h"
#include "base/own.h"
#include "step/child.h"
#include "step/step.h"
#include "step/talk.h"

enum { TO_SEND_MAX = 160 << 20 };

/* Takes the first n bytes off. */
static void drop_front(struct buf *b, size_t n)
{
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
}

/* All lines that are complete. */
static int hear_lines(struct talk *t, struct buf *in, struct buf *out, struct err *e)
{
    int r = 0;

    while (r >= 0 && t->stage != TALK_DONE) {
        struct str all = buf_str(in);
        size_t n = str_find(all, '\n');

        if (n == all.n)
            break;
        if (str_trim((struct str){ all.p, n }).n)
            r = talk_hear(t, (struct str){ all.p, n }, out, e);
        drop_front(in, n + 1);
    }
    return r;
}

static int converse(struct talk *t, struct child *c, int64_t deadline, struct buf *out,
                    struct err *e)
{
    AUTO(buf_done) struct buf in = BUF_INIT(STEP_MESSAGE_MAX);
    int r = 1;

    while (r > 0 && t->stage != TALK_DONE) {
        struct str pending = buf_str(out);

        r = child_exchange(c, &pending, &in, deadline, e);
        drop_front(out, out->n - pending.n);
        if (r == 0)
            return err_set(e, ERR_UPSTREAM, "the server went away without an answer");
        if (r > 0 && hear_lines(t, &in, out, e) < 0)
            return -(int)ERR_UPSTREAM;
    }
    return r < 0 ? r : 0;
}

int step_by_pipe(const struct step *s, const struct json *question, struct buf *out, struct err *e)
{
    struct talk t = { .tool = s->tool, .question = question, .answer = out };
    AUTO(buf_done) struct buf to_send = BUF_INIT(TO_SEND_MAX);
    struct child c AUTO(child_done) = CHILD_NONE;
    int r = talk_begin(&t, &to_send, e);

    if (r >= 0)
        r = child_start(&c, s->argv, e);
    return r < 0 ? r : converse(&t, &c, clock_mono() + s->timeout_ns, &to_send, e);
}
