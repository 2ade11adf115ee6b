/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lines.h"

#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"

TEST(lines_out_of_pieces)
{
    AUTO(lines_done) struct lines l = LINES_INIT;
    struct str line;
    struct err e;

    CHECK(!lines_next(&l, &line));
    CHECK_OK(lines_feed(&l, STR("ab"), &e), e);
    CHECK(!lines_next(&l, &line));
    CHECK(lines_torn(&l));
    CHECK_OK(lines_feed(&l, STR("c\n\n\nd\ne"), &e), e);
    CHECK(lines_next(&l, &line));
    CHECK_STR(line, "abc");
    CHECK(lines_next(&l, &line));
    CHECK_STR(line, "d");
    CHECK(!lines_next(&l, &line));
    CHECK_OK(lines_feed(&l, STR("\n"), &e), e);
    CHECK(lines_next(&l, &line));
    CHECK_STR(line, "e");
    CHECK(!lines_torn(&l));
}

TEST(lines_have_a_limit)
{
    AUTO(lines_done) struct lines l = LINES_INIT;
    AUTO_FREE char *much = calloc(1, LINES_MAX + 1);
    struct err e;

    CHECK(lines_feed(&l, (struct str){ much, LINES_MAX + 1 }, &e) == -ERR_TOO_BIG);
}
