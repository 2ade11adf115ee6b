/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/arena.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/remote.h"
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

static int fill_exec_request(const struct verb *v, const struct exec_options *o, char *const *argv,
                             bool tty, struct arena *a, struct process_request *ret)
{
    struct err e;

    if (remote_fill_request(ret, argv, o->env.p, o->env.n, tty, a, &e) < 0)
        return verb_misused(v, "%s", e.msg);
    ret->user = o->user;
    ret->cwd = o->workdir;
    if (o->timeout) /* checked by its kind */
        (void)units_duration(str_from(o->timeout), "--timeout", &ret->timeout_ns, NULL);
    return 0;
}

static int start_in_background(const struct verb *v, const struct common *common,
                               const char *sandbox, const struct process_request *q)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *number;
    int status;

    api_call_init(&c, v, common, "POST");
    api_call_path(&c, "/v1/sandboxes/%s/processes", sandbox);
    remote_write_request(api_call_json(&c), q);
    status = api_call_run(&c);
    if (status)
        return status;
    number = show_at(c.answer, "process.process");
    if (!number)
        number = show_at(c.answer, "process");
    if (number && number->type == JSON_INT)
        printf("%lld\n", (long long)number->i);
    return answer_flush(&c);
}

/* "ID [--] COMMAND": options have been read, so this "--" comes behind the id. */
static char **command_of(char **argv)
{
    return argv[1] && strcmp(argv[1], "--") == 0 ? argv + 2 : argv + 1;
}

static int run_exec(const struct verb *v, int argc, char **argv)
{
    static struct exec_options o;
    AUTO(arena_done) struct arena a = ARENA_INIT(REMOTE_TEXT_MAX);
    struct process_request q;
    char **command;
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    command = command_of(argv);
    if (!command[0])
        return verb_misused(v, "give a command to run: sandboxer exec ID -- COMMAND [ARGUMENT…]");
    if (o.detach && (o.interactive || o.tty))
        return verb_misused(v, "--detach excludes --interactive and --tty");
    status = fill_exec_request(v, &o, command, o.tty, &a, &q);
    if (status)
        return status;
    q.stdin_ = o.interactive;
    q.background = o.detach;
    return o.detach ? start_in_background(v, &o.common, argv[0], &q)
                    : remote_exec(v, &o.common, argv[0], &q);
}

const struct verb verb_exec = {
    .name = "exec",
    .arguments = "ID [--] COMMAND [ARGUMENT…]",
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
    OPTIONS(exec_options),
    .run = run_exec,
    .flags = VERB_REMOTE | VERB_COMMAND,
    .n_arguments = { 1, ARGUMENTS_ANY },
    .complete = COMPLETE_SANDBOX,
};
