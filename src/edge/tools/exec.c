/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_exec and sandbox_install: run a program and send its output as progress. */
#include "edge/tools/run.h"
#include "edge/tools/arguments.h"
#include "edge/tools/look.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/encode.h"

enum { KEPT_MAX = 3, TAIL = 700 };

struct execution {
    struct mcp_run run;
    struct buf out[2];
    struct {
        char bytes[KEPT_MAX]; /* an incomplete UTF-8 character */
        size_t n;
    } kept[2];
    uint64_t told;
    int64_t began_ns;
    bool truncated;
    const char *manager; /* of sandbox_install; NULL: sandbox_exec */
    const char *hint;    /* of mcp_look_at_directory() */
};

static void release_execution(void *state)
{
    struct execution *x = state;

    mcp_run_done(&x->run);
    buf_done(&x->out[0]);
    buf_done(&x->out[1]);
}

/* --- live output --- */

struct progress_piece {
    int channel;
    struct str data;
    bool text;
};

static void write_progress_piece(struct json_writer *w, const void *what)
{
    const struct progress_piece *p = what;
    struct buf text AUTO(buf_done) = BUF_INIT(256 << 10);

    json_begin_object(w);
    json_field_str(w, "sandboxer/stream", p->channel == 2 ? STR("stderr") : STR("stdout"));
    if (!p->text) {
        crypto_base64(p->data, &text);
        json_field_str(w, "sandboxer/data_b64", buf_str(&text));
    }
    json_end_object(w);
}

/* Number of bytes at the end that are an incomplete UTF-8 character. */
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

static int send_output_progress(struct execution *x, int channel, struct str data)
{
    const struct progress_piece p = { .channel = channel, .data = data, .text = str_is_utf8(data) };

    if (!data.n)
        return 0;
    x->told += data.n;
    return mcp_progress(x->run.request, x->told, 0, data, write_progress_piece, &p);
}

/* Sends output as progress; holds back an incomplete character until it is complete. */
static int send_whole_characters(struct execution *x, int channel, struct str data)
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
    return send_output_progress(x, channel, (struct str){ text.p, text.n - cut });
}

static bool on_tool_output(struct mcp_run *run, int channel, struct str data)
{
    struct execution *x = container_of(run, struct execution, run);
    struct buf *to = &x->out[channel - 1];
    size_t room = to->max - to->n;

    x->truncated |= data.n > room;
    buf_add(to, (struct str){ data.p, data.n < room ? data.n : room });
    return send_whole_characters(x, channel, data) <= 0;
}

/* --- the result --- */

static struct bytes_answer show_output(const struct execution *x, int i, struct buf *room)
{
    struct str data = buf_str(&x->out[i]);

    if (x->truncated && data.n == x->out[i].max)
        data.n -= cut_character(data);
    if (mcp_is_text(data))
        return (struct bytes_answer){ .text = data.p ? data : STR("") };
    crypto_base64(data, room);
    return (struct bytes_answer){ .base64 = buf_str(room) };
}

static void fail_install(struct execution *x, const struct tool_executed *out)
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
            x->manager, out->ended.timed_out ? " in time" : "", (int)n, text.p + text.n - n);
}

static void on_tool_program_ended(struct mcp_run *run, const struct backend_end *end)
{
    struct execution *x = container_of(run, struct execution, run);
    struct buf room[] = { BUF_INIT(2 * MCP_OUTPUT_MAX), BUF_INIT(2 * MCP_OUTPUT_MAX) };
    struct tool_executed out = { .exited = end->how == BACKEND_EXITED,
                                 .exit_code = end->status,
                                 .truncated = x->truncated,
                                 .hint = x->hint,
                                 .duration_ms = (clock_mono() - x->began_ns) / NS_PER_MS };

    for (int i = 0; i < 2; i++)
        send_output_progress(x, i + 1, (struct str){ x->kept[i].bytes, x->kept[i].n });
    if (end->how == BACKEND_LOST) {
        mcp_tool_fail(run->request,
                      "The sandbox ended before the command did. sandbox_list shows what is left; "
                      "sandbox_create makes a new one.");
        return;
    }
    ended_answer_fill(&out.ended, end, NULL);
    if (x->manager && (!out.exited || out.exit_code)) {
        fail_install(x, &out);
        return;
    }
    out.out = show_output(x, 0, &room[0]);
    out.err = show_output(x, 1, &room[1]);
    mcp_tool_answer(run->request, &out);
    buf_done(&room[0]);
    buf_done(&room[1]);
}

static void on_tool_program_failed(struct mcp_run *run, const struct err *e)
{
    mcp_fail_err(run->request, "The command did not start", e);
}

