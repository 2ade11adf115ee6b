/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

void buf_init(struct buf *b, size_t max)
{
    *b = BUF_INIT(max);
}

void buf_done(struct buf *b)
{
    size_t max = b->max;

    free(b->p);
    *b = BUF_INIT(max);
}

int buf_room(struct buf *b, size_t n, char **ret)
{
    size_t need, cap;

    if (__builtin_add_overflow(b->n, n, &need) || need > b->max || need == SIZE_MAX)
        return -(int)ERR_TOO_BIG;
    need++; /* the NUL */
    if (need > b->cap_) {
        cap = b->cap_ ? b->cap_ * 2 : 64;
        if (cap < need)
            cap = need;
        b->p = realloc(b->p, cap);
        if (!b->p)
            abort();
        b->cap_ = cap;
        b->p[b->n] = '\0';
    }
    *ret = b->p + b->n;
    return 0;
}

void buf_grew(struct buf *b, size_t n)
{
    b->n += n;
    if (b->p)
        b->p[b->n] = '\0';
}

int buf_add(struct buf *b, struct str s)
{
    char *at;
    int r = buf_room(b, s.n, &at);

    if (r < 0)
        return r;
    if (s.n)
        memcpy(at, s.p, s.n);
    buf_grew(b, s.n);
    return 0;
}

int buf_add_c(struct buf *b, char c)
{
    return buf_add(b, (struct str){ &c, 1 });
}

int buf_addv(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    char *at;
    int n, r;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0)
        return -(int)ERR_INVALID;
    r = buf_room(b, (size_t)n, &at);
    if (r < 0)
        return r;
    vsnprintf(at, (size_t)n + 1, fmt, ap);
    buf_grew(b, (size_t)n);
    return 0;
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int r;

    va_start(ap, fmt);
    r = buf_addv(b, fmt, ap);
    va_end(ap);
    return r;
}

void buf_drop(struct buf *b, size_t n)
{
    if (n > b->n)
        n = b->n;
    if (n == 0)
        return;
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
    b->p[b->n] = '\0';
}

void buf_clear(struct buf *b)
{
    b->n = 0;
    if (b->p)
        b->p[0] = '\0';
}

struct str buf_str(const struct buf *b)
{
    return (struct str){ b->p ? b->p : "", b->n };
}
