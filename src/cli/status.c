/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/status.h"

#include "base/own.h"

static const struct {
    const char *code;
    int status;
} problems[] = {
    { "invalid", EXIT_USAGE },     { "too_big", EXIT_USAGE },
    { "not_found", EXIT_MISSING }, { "conflict", EXIT_CONFLICT },
    { "denied", EXIT_DENIED },     { "unauthenticated", EXIT_DENIED },
    { "busy", EXIT_BUSY },         { "timeout", EXIT_BUSY },
    { "quota", EXIT_BUSY },        { "paused", EXIT_CONFLICT },
    { "storage_full", EXIT_BUSY },
};

const struct status_meaning status_meanings[] = {
    { "0", "Success." },
    { "1", "The daemon reports a failure that has no status of its own." },
    { "2",
      "What was asked for is wrong: an option, an argument, or a value that the daemon refuses." },
    { "3", "There is no such object, or it belongs to another owner." },
    { "4", "The state of the thing does not allow it." },
    { "5", "Not allowed, or not authenticated." },
    { "6", "Busy, as many as are allowed, or it took too long: trying again later may help." },
    { "124", "A program was ended after its timeout (run, exec)." },
    { "125", "This program failed: no daemon, a lost connection, a full disk." },
    { "126", "A program cannot be executed (run, exec)." },
    { "127", "A program is not there (run, exec)." },
    { "128+N", "Signal N ended a program (run, exec)." },
};
const size_t status_meaning_count = COUNT_OF(status_meanings);

int status_of_problem(struct str code)
{
    for (size_t i = 0; i < COUNT_OF(problems); i++)
        if (str_eq(code, str_from(problems[i].code)))
            return problems[i].status;
    return EXIT_REPORTED;
}

int status_of_command(struct str code, struct str step)
{
    if (!str_eq(step, STR("program")))
        return EXIT_TOOL_FAILED;
    return str_eq(code, STR("not_found")) ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
