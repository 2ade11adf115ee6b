/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/own.h"
#include "cli/remote.h"
#include "cli/shell_words.h"
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

enum { THROWAWAY_WORDS_MAX = 2 * OPTION_LIST_MAX + 8 };

/* A new sandbox with a shell, which `run` destroys when the shell ends. */
static int run_throwaway_shell(const struct verb *v, const struct shell_options *o)
{
    const char *words[THROWAWAY_WORDS_MAX] = { v->name, "-t" };
    int n = 2;

    if (o->common.server)
        return verb_misused(v,
                            "--server: a throw-away shell runs on this machine only; give the id "
                            "of a sandbox there");
    if (!shell_has_terminal())
        return verb_misused(v, "give the id of a sandbox: sandboxer shell ID (on a terminal, "
                               "'sandboxer shell' alone is a throw-away shell)");
    for (size_t i = 0; i < o->env.n; i++) {
        words[n++] = "--env";
        words[n++] = o->env.p[i];
    }
    if (o->user) {
        words[n++] = "--user";
        words[n++] = o->user;
    }
    if (o->workdir) {
        words[n++] = "--workdir";
        words[n++] = o->workdir;
    }
    return verb_run_words(&verb_run, n, (char **)(void *)words); /* the words are only read */
}

static int run_shell(struct api_call *c, void *options, int argc, char **argv)
{
    const struct shell_options *o = options;
    AUTO(arena_done) struct arena a = ARENA_INIT(REMOTE_TEXT_MAX);
    struct process_request q;
    struct err e;

    if (!argc)
        return run_throwaway_shell(c->verb, o);
    if (remote_fill_request(&q, argv[1] ? argv + 1 : shell_words, o->env.p, o->env.n,
                            isatty(STDIN_FILENO) == 1, &a, &e) < 0)
        return verb_misused(c->verb, "%s", e.msg);
    q.user = o->user;
    q.cwd = o->workdir;
    q.stdin_ = true;
    return remote_exec(c->verb, c->common, argv[0], &q);
}

const struct verb verb_shell = {
    .name = "shell",
    ARGUMENTS("[ID [SHELL]]", 0, 2, COMPLETE_SANDBOX),
    .summary = "open a shell in a sandbox; without an id, in a new throw-away one",
    .text = "bash if it is installed, else sh. If stdin is not a terminal, the shell reads\n"
            "commands from it. Without an id, on a terminal, the shell gets a sandbox of its own,\n"
            "which is destroyed when the shell ends (as 'run' does; --env, --user and --workdir\n"
            "are those of 'run').\n"
            "\n"
            "  sandboxer shell\n"
            "  sandboxer shell sbx_4k7\n"
            "  sandboxer shell --user 1000 sbx_4k7 /bin/zsh\n",
    OPTIONS(shell_options, struct shell_options),
    .run = run_shell,
    .flags = VERB_REMOTE | VERB_COMMAND,
};
