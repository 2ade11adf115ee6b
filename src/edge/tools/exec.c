/* sandbox_exec and sandbox_install: a program, whose output is told while it comes. */
#include <stdio.h>
#include <stdlib.h>

#include "api/mcp_run.h"
#include "api/mcp_tools.h"
#include "base/clock.h"
#include "crypto/encode.h"
#include "proc/signals.h"

enum { KEPT_MAX = 3, TAIL = 700 };

struct execution {
    struct mcp_run run;
    struct process_request process;
    struct buf out[2];
    struct {
        char bytes[KEPT_MAX]; /* the start of a character whose end has not come */
        size_t n;
    } kept[2];
    uint64_t told;
    int64_t began_ns;
    bool truncated;
    const char *manager; /* of an installation; NULL: a command */
};

static void execution_end(struct mcp_request *r)
{
    struct execution *x = r->state;

    mcp_run_done(&x->run);
    buf_done(&x->out[0]);
    buf_done(&x->out[1]);
    free(x);
}

/* --- live output --- */

struct piece {
    int channel;
    struct str data;
    bool text;
};

static void write_piece(struct json_writer *w, const void *what)
{
    const struct piece *p = what;
    struct buf text AUTO(buf_done) = BUF_INIT(256 << 10);

    json_begin_object(w);
    json_key(w, STR("sandboxer/stream"));
    json_put_str(w, p->channel == 2 ? STR("stderr") : STR("stdout"));
    if (!p->text) {
        crypto_base64(p->data, &text);
        json_key(w, STR("sandboxer/data_b64"));
        json_put_str(w, buf_str(&text));
    }
    json_end_object(w);
}

/* How many bytes at the end are the start of a character. */
static size_t cut_character(struct str s)
{
    for (size_t n = 1; n <= KEPT_MAX && n <= s.n; n++) {
        unsigned char c = (unsigned char)s.p[s.n - n];

        if (c < 0x80)
            return 0;
        if (c >= 0xc0)
            return (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) > n ? n : 0;
    }
    return 0;
}

static int tell(struct execution *x, int channel, struct str data)
{
    const struct piece p = { .channel = channel, .data = data, .text = str_is_utf8(data) };

    if (!data.n)
        return 0;
    x->told += data.n;
    return mcp_progress(x->run.request, x->told, 0, data, write_piece, &p);
}

/* A character that came in two pieces is told in one. */
static int tell_whole(struct execution *x, int channel, struct str data)
{
    struct buf text AUTO(buf_done) = BUF_INIT(256 << 10);
    size_t cut;

    if (!x->run.request->token)
        return 0;
    buf_add(&text, (struct str){ x->kept[channel - 1].bytes, x->kept[channel - 1].n });
    buf_add(&text, data);
    cut = cut_character(buf_str(&text));
    memcpy(x->kept[channel - 1].bytes, text.p + text.n - cut, cut);
    x->kept[channel - 1].n = cut;
    return tell(x, channel, (struct str){ text.p, text.n - cut });
}

static bool output(struct mcp_run *run, int channel, struct str data)
{
    struct execution *x = container_of(run, struct execution, run);
    struct buf *to = &x->out[channel - 1];
    size_t room = to->max - to->n;

    x->truncated |= data.n > room;
    buf_add(to, (struct str){ data.p, data.n < room ? data.n : room });
    return tell_whole(x, channel, data) <= 0;
}

/* --- the end --- */

static void put_output(struct execution *x, int i, const char **text, const char **coded)
{
    struct arena *a = &x->run.request->arena;
    struct buf b64 AUTO(buf_done) = BUF_INIT(2 * MCP_OUTPUT_MAX);
    struct str data = buf_str(&x->out[i]);

    if (x->truncated && data.n == x->out[i].max)
        data.n -= cut_character(data);
    if (mcp_is_text(data)) {
        *text = arena_dup(a, data);
        return;
    }
    crypto_base64(data, &b64);
    *coded = arena_dup(a, buf_str(&b64));
}

static void tell_failed_install(struct execution *x, const struct tool_executed *out)
{
    struct str text = buf_str(&x->out[1]).n ? buf_str(&x->out[1]) : buf_str(&x->out[0]);
    size_t n = text.n < TAIL ? text.n : TAIL;

    if (out->exited && out->exit_code == 127)
        mcp_tool_fail(x->run.request,
                      "This sandbox's image has no %s. Use another manager, or another profile.",
                      x->manager);
    else
        mcp_tool_fail(
            x->run.request,
            "%s did not install it%s. If it could not reach its server, the sandbox has no "
            "network, or its egress policy does not name that server: create one with "
            "capabilities.network. It ended with:\n%.*s",
            x->manager, out->timed_out ? " in time" : "", (int)n, text.p + text.n - n);
}

static void ended(struct mcp_run *run, const struct ext_end *end)
{
    struct execution *x = container_of(run, struct execution, run);
    struct mcp_request *r = run->request;
    char number[16];
    struct tool_executed out = { .exited = end->how == EXT_EXITED,
                                 .exit_code = end->status,
                                 .timed_out = end->how == EXT_TIMED_OUT,
                                 .truncated = x->truncated,
                                 .duration_ms = (clock_mono() - x->began_ns) / NS_PER_MS };

    for (int i = 0; i < 2; i++)
        tell(x, i + 1, (struct str){ x->kept[i].bytes, x->kept[i].n });
    if (end->how == EXT_LOST) {
        mcp_tool_fail(r,
                      "The sandbox ended before the command did. sandbox_list shows what is left; "
                      "sandbox_create makes a new one.");
        return;
    }
    if (end->how == EXT_SIGNALLED) {
        snprintf(number, sizeof number, "%d", end->status);
        out.signal = signal_name(end->status) ? signal_name(end->status) : number;
    }
    if (x->manager && (!out.exited || out.exit_code)) {
        tell_failed_install(x, &out);
        return;
    }
    put_output(x, 0, &out.stdout_, &out.stdout_b64);
    put_output(x, 1, &out.stderr_, &out.stderr_b64);
    mcp_tool_answer(r, &out);
}

