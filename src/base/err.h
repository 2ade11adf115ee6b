/* SPDX-License-Identifier: Apache-2.0 */
/* Errors are plain data owned by the caller.
 *
 * A function that can fail returns int: >= 0 is good, -ERR_x is bad; its last parameter is a
 * `struct err *` that may be NULL. There is nothing to free, so a forked child can write() the
 * whole struct to its parent. A function that returns an error does not log it; a function that
 * drops an error logs it once. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

enum err_code {
    ERR_OK,
    ERR_INVALID,     /* the input is wrong: say which part and what would be right */
    ERR_DENIED,      /* understood and refused */
    ERR_NOT_FOUND,   /* the named thing is not there */
    ERR_CONFLICT,    /* the thing's state does not allow this */
    ERR_TOO_BIG,     /* a named limit was passed */
    ERR_BUSY,        /* may work later */
    ERR_UNSUPPORTED, /* this machine or build cannot do it */
    ERR_UPSTREAM,    /* a service that we depend on failed */
    ERR_TIMEOUT,
    ERR_SYS,    /* a system call failed: `sys` holds errno */
    ERR_BUG,    /* a broken promise inside our own code */
    ERR_QUOTA,  /* the caller has as much as it may have */
    ERR_PAUSED, /* the sandbox is paused; resume it first */
    ERR_FULL,   /* the disk has no room for it */
    ERR_CODE_COUNT_,
};

struct err {
    enum err_code code;
    int sys; /* errno if code is ERR_SYS, or was ERR_SYS before a caller set another code; else 0 */
    char msg[232];
};

/* Macros only so that compilers and analysers see the sign of the result. */
#define err_set(e, code, ...) (err_put_((e), (code), __VA_ARGS__), -(int)(code))
#define err_sys(e, ...)       (err_put_sys_((e), __VA_ARGS__), -(int)ERR_SYS) /* reads errno */

/* Prefixes what we were doing ("doing: cause") if r < 0; returns r. */
int err_wrap(struct err *e, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

void err_put_(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void err_put_sys_(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
