/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const code_names[ERR_CODE_COUNT_] = {
    [ERR_OK] = "ok",
    [ERR_INVALID] = "invalid",
    [ERR_DENIED] = "denied",
    [ERR_NOT_FOUND] = "not_found",
    [ERR_CONFLICT] = "conflict",
    [ERR_TOO_BIG] = "too_big",
    [ERR_BUSY] = "busy",
    [ERR_UNSUPPORTED] = "unsupported",
    [ERR_UPSTREAM] = "upstream",
    [ERR_TIMEOUT] = "timeout",
    [ERR_SYS] = "system",
    [ERR_BUG] = "bug",
    [ERR_QUOTA] = "quota",
    [ERR_PAUSED] = "paused",
    [ERR_FULL] = "storage_full",
};

const char *err_code_name(enum err_code code)
{
    return (unsigned)code < ERR_CODE_COUNT_ ? code_names[code] : "unknown";
}

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
