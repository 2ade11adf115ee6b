/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/command.h"

#include "base/own.h"
#include "harness/tap.h"

TEST(a_detail_reads_back)
{
    static const char *const argv[] = { "sh", "-c", "ls\n" };
    const struct command c = { .id = "cmd_1",
                               .argv = { argv, 3 },
                               .requested = "make -j2\n",
                               .masked = 2,
                               .user = "0",
                               .client = "cli",
                               .process = 7,
                               .started_ms = 1794805033333,
                               .duration_ms = 12,
                               .outcome = COMMAND_EXITED,
                               .exit_code = 3 };
    AUTO(buf_done) struct buf out = BUF_INIT(COMMAND_JSON_MAX);
    AUTO(arena_done) struct arena a = ARENA_INIT(COMMAND_JSON_MAX);
    struct command back;
    struct err e;

    CHECK_OK(command_write(&c, &out, &e), e);
    CHECK_OK(command_read(buf_str(&out), &back, &a, &e), e);
    CHECK_STR(str_from(back.id), "cmd_1");
    CHECK_INT(back.argv.n, 3);
    CHECK_STR(str_from(back.argv.p[2]), "ls\n");
    CHECK_STR(str_from(back.requested), "make -j2\n");
    CHECK_INT(back.outcome, COMMAND_EXITED);
    CHECK_INT(back.exit_code, 3);
    CHECK_INT(back.started_ms, 1794805033333);
    CHECK(!back.token);
}

TEST(details_that_are_none_are_refused)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(COMMAND_JSON_MAX);
    struct command back;

    CHECK(command_read(STR("{"), &back, &a, NULL) < 0);
    CHECK(command_read(STR("{\"outcome\":\"none\"}"), &back, &a, NULL) < 0);
    CHECK(command_read(STR("{\"argv\":[1]}"), &back, &a, NULL) < 0);
}

TEST(only_an_exit_code_of_0_is_no_failure)
{
    struct command c = { .outcome = COMMAND_EXITED };

    CHECK(!command_failed(&c));
    c.exit_code = 1;
    CHECK(command_failed(&c));
    c = (struct command){ .outcome = COMMAND_RUNNING };
    CHECK(!command_failed(&c));
    c.outcome = COMMAND_LOST;
    CHECK(command_failed(&c));
}
