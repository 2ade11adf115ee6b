/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that run while their client waits: commands and code. */
#include <stdio.h>

#include "edge/daytona/internal.h"
#include "base/clock.h"

enum { PATH_BYTES_MAX = 4095, COMMAND_MAX = (128 << 10) - 1, TIMEOUT_MAX_S = 7 * 86400 };

/* --- shared functions of the toolbox --- */

const char *daytona_absolute(struct call *c, struct str path)
{
    struct buf text AUTO(buf_done) = BUF_INIT(PATH_BYTES_MAX + 1);
    const char *ret = NULL;
    int r = 0;

    if (!path.n || path.p[0] != '/') {
        r = buf_add(&text, STR(DAYTONA_HOME));
        if (path.n && path.p[0] == '~' && (path.n == 1 || path.p[1] == '/'))
            path = (struct str){ path.p + 1, path.n - 1 };
        if (r >= 0 && path.n && path.p[0] != '/')
            r = buf_add_c(&text, '/');
    }
    if (r >= 0 && (!path.n || (!memchr(path.p, 0, path.n) && buf_add(&text, path) >= 0)))
        ret = arena_dup(&c->own, buf_str(&text));
    return ret;
}

const char *daytona_path(struct call *c, struct str path)
{
    const char *ret = daytona_absolute(c, path);

    if (!ret)
        call_fail_with(c, 400, "INVALID_FILE_PATH", "path: longer than 4095 bytes or contains NUL");
    return ret;
}

const char *daytona_query_path(struct call *c, const char *name)
{
    struct str path = { NULL, 0 };

    if (call_query(c, name, &path) < 0)
        return NULL;
    if (path.n)
        return daytona_path(c, path);
    call_fail_with(c, 400, "INVALID_FILE_PATH", "%s: required", name);
    return NULL;
}

bool daytona_begin_output(struct exec *x)
{
    for (int i = 0; i < 2; i++)
        buf_init(&x->out[i], DAYTONA_OUTPUT_MAX);
    return true;
}

bool daytona_collect_output(struct exec *x, int channel, struct str data)
{
    if (!x->truncated && buf_add(&x->out[channel - 1], data) < 0)
        x->truncated = true;
    return true;
}

void daytona_not_started(struct exec *x, const struct err *e)
{
    if (strcmp(x->op.process.step, "workdir") == 0) {
        call_fail_with(x->call, 400, "BAD_REQUEST", "cwd '%.200s' does not exist", x->request.cwd);
    } else {
        call_fail(x->call, e);
    }
}

int daytona_exit_code(const struct backend_end *end)
{
    return end->how == BACKEND_EXITED      ? end->status
           : end->how == BACKEND_SIGNALLED ? 128 + end->status
                                           : -1;
}

static void start_toolbox_process(struct call *c, const struct process_request *q,
                                  const struct exec_encoder *encoder)
{
    struct err e;

    if (process_request_check(q, &e) < 0)
        call_fail(c, &e);
    else
        exec_start(c, q, encoder, NULL);
}

/* sh -c SCRIPT sandboxer ARGS… */
static struct json_strs script_argv(struct call *c, const char *script, struct json_strs args)
{
    const char **argv = call_alloc(c, args.n + 4, sizeof *argv);

    argv[0] = "sh";
    argv[1] = "-c";
    argv[2] = script;
    argv[3] = "sandboxer";
    for (size_t i = 0; i < args.n; i++)
        argv[4 + i] = args.p[i];
    return (struct json_strs){ argv, args.n + 4 };
}

void daytona_run_script(struct call *c, const char *cwd, const char *script, struct json_strs args,
                        const struct json_map *env, const struct exec_encoder *encoder)
{
    struct process_request q = { .argv = script_argv(c, script, args),
                                 .cwd = cwd,
                                 .user = DAYTONA_USER };

    if (env)
        q.env = *env;
    start_toolbox_process(c, &q, encoder);
}

/* --- execute and code-run --- */

struct daytona_command_request {
    const char *command, *code, *language, *cwd;
    struct json_strs argv;
    struct json_map env;
    int64_t timeout_s;
};

#define AT(member) JSON_AT(struct daytona_command_request, member)

static const struct json_field execute_fields[] = {
    { "command", JSON_KIND_STR, AT(command), .required = true, .min = 1, .max = COMMAND_MAX },
    { "cwd", JSON_KIND_STR, AT(cwd), .max = PATH_BYTES_MAX },
    { "envs", JSON_KIND_MAP, AT(env), .max = PROCESS_ENV_MAX },
    { "timeout", JSON_KIND_INT, AT(timeout_s), .min = 0, .max = TIMEOUT_MAX_S },
};

static const struct json_field code_fields[] = {
    { "code", JSON_KIND_STR, AT(code), .required = true, .max = COMMAND_MAX },
    { "language", JSON_KIND_STR, AT(language), .required = true, .max = 32 },
    { "argv", JSON_KIND_STRS, AT(argv), .max = DAYTONA_SCRIPT_ARGS },
    { "envs", JSON_KIND_MAP, AT(env), .max = PROCESS_ENV_MAX },
    { "timeout", JSON_KIND_INT, AT(timeout_s), .min = 0, .max = TIMEOUT_MAX_S },
};

