/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/status.h"

#include "base/own.h"
#include "harness/tap.h"

TEST(problems_have_statuses)
{
    static const struct {
        const char *code;
        int status;
    } rows[] = {
        { "invalid", 2 },  { "too_big", 2 }, { "not_found", 3 },
        { "conflict", 4 }, { "denied", 5 },  { "unauthenticated", 5 },
        { "quota", 6 },    { "busy", 6 },    { "timeout", 6 },
        { "system", 1 },   { "bug", 1 },     { "unsupported", 1 },
        { "upstream", 1 }, { "news", 1 },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_INT(status_of_problem(str_from(rows[i].code)), rows[i].status);
}

TEST(commands_have_their_own)
{
    CHECK_INT(status_of_command(STR("not_found"), STR("program")), 127);
    CHECK_INT(status_of_command(STR("denied"), STR("program")), 126);
    CHECK_INT(status_of_command(STR("not_found"), STR("")), 125);
    CHECK_INT(status_of_command(STR("busy"), STR("mounts")), 125);
}
