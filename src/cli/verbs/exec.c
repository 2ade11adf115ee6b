/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/remote.h"
#include "cli/shell_words.h"
#include "cli/verbs/verbs.h"

struct exec_options {
    struct common common;
    bool interactive, tty, detach;
    const char *user, *workdir, *timeout;
    struct option_list env;
};

#define AT(member) .at = offsetof(struct exec_options, member)

static const struct option_spec exec_options[] = {
    { "interactive", 'i', NULL, "pass stdin on", AT(interactive) },
    { "tty", 't', NULL, "run it in a terminal of its own", AT(tty) },
    { "detach", 'd', NULL, "start it in the background and print its number", AT(detach) },
    { "env", 'e', "NAME[=VALUE]", "set a variable, or pass on ours; can be repeated",
      .kind = OPTION_VARIABLES, AT(env) },
    { "user", 'u', "USER", "name or number inside (default: the profile's)", AT(user) },
    { "workdir", 'w', "DIR", "working directory (default: the profile's)", AT(workdir) },
    { "timeout", 0, "DURATION", "end it after that long: 30s, 5m", .kind = OPTION_DURATION,
      AT(timeout) },
};

static int start_in_background(struct api_call *c, const char *sandbox,
                               const struct process_request *q)
{
    int64_t number;
    int status;

    c->method = "POST";
    api_call_path(c, "/v1/sandboxes/%s/processes", sandbox);
    remote_write_request(api_call_json(c), q);
    status = api_call_run(c);
    if (status)
        return status;
    number = show_int(c->answer, "process.process", show_int(c->answer, "process", -1));
    if (number >= 0)
        printf("%lld\n", (long long)number);
    return answer_flush(c);
}

/* On a terminal, `exec ID bash` would end at once without a word, as its stdin is empty. */
static void note_missing_terminal(const struct exec_options *o, const char *sandbox,
                                  char *const *command)
{
    if (!o->tty && !o->detach && shell_has_terminal() && shell_is_interactive(command))
        cli_report("%s has no terminal and %s; for a session use: sandboxer exec -it %s -- %s",
                   command[0], o->interactive ? "shows no prompt" : "no input", sandbox,
                   command[0]);
}

static int run_exec(struct api_call *c, void *options, int argc, char **argv)
{
    const struct exec_options *o = options;
    AUTO(arena_done) struct arena a = ARENA_INIT(REMOTE_TEXT_MAX);
    /* "ID [--] COMMAND": options have been read, so this "--" comes behind the id. */
    char **command = argv[1] && strcmp(argv[1], "--") == 0 ? argv + 2 : argv + 1;
    struct process_request q;
    struct err e;

    if (!command[0])
        return verb_misused(c->verb,
                            "give a command to run: sandboxer exec ID -- COMMAND [ARGUMENT…]");
    if (o->detach && (o->interactive || o->tty))
        return verb_misused(c->verb, "--detach excludes --interactive and --tty");
    if (remote_fill_request(&q, command, o->env.p, o->env.n, o->tty, &a, &e) < 0)
        return verb_misused(c->verb, "%s", e.msg);
    note_missing_terminal(o, argv[0], command);
    q.user = o->user;
    q.cwd = o->workdir;
    if (o->timeout) /* checked by its kind */
        (void)units_duration(str_from(o->timeout), "--timeout", &q.timeout_ns, NULL);
    q.stdin_ = o->interactive;
    q.background = o->detach;
    return o->detach ? start_in_background(c, argv[0], &q)
                     : remote_exec(c->verb, c->common, argv[0], &q);
}

const struct verb verb_exec = {
    .name = "exec",
    ARGUMENTS("ID [--] COMMAND [ARGUMENT…]", 1, ARGUMENTS_ANY, COMPLETE_SANDBOX),
    .summary = "run a command in a sandbox",
    .text = "The command's stdout and stderr are passed through. When sandboxer is interrupted,\n"
            "the command is ended with everything that it started, unless it was started with\n"
            "--detach: then 'logs', 'attach' and 'kill' reach it by its number.\n"
            "\n"
            "Exit status: the command's own; 128+N if signal N ended it; 124 after a timeout;\n"
            "125 if sandboxer failed; 126 if the command cannot be executed, 127 if it is not\n"
            "found.\n"
            "\n"
            "  sandboxer exec sbx_4k7 -- make test\n"
            "  tar c src | sandboxer exec -i sbx_4k7 -- tar x -C /workspace\n"
            "  n=$(sandboxer exec -d sbx_4k7 -- python3 -m http.server)\n",
    OPTIONS(exec_options, struct exec_options),
    .run = run_exec,
    .flags = VERB_REMOTE | VERB_COMMAND,
};
