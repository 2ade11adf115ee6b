/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/mcp/pipe.h"

#include "base/own.h"
#include "edge/mcp/session.h"

enum { PIECE = 64 << 10, ENOUGH = 256 << 10, PIPE_MAX = MCP_MESSAGE_MAX + (8 << 20) };

void mcp_pipe_init(struct mcp_pipe *p, struct http_exchange *x)
{
    *p = (struct mcp_pipe){ .x = x };
    buf_init(&p->pending, PIPE_MAX);
}

static void clear_pipe(struct mcp_pipe *p)
{
    buf_done(&p->pending);
    p->taken = 0;
}

void mcp_pipe_done(struct mcp_pipe *p)
{
    clear_pipe(p);
    p->waits = false;
    p->x = NULL;
}

static int cut_pipe(struct mcp_pipe *p)
{
    http_cut(take_ptr(p->x));
    clear_pipe(p);
    return -1;
}

static size_t pipe_unsent(const struct mcp_pipe *p)
{
    return p->pending.n - p->taken;
}

/* Drops sent bytes only when they are the larger part, so that a large message is not moved
 * repeatedly. An empty pipe holds no memory. */
static int flush_pipe(struct mcp_pipe *p)
{
    while (!p->waits && pipe_unsent(p)) {
        size_t n = pipe_unsent(p) < PIECE ? pipe_unsent(p) : PIECE;
        int r = http_write(p->x, (struct str){ p->pending.p + p->taken, n }, NULL);

        if (r < 0)
            return cut_pipe(p);
        p->taken += n;
        p->waits = r > 0;
    }
    if (!pipe_unsent(p)) {
        clear_pipe(p);
    } else if (p->taken > pipe_unsent(p)) {
        buf_drop(&p->pending, p->taken);
        p->taken = 0;
    }
    return p->waits && pipe_unsent(p) > ENOUGH ? 1 : 0;
}

int mcp_pipe_add(struct mcp_pipe *p, struct str text)
{
    if (!p->x)
        return -1;
    if (buf_add(&p->pending, text) < 0)
        return cut_pipe(p);
    return flush_pipe(p);
}

int mcp_pipe_drain(struct mcp_pipe *p)
{
    p->waits = false;
    return p->x ? flush_pipe(p) : -1;
}

bool mcp_pipe_end(struct mcp_pipe *p)
{
    if (!p->x || pipe_unsent(p))
        return !p->x;
    http_end(take_ptr(p->x));
    return true;
}
