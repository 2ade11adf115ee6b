/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void err_put_(struct err *e, enum err_code code, const char *fmt, ...)
{
    va_list ap;

    if (!e)
        return;
    e->code = code;
    e->sys = 0;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
}

void err_put_sys_(struct err *e, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    int n;

    if (!e)
        return;
    e->code = ERR_SYS;
    e->sys = saved;
    va_start(ap, fmt);
    n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->msg)
        snprintf(e->msg + n, sizeof e->msg - (size_t)n, ": %s", strerror(saved));
    errno = saved;
}

int err_wrap(struct err *e, int r, const char *fmt, ...)
{
    char cause[sizeof((struct err *)0)->msg];
    va_list ap;
    int n;

    if (r >= 0 || !e)
        return r;
    memcpy(cause, e->msg, sizeof cause);
    va_start(ap, fmt);
    n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->msg)
        snprintf(e->msg + n, sizeof e->msg - (size_t)n, ": %s", cause);
    return r;
}
