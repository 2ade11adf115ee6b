/* SPDX-License-Identifier: Apache-2.0 */
/* Processes in a sandbox: `exec`, `shell`, `attach`. */
#include <stdlib.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/remote.h"
#include "cli/terminal.h"
#include "cli/verbs/verbs.h"

struct exec_options {
    struct common common;
    bool interactive, tty, detach;
    const char *user, *workdir, *timeout;
    struct option_list env;
};

#define AT(member) .at = offsetof(struct exec_options, member)

#define ENV                                                                                        \
    {                                                                                              \
        "env", 'e', "NAME[=VALUE]", "set a variable, or pass on ours; can be repeated",            \
            .kind = OPTION_VARIABLES, AT(env)                                                      \
    }
#define USER                                                                                       \
    {                                                                                              \
        "user", 'u', "USER", "name or number inside (default: the profile's)",                     \
            .kind = OPTION_TEXT, AT(user)                                                          \
    }
#define WORKDIR                                                                                    \
    {                                                                                              \
        "workdir", 'w', "DIR", "working directory (default: the profile's)", .kind = OPTION_TEXT,  \
                                                                             AT(workdir)           \
    }

static const struct option_spec exec_options[] = {
    { "interactive", 'i', NULL, "pass stdin on", .kind = OPTION_FLAG, AT(interactive) },
    { "tty", 't', NULL, "run it in a terminal of its own", .kind = OPTION_FLAG, AT(tty) },
    { "detach", 'd', NULL, "start it in the background and print its number", .kind = OPTION_FLAG,
      AT(detach) },
    ENV,
    USER,
    WORKDIR,
    { "timeout", 0, "DURATION", "end it after that long: 30s, 5m", .kind = OPTION_DURATION,
      AT(timeout) },
};

static int start_in_background(const struct verb *v, const struct common *common,
                               const struct remote_start *s)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *number;
    int status;

    api_call_init(&c, v, common, "POST");
    api_call_path(&c, "/v1/sandboxes/%s/processes", s->sandbox);
    remote_write_request(api_call_json(&c), s);
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
    struct remote_start s;
    char **command;
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    command = command_of(argv);
    if (!command[0])
        return verb_misused(v, "give a command to run: sandboxer exec ID -- COMMAND [ARGUMENT…]");
    if (o.detach && (o.interactive || o.tty))
        return verb_misused(v, "--detach excludes --interactive and --tty");
    s = (struct remote_start){ .sandbox = argv[0],
                               .argv = command,
                               .env = &o.env,
                               .user = o.user,
                               .workdir = o.workdir,
                               .timeout = o.timeout,
                               .stdin_ = o.interactive,
                               .tty = o.tty,
                               .background = o.detach };
    return o.detach ? start_in_background(v, &o.common, &s) : remote_exec(v, &o.common, &s);
}

const struct verb verb_exec = {
    .name = "exec",
    .arguments = "ID [--] COMMAND [ARGUMENT…]",
    .summary = "run a command in a sandbox",
    .text =
        "The command's stdout and stderr are passed through. When sandboxer is interrupted, the\n"
        "command is ended with everything that it started, unless it was started with --detach:\n"
        "then 'logs', 'attach' and 'kill' reach it by its number.\n"
        "\n"
        "Exit status: the command's own; 128+N if signal N ended it; 124 after a timeout; 125 "
        "if\n"
        "sandboxer failed; 126 if the command cannot be executed, 127 if it is not found.\n"
        "\n"
        "  sandboxer exec sbx_4k7 -- make test\n"
        "  tar c src | sandboxer exec -i sbx_4k7 -- tar x -C /workspace\n"
        "  n=$(sandboxer exec -d sbx_4k7 -- python3 -m http.server)\n",
    .options = exec_options,
    .n_options = COUNT_OF(exec_options),
    .run = run_exec,
    .flags = VERB_REMOTE | VERB_COMMAND,
    .min_arguments = 1,
    .max_arguments = ARGUMENTS_ANY,
    .complete = COMPLETE_SANDBOX,
};

static const struct option_spec shell_options[] = { ENV, USER, WORKDIR };

static int run_shell(const struct verb *v, int argc, char **argv)
{
    static char *any[] = { (char *)"/bin/sh", (char *)"-c",
                           (char *)"command -v bash >/dev/null && exec bash -l; exec sh -l", NULL };
    static struct exec_options o;
    struct remote_start s;
    char *chosen[] = { NULL, NULL };
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    chosen[0] = argc > 1 ? argv[1] : NULL;
    s = (struct remote_start){ .sandbox = argv[0],
                               .argv = chosen[0] ? chosen : any,
                               .env = &o.env,
                               .user = o.user,
                               .workdir = o.workdir,
                               .stdin_ = true,
                               .tty = terminal_is(STDIN_FILENO) };
    return remote_exec(v, &o.common, &s);
}

const struct verb verb_shell = {
    .name = "shell",
    .arguments = "ID [SHELL]",
    .summary = "open a shell in a sandbox",
    .text = "bash if it is installed, else sh. If stdin is not a terminal, the shell reads "
            "commands from it.\n"
            "\n"
            "  sandboxer shell sbx_4k7\n"
            "  sandboxer shell --user 1000 sbx_4k7 /bin/zsh\n",
    .options = shell_options,
    .n_options = COUNT_OF(shell_options),
    .run = run_shell,
    .flags = VERB_REMOTE | VERB_COMMAND,
    .min_arguments = 1,
    .max_arguments = 2,
    .complete = COMPLETE_SANDBOX,
};

struct attach_options {
    struct common common;
    bool interactive, no_replay;
};

static const struct option_spec attach_options[] = {
    { "interactive", 'i', NULL, "pass stdin on", .kind = OPTION_FLAG,
      .at = offsetof(struct attach_options, interactive) },
    { "no-replay", 0, NULL, "only new output", .kind = OPTION_FLAG,
      .at = offsetof(struct attach_options, no_replay) },
};

/* 0, and whether it has a terminal. */
static int query_process_tty(const struct verb *v, const struct common *common, char **argv,
                             bool *ret)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *tty;
    int status;

    api_call_init(&c, v, common, "GET");
    api_call_path(&c, "/v1/sandboxes/%s/processes/%s", argv[0], argv[1]);
    status = api_call_run(&c);
    tty = status ? NULL : show_at(c.answer, "tty");
    *ret = tty && tty->type == JSON_BOOL && tty->b;
    return status;
}

static int run_attach(const struct verb *v, int argc, char **argv)
{
    struct attach_options o = { 0 };
    bool tty;
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    status = query_process_tty(v, &o.common, argv, &tty);
    if (status)
        return status;
    return remote_attach(v, &o.common, argv[0], argv[1], o.interactive, tty && o.interactive,
                         !o.no_replay);
}

const struct verb verb_attach = {
    .name = "attach",
    .arguments = "ID PROCESS",
    .summary = "follow a background process to its end",
    .text =
        "Shows the stored output, then new output. Detaching does not end the process. The exit\n"
        "status is that of the process, as with 'exec'.\n"
        "\n"
        "  sandboxer attach sbx_4k7 3\n",
    .options = attach_options,
    .n_options = COUNT_OF(attach_options),
    .run = run_attach,
    .flags = VERB_REMOTE | VERB_COMMAND,
    .min_arguments = 2,
    .max_arguments = 2,
    .complete = COMPLETE_SANDBOX,
};
