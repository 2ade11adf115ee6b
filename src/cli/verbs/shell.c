/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/own.h"
#include "cli/remote.h"
#include "cli/terminal.h"
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

static int run_shell(const struct verb *v, int argc, char **argv)
{
    static char *any[] = { (char *)"/bin/sh", (char *)"-c",
                           (char *)"command -v bash >/dev/null && exec bash -l; exec sh -l", NULL };
    static struct shell_options o;
    AUTO(arena_done) struct arena a = ARENA_INIT(REMOTE_TEXT_MAX);
    struct process_request q;
    struct err e;
    char *chosen[] = { NULL, NULL };
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    chosen[0] = argc > 1 ? argv[1] : NULL;
    if (remote_fill_request(&q, chosen[0] ? chosen : any, o.env.p, o.env.n,
                            terminal_is(STDIN_FILENO), &a, &e) < 0)
        return verb_misused(v, "%s", e.msg);
    q.user = o.user;
    q.cwd = o.workdir;
    q.stdin_ = true;
    return remote_exec(v, &o.common, argv[0], &q);
}

const struct verb verb_shell = {
    .name = "shell",
    .arguments = "ID [SHELL]",
    .summary = "open a shell in a sandbox",
    .text = "bash if it is installed, else sh. If stdin is not a terminal, the shell reads\n"
            "commands from it.\n"
            "\n"
            "  sandboxer shell sbx_4k7\n"
            "  sandboxer shell --user 1000 sbx_4k7 /bin/zsh\n",
    OPTIONS(shell_options),
    .run = run_shell,
    .flags = VERB_REMOTE | VERB_COMMAND,
    .n_arguments = { 1, 2 },
    .complete = COMPLETE_SANDBOX,
};
