/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/validate.h"
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("ID", "id"),
    COLUMN("VERSION", "version"),
    COLUMN("AVAILABLE", "available"),
    COLUMN("WHY NOT", "unavailable_reason", .most = 60),
    COLUMN("DESCRIPTION", "description", .most = 60),
    COLUMN("PROFILE", "", .alone = true, .block = true),
};
static const struct answer_kind kind = { "profiles", "id", columns, COUNT_OF(columns) };

static int run_profiles_list(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = {
        .method = "GET", .before = "/v1/profiles", .kind = &kind, .list = true
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_profiles_list = {
    .name = "profiles list",
    .arguments = "",
    .summary = "list the profiles, and which of them this host can serve",
    .text = "  sandboxer profiles list\n",
    .run = run_profiles_list,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

static int run_profiles_get(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "GET",
                                          .before = "/v1/profiles/",
                                          .kind = &kind };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_profiles_get = {
    .name = "profiles get",
    .arguments = "PROFILE",
    .summary = "show a profile",
    .text = "  sandboxer profiles get profile.agent-dev -o yaml\n",
    .run = run_profiles_get,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_PROFILE,
};

static const struct column problem_columns[] = {
    COLUMN("LINE", "line"),
    COLUMN("FIELD", "field"),
    COLUMN("PROBLEM", "message"),
};
static const struct answer_kind problems = { "problems", "message", problem_columns,
                                             COUNT_OF(problem_columns) };

static int run_profiles_validate(const struct verb *v, int argc, char **argv)
{
    static const struct file_validation x = { .what = "profiles",
                                              .problem = &problems,
                                              .many = true };

    return validate_file(v, argc, argv, &x);
}

const struct verb verb_profiles_validate = {
    .name = "profiles validate",
    .arguments = "FILE",
    .summary = "check a profile that you are writing",
    .text = "Shows every mistake, and where it is (of egress rules, the first); the exit\n"
            "status is 1 then. '-' is stdin.\n"
            "\n"
            "  sandboxer profiles validate my-profile.yaml\n",
    .run = run_profiles_validate,
    .flags = VERB_REMOTE | VERB_FORMAT,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_FILE,
};
