/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/own.h"
#include "cli/remote.h"
#include "cli/verbs/verbs.h"

struct shell_options {
    struct common common;
    const char *user, *workdir;
    struct option_list env;
};

#define AT(member) .at = offsetof(struct shell_options, member)

static const struct option_spec shell_options[] = {
    { "env", 'e', "NAME[=VALUE]", "set a variable, or pass on ours; can be repeated",
      .kind = OPTION_VARIABLES, AT(env) },
    { "user", 'u', "USER", "name or number inside (default: the profile's)", AT(user) },
    { "workdir", 'w', "DIR", "working directory (default: the profile's)", AT(workdir) },
};

static int run_shell(struct api_call *c, void *options, int argc, char **argv)
{
    static char *any[] = { (char *)"/bin/sh", (char *)"-c",
                           (char *)"command -v bash >/dev/null && exec bash -l; exec sh -l", NULL };
    const struct shell_options *o = options;
    AUTO(arena_done) struct arena a = ARENA_INIT(REMOTE_TEXT_MAX);
    struct process_request q;
    struct err e;

    if (remote_fill_request(&q, argv[1] ? argv + 1 : any, o->env.p, o->env.n,
                            isatty(STDIN_FILENO) == 1, &a, &e) < 0)
        return verb_misused(c->verb, "%s", e.msg);
    q.user = o->user;
    q.cwd = o->workdir;
    q.stdin_ = true;
    return remote_exec(c->verb, c->common, argv[0], &q);
}

const struct verb verb_shell = {
    .name = "shell",
    ARGUMENTS("ID [SHELL]", 1, 2, COMPLETE_SANDBOX),
    .summary = "open a shell in a sandbox",
    .text = "bash if it is installed, else sh. If stdin is not a terminal, the shell reads\n"
            "commands from it.\n"
            "\n"
            "  sandboxer shell sbx_4k7\n"
            "  sandboxer shell --user 1000 sbx_4k7 /bin/zsh\n",
    OPTIONS(shell_options, struct shell_options),
    .run = run_shell,
    .flags = VERB_REMOTE | VERB_COMMAND,
};