static const struct mcp_run_events events = { .output = on_tool_output,
                                              .ended = on_tool_program_ended,
                                              .failed = on_tool_program_failed };

static void cancel_execution(struct mcp_request *r)
{
    mcp_run_cancel(&((struct execution *)r->state)->run);
}

static void on_execution_drained(struct mcp_request *r)
{
    mcp_run_resume(&((struct execution *)r->state)->run);
}

static void start_execution(struct mcp_request *r, const char *box, const char *manager,
                            const char *hint, const struct process_request *q, struct str input)
{
    struct sandbox *s = mcp_sandbox(r, box);
    struct process_start begin;
    struct execution *x;
    struct err e;

    if (!s)
        return;
    if (process_start_fill(s, q, &r->arena, &begin, &e) < 0) {
        mcp_fail_err(r, "The command cannot be started", &e);
    } else {
        x = mcp_state(r, sizeof *x, release_execution);
        x->manager = manager;
        x->hint = hint;
        x->began_ns = clock_mono();
        for (int i = 0; i < 2; i++) /* stored results are smaller */
            buf_init(&x->out[i], r->session->approved ? MCP_KEPT_MAX : MCP_OUTPUT_MAX);
        r->on_cancel = cancel_execution;
        r->on_drain = on_execution_drained;
        mcp_run_start(&x->run, r, s, &begin, input, true, &events);
    }
    sandbox_unref(s);
}

/* --- sandbox_exec --- */

static const char *check_exec_arguments(const struct tool_exec *in)
{
    if (!in->command == !in->argv.n)
        return "Give either command or argv.";
    if (in->argv.n && !in->argv.p[0][0])
        return "argv: the first element must be a program.";
    if (in->cwd && in->cwd[0] != '/')
        return "cwd: must begin with /.";
    for (size_t i = 0; i < in->env.n; i++)
        if (!in->env.p[i].key[0] || strchr(in->env.p[i].key, '='))
            return "env: a name is empty or holds '='.";
    return NULL;
}

static void run_told_command(struct mcp_request *r, const struct json *v, const char *hint)
{
    const char **shell = arena_array(&r->arena, 3, sizeof *shell);
    struct tool_exec in = { 0 };
    struct process_request q;

    if (!mcp_arguments(r, v, &in))
        return;
    if (check_exec_arguments(&in)) {
        mcp_tool_fail(r, "%s", check_exec_arguments(&in));
        return;
    }
    shell[0] = "/bin/sh";
    shell[1] = "-c";
    shell[2] = in.command;
    q = (struct process_request){ .argv = in.argv.n ? in.argv : (struct json_strs){ shell, 3 },
                                  .env = in.env,
                                  .cwd = in.cwd,
                                  .stdin_ = in.stdin_,
                                  .timeout_ns = in.timeout_s * NS_PER_S,
                                  .grace_ns = NS_PER_S };
    start_execution(r, in.sandbox_id, NULL, hint, &q, str_from(in.stdin_));
}

void mcp_tool_exec(struct mcp_request *r, const struct json *v)
{
    mcp_look_at_directory(r, v, run_told_command);
}

/* --- sandbox_install --- */

#define NEEDS(program) "command -v " program " >/dev/null 2>&1 || exit 127; "

static const char *const scripts[] = {
    [MANAGER_APT] =
        NEEDS("apt-get") "export DEBIAN_FRONTEND=noninteractive; apt-get update && exec "
                         "apt-get install -y --no-install-recommends -- \"$@\"",
    [MANAGER_PIP] =
        NEEDS("python3") "python3 -m pip --version >/dev/null 2>&1 || exit 127; "
                         "export PIP_BREAK_SYSTEM_PACKAGES=1; " /* the system is a sandbox */
                         "exec python3 -m pip install --no-input -- \"$@\"",
    [MANAGER_NPM] = NEEDS("npm") "exec npm install --no-audit --no-fund -- \"$@\"",
    [MANAGER_CARGO] = NEEDS("cargo") "exec cargo install -- \"$@\"",
    [MANAGER_GO] = NEEDS("go") "exec go install -- \"$@\"",
};

/* Accepts the characters of package names and versions; rejects names that look like options. */
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
    struct process_request q;
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
            mcp_tool_fail(r, "packages: '%.80s' is not a valid package name.", in.packages.p[i]);
            return;
        }
        argv[4 + i] = in.packages.p[i];
    }
    q = (struct process_request){ .argv = { argv, in.packages.n + 4 },
                                  .user = in.manager == MANAGER_APT ? "0" : NULL,
                                  .timeout_ns = in.timeout_s * NS_PER_S,
                                  .grace_ns = NS_PER_S };
    start_execution(r, in.sandbox_id, mcp_manager_names[in.manager], NULL, &q, STR(""));
}
