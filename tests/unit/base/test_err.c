/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>

#include "harness/tap.h"

static struct str msg(const struct err *e)
{
    return str_from(e->msg);
}

TEST(set_returns_the_negative_code)
{
    struct err e = { .sys = 7 };

    CHECK_INT(err_set(&e, ERR_DENIED, "no %s for %d", "entry", 3), -ERR_DENIED);
    CHECK_INT(e.code, ERR_DENIED);
    CHECK_INT(e.sys, 0);
    CHECK_STR(msg(&e), "no entry for 3");
}

TEST(sys_keeps_errno_and_says_it)
{
    struct err e;

    errno = ENOENT;
    CHECK_INT(err_sys(&e, "opening %s", "x"), -ERR_SYS);
    CHECK_INT(e.sys, ENOENT);
    CHECK_INT(errno, ENOENT);
    CHECK_STR(msg(&e), "opening x: No such file or directory");
}

TEST(wrap_prefixes_only_failures)
{
    struct err e;
    int r = err_set(&e, ERR_NOT_FOUND, "no such key");

    CHECK_INT(err_wrap(&e, 0, "ignored"), 0);
    CHECK_INT(err_wrap(&e, 5, "ignored"), 5);
    CHECK_STR(msg(&e), "no such key");
    CHECK_INT(err_wrap(&e, r, "reading %s", "config"), -ERR_NOT_FOUND);
    CHECK_INT(e.code, ERR_NOT_FOUND);
    CHECK_STR(msg(&e), "reading config: no such key");
}

TEST(the_caller_may_not_care)
{
    errno = EACCES;
    CHECK_INT(err_set(NULL, ERR_BUSY, "x"), -ERR_BUSY);
    CHECK_INT(err_sys(NULL, "x"), -ERR_SYS);
    CHECK_INT(err_wrap(NULL, -ERR_BUSY, "x"), -ERR_BUSY);
}

TEST(long_messages_are_cut_not_spilled)
{
    char text[1000];
    struct err e;

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    CHECK_INT(err_set(&e, ERR_INVALID, "%s", text), -ERR_INVALID);
    CHECK_INT(strlen(e.msg), sizeof e.msg - 1);
    errno = EIO;
    CHECK_INT(err_sys(&e, "%s", text), -ERR_SYS);
    CHECK_INT(strlen(e.msg), sizeof e.msg - 1);
    err_wrap(&e, -ERR_SYS, "%s", text);
    CHECK_INT(strlen(e.msg), sizeof e.msg - 1);
    err_wrap(&e, -ERR_SYS, "outer");
    CHECK(str_starts(msg(&e), STR("outer: aaaa")));
    CHECK_INT(strlen(e.msg), sizeof e.msg - 1);
}
