#include "mcp/pipe.h"

#include "base/own.h"
#include "mcp/session.h"

enum { PIECE = 64 << 10, ENOUGH = 256 << 10, PIPE_MAX = MCP_MESSAGE_MAX + (8 << 20) };

void mcp_pipe_init(struct mcp_pipe *p, struct http_exchange *x)
{
    *p = (struct mcp_pipe){ .x = x };
    buf_init(&p->pending, PIPE_MAX);
}

static void forget(struct mcp_pipe *p)
{
    buf_done(&p->pending);
    p->taken = 0;
}

void mcp_pipe_done(struct mcp_pipe *p)
{
    forget(p);
    p->waits = false;
    p->x = NULL;
}

static int cut(struct mcp_pipe *p)
{
    http_cut(take_ptr(p->x));
    forget(p);
    return -1;
}

static size_t left(const struct mcp_pipe *p)
{
    return p->pending.n - p->taken;
}

/* What was taken is dropped when it is most of it, so that a large message is not moved again and
 * again. One that is idle holds no memory. */
static void tidy(struct mcp_pipe *p)
{
    if (!left(p)) {
        forget(p);
    } else if (p->taken > left(p)) {
        buf_drop(&p->pending, p->taken);
        p->taken = 0;
    }
}

static int move(struct mcp_pipe *p)
{
    while (!p->waits && left(p)) {
        size_t n = left(p) < PIECE ? left(p) : PIECE;
        int r = http_write(p->x, (struct str){ p->pending.p + p->taken, n }, NULL);

        if (r < 0)
            return cut(p);
        p->taken += n;
        p->waits = r > 0;
    }
    tidy(p);
    return p->waits && left(p) > ENOUGH ? 1 : 0;
}

int mcp_pipe_add(struct mcp_pipe *p, struct str text)
{
    if (!p->x)
        return -1;
    if (buf_add(&p->pending, text) < 0)
        return cut(p);
    return move(p);
}

int mcp_pipe_drain(struct mcp_pipe *p)
{
    p->waits = false;
    return p->x ? move(p) : -1;
}

bool mcp_pipe_end(struct mcp_pipe *p)
{
    if (!p->x || left(p))
        return !p->x;
    http_end(take_ptr(p->x));
    return true;
}
