/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame.h"

#include "base/own.h"
#include "harness/tap.h"

static void check_drawn(const struct frame *f, const struct frame *before, bool all,
                        const char *want)
{
    AUTO(buf_done) struct buf out = BUF_INIT(64 << 10);

    CHECK(frame_changes(f, before, all, &out) >= 0);
    CHECK_STR(buf_str(&out), want);
}

TEST(lines_fit_and_cannot_act)
{
    AUTO(frame_done) struct frame f, none;

    frame_init(&none, 4, 6);
    frame_init(&f, 4, 6);
    frame_add(&f, FRAME_PLAIN, STR("1234567"));
    frame_add(&f, FRAME_BOLD, STR("a\033[2J"));
    frame_add(&f, FRAME_SELECTED, STR("é漢…z"));
    frame_add(&f, FRAME_PLAIN, STR(""));
    frame_add(&f, FRAME_PLAIN, STR("beyond"));
    check_drawn(&f, &none, false,
                "\033[1;1H123456\033[m\033[K"
                "\033[2;1H\033[1ma?[2J\033[m\033[K"
                "\033[3;1H\033[7m??…z\033[m\033[K"
                "\033[4;1H\033[m\033[K");
}

TEST(only_lines_that_differ_are_drawn)
{
    AUTO(frame_done) struct frame one, two;

    frame_init(&one, 3, 10);
    frame_add(&one, FRAME_PLAIN, STR("same"));
    frame_add(&one, FRAME_PLAIN, STR("old"));
    frame_add(&one, FRAME_PLAIN, STR("gone"));
    frame_init(&two, 3, 10);
    frame_add(&two, FRAME_PLAIN, STR("same"));
    frame_add(&two, FRAME_PLAIN, STR("new"));
    check_drawn(&two, &one, false, "\033[2;1Hnew\033[m\033[K\033[3;1H\033[K");
    check_drawn(&two, &two, false, "");
    check_drawn(&two, &two, true, "\033[H\033[2J\033[1;1Hsame\033[m\033[K\033[2;1Hnew\033[m\033[K");
}

TEST(another_size_is_drawn_as_a_whole)
{
    AUTO(frame_done) struct frame one, two;

    frame_init(&one, 3, 10);
    frame_init(&two, 0, 0);
    frame_add(&two, FRAME_PLAIN, STR("no room"));
    CHECK_INT(two.n, 0);
    frame_fill(&one, 2);
    CHECK_INT(one.n, 2);
    check_drawn(&two, &one, false, "\033[H\033[2J");
}
