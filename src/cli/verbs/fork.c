/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

struct fork_options {
    struct common common;
    const char *count, *name;
    bool keep_env;
};

static const struct option_spec fork_options[] = {
    { "count", 'n', "N", "number of copies, 1 to 100 (default: 1)", .kind = OPTION_COUNT,
      .least = 1, .most = 100, .at = offsetof(struct fork_options, count), .member = "count" },
    { "name", 0, "NAME", "name of the copy, if it is one",
      .at = offsetof(struct fork_options, name), .member = "name" },
    { "keep-env", 0, NULL,
      "also copy the variables that it was created with, including credentials",
      .at = offsetof(struct fork_options, keep_env), .member = "keep_env" },
};

static int choose_fork_count(struct api_call *c, void *options, char **argv)
{
    struct fork_options *o = options;

    if (!o->count)
        o->count = "1";
    return 0;
}

static int print_forks(const struct api_call *c, const void *options, char **argv)
{
    char pause[ANSWER_PAUSE_MAX];
    int status = answer_list(c, c->answer, &kind_sandbox);

    answer_pause(c->answer, pause);
    return status || !pause[0] ? status : answer_done(c, c->answer, "the sandbox %s", pause);
}

const struct verb verb_fork = {
    .name = "fork",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "create copies of a sandbox with its files",
    .text = "Its files are copied once, as of one moment, and the time for which it was frozen\n"
            "is shown; each copy writes to its own files. Processes are not copied, nor, without\n"
            "--keep-env, the variables that it was created with. If one copy cannot be made,\n"
            "none is.\n"
            "\n"
            "  sandboxer fork sbx_4k7 -n 8\n",
    OPTIONS(fork_options, struct fork_options),
    REQUEST("POST", "/v1/sandboxes/%s/fork", .body = BODY_JSON, .prepare = choose_fork_count,
            .doing = "copying a sandbox", .kind = &kind_sandbox, .list = true,
            .print = print_forks),
};