static void failed(struct mcp_run *run, const struct err *e)
{
    mcp_fail_err(run->request, "The command did not start", e);
}

static const struct mcp_run_events events = { .output = output, .ended = ended, .failed = failed };

static void cancel(struct mcp_request *r)
{
    struct execution *x = r->state;

    mcp_run_cancel(&x->run);
}

static void drained(struct mcp_request *r)
{
    struct execution *x = r->state;

    mcp_run_resume(&x->run);
}

static void start(struct mcp_request *r, const char *box, struct execution *x, struct str input)
{
    struct sandbox *s = mcp_sandbox(r, box);
    struct ext_start begin;
    struct err e;

    if (!s || process_start_fill(s, &x->process, &r->arena, &begin, &e) < 0) {
        if (s)
            mcp_fail_err(r, "The command cannot be started", &e);
        free(x);
    } else {
        x->began_ns = clock_mono();
        for (int i = 0; i < 2; i++) /* what is kept on disk is less */
            buf_init(&x->out[i], r->session->approved ? MCP_KEPT_MAX : MCP_OUTPUT_MAX);
        r->state = x;
        r->on_end = execution_end;
        r->on_cancel = cancel;
        r->on_drain = drained;
        mcp_run_program(&x->run, r, s, &begin, input, &events);
    }
    if (s)
        sandbox_unref(s);
}

static struct execution *execution_new(void)
{
    struct execution *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    return x;
}

/* --- sandbox_exec --- */

static const char *exec_wrong(const struct tool_exec *in)
{
    if (!in->command == !in->argv.n)
        return "Give either command or argv.";
    if (in->argv.n && !in->argv.p[0][0])
        return "argv: the first is a program.";
    if (in->cwd && in->cwd[0] != '/')
        return "cwd: must begin with /.";
    for (size_t i = 0; i < in->env.n; i++)
        if (!in->env.p[i].key[0] || strchr(in->env.p[i].key, '='))
            return "env: a name is empty or holds '='.";
    return NULL;
}

void mcp_tool_exec(struct mcp_request *r, const struct json *v)
{
    const char **shell = arena_array(&r->arena, 3, sizeof *shell);
    struct tool_exec in = { 0 };
    struct execution *x;

    if (!mcp_arguments(r, v, &in))
        return;
    if (exec_wrong(&in)) {
        mcp_tool_fail(r, "%s", exec_wrong(&in));
        return;
    }
    shell[0] = "/bin/sh";
    shell[1] = "-c";
    shell[2] = in.command;
    x = execution_new();
    x->process =
        (struct process_request){ .argv = in.argv.n ? in.argv : (struct json_strs){ shell, 3 },
                                  .env = in.env,
                                  .cwd = in.cwd,
                                  .stdin_ = in.stdin_,
                                  .timeout_ns = in.timeout_s * NS_PER_S,
                                  .grace_ns = NS_PER_S };
    start(r, in.sandbox_id, x, in.stdin_ ? str_from(in.stdin_) : STR(""));
}

/* --- sandbox_install --- */

#define NEEDS(program) "command -v " program " >/dev/null 2>&1 || exit 127; "

static const char *const scripts[] = {
    [MANAGER_APT] =
        NEEDS("apt-get") "export DEBIAN_FRONTEND=noninteractive; apt-get update && exec "
                         "apt-get install -y --no-install-recommends -- \"$@\"",
    [MANAGER_PIP] = NEEDS("python3") "python3 -m pip --version >/dev/null 2>&1 || exit 127; "
                                     "export PIP_BREAK_SYSTEM_PACKAGES=1; " /* it is a sandbox's */
                                     "exec python3 -m pip install --no-input -- \"$@\"",
    [MANAGER_NPM] = NEEDS("npm") "exec npm install --no-audit --no-fund -- \"$@\"",
    [MANAGER_CARGO] = NEEDS("cargo") "exec cargo install -- \"$@\"",
    [MANAGER_GO] = NEEDS("go") "exec go install -- \"$@\"",
};

/* What managers write names and versions with; nothing that one of them could take for an option.
 */
static bool is_package(const char *name)
{
    size_t n = strlen(name);

    return n && n <= 214 && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "@._+:/~^=<>!,[]*-") == n;
}

void mcp_tool_install(struct mcp_request *r, const struct json *v)
{
    struct tool_install in = { 0 };
    struct execution *x;
    const char **argv;

    if (!mcp_arguments(r, v, &in))
        return;
    argv = arena_array(&r->arena, in.packages.n + 4, sizeof *argv);
    argv[0] = "/bin/sh";
    argv[1] = "-c";
    argv[2] = scripts[in.manager];
    argv[3] = "install";
    for (size_t i = 0; i < in.packages.n; i++) {
        if (!is_package(in.packages.p[i])) {
            mcp_tool_fail(r, "packages: '%.80s' is no name of a package.", in.packages.p[i]);
            return;
        }
        argv[4 + i] = in.packages.p[i];
    }
    x = execution_new();
    x->manager = mcp_manager_names[in.manager];
    x->process = (struct process_request){ .argv = { argv, in.packages.n + 4 },
                                           .user = in.manager == MANAGER_APT ? "0" : NULL,
                                           .timeout_ns = in.timeout_s * NS_PER_S,
                                           .grace_ns = NS_PER_S };
    start(r, in.sandbox_id, x, STR(""));
}
