/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/sealed.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static void check_content(int fd, struct str want)
{
    char got[64];
    ssize_t n = pread(fd, got, sizeof got, 0);

    CHECK(n >= 0 && str_eq((struct str){ got, (size_t)n }, want));
    CHECK(write(fd, "x", 1) < 0 && ftruncate(fd, 0) < 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
}

TEST(what_is_sealed_stays)
{
    AUTO_CLOSE int text = -1, copy = -1;
    struct err e;

    CHECK_OK(sealed_text(STR("some bytes"), "text", &text, &e), e);
    check_content(text, STR("some bytes"));
    CHECK_OK(sealed_copy(text, "copy", 10, &copy, &e), e);
    check_content(copy, STR("some bytes"));
}

TEST(more_than_was_allowed_is_not_copied)
{
    AUTO_CLOSE int text = -1;
    int copy = -1;
    struct err e;

    CHECK_OK(sealed_text(STR("some bytes"), "text", &text, &e), e);
    CHECK_INT(sealed_copy(text, "copy", 9, &copy, &e), -(int)ERR_TOO_BIG);
    CHECK_INT(copy, -1);
}