struct command_outcome {
    const struct exec *exec;
    int exit_code;
};

static void write_command_outcome(struct json_writer *w, const void *what)
{
    const struct command_outcome *o = what;

    json_begin_object(w);
    json_field_int(w, "exitCode", o->exit_code);
    json_field_lossy(w, "result", buf_str(&o->exec->out[0]));
    json_field_begin_object(w, "artifacts");
    json_field_begin_array(w, "charts");
    json_end_array(w);
    json_end_object(w);
    json_end_object(w);
}

/* Adds the reason of an OOM kill as the last line of the output, because the answer has no other
 * place for it. */
static void answer_outcome(struct exec *x, const struct backend_end *end)
{
    const struct command_outcome o = { x, daytona_exit_code(end) };
    char memory[EXEC_LIMIT_TEXT];

    if (end->how == BACKEND_TIMED_OUT)
        call_fail_with(x->call, 408, "PROCESS_EXECUTION_TIMEOUT",
                       "the command was killed at its timeout");
    else if (end->how == BACKEND_LOST)
        call_fail_with(x->call, 410, "GONE", "the sandbox ended before the command");
    else if (x->truncated)
        call_fail_with(x->call, 413, "", "the command wrote more than 16 MiB; use a session");
    else {
        if (backend_end_is_oom(end))
            buf_addf(&x->out[0], "sandboxer: killed: %s\n", exec_oom_text(end, memory));
        call_answer(x->call, 200, write_command_outcome, &o);
    }
}

static const struct exec_encoder outcome_encoder = { .started = daytona_begin_output,
                                                     .output = daytona_collect_output,
                                                     .ended = answer_outcome,
                                                     .failed = daytona_not_started };

/* Merges stderr into stdout, which keeps the order of writes. */
#define MERGED "exec 2>&1; "

static void run_toolbox_script(struct call *c, const struct daytona_command_request *q,
                               const char *script, struct json_strs args)
{
    struct process_request p = { .argv = script_argv(c, script, args),
                                 .env = q->env,
                                 .cwd = daytona_path(c, str_from(q->cwd)),
                                 .user = DAYTONA_USER,
                                 .timeout_ns = q->timeout_s * NS_PER_S };

    if (p.cwd)
        start_toolbox_process(c, &p, &outcome_encoder);
}

static void execute_daytona_command(struct call *c)
{
    static const char script[] = MERGED "if command -v bash >/dev/null; then exec bash -c \"$1\"; "
                                        "fi; exec sh -c \"$1\"";
    struct daytona_command_request q = { 0 };

    if (daytona_read_body(c, execute_fields, COUNT_OF(execute_fields), &q))
        run_toolbox_script(c, &q, script, (struct json_strs){ &q.command, 1 });
}

/* Scripts that run code: $1 is the code, the rest are its arguments. */
static const struct {
    const char *name, *script;
} languages[] = {
    { "python", MERGED "c=$1; shift; exec python3 -c \"$c\" \"$@\"" },
    { "javascript", MERGED "c=$1; shift; exec node -e \"$c\" -- \"$@\"" },
    { "typescript",
      MERGED "t=$(mktemp -d) && printf %s \"$1\" >\"$t/code.ts\" && shift || exit; "
             "if command -v tsx >/dev/null; then tsx \"$t/code.ts\" \"$@\"; "
             "elif command -v ts-node >/dev/null; then ts-node -T \"$t/code.ts\" \"$@\"; "
             "else node --experimental-strip-types --no-warnings \"$t/code.ts\" \"$@\"; fi; "
             "s=$?; rm -rf \"$t\"; exit $s" },
};

static void run_daytona_code(struct call *c)
{
    struct daytona_command_request q = { 0 };
    const char **args;

    if (!daytona_read_body(c, code_fields, COUNT_OF(code_fields), &q))
        return;
    args = call_alloc(c, q.argv.n + 1, sizeof *args);
    args[0] = q.code;
    for (size_t i = 0; i < q.argv.n; i++)
        args[1 + i] = q.argv.p[i];
    for (size_t i = 0; i < COUNT_OF(languages); i++)
        if (strcmp(languages[i].name, q.language) == 0) {
            run_toolbox_script(c, &q, languages[i].script,
                               (struct json_strs){ args, q.argv.n + 1 });
            return;
        }
    call_fail_with(c, 400, "BAD_REQUEST", "language: '%.32s' is not supported", q.language);
}

const struct route routes_daytona_process[] = {
    { H1_POST, VERB_EXEC, DAYTONA_INSIDE "/process/execute",
      DAYTONA_LIVE | ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG, .handle = execute_daytona_command },
    { H1_POST, VERB_EXEC, DAYTONA_INSIDE "/process/code-run",
      DAYTONA_LIVE | ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG, .handle = run_daytona_code },
    { .path = NULL },
};
