/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/run_steps/tool.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "base/units.h"
#include "domain/config/config.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"
#include "edge/run_steps/hook.h"

enum { MISUSED = 2, FAILED = 125, QUESTION_MAX = 100 << 20, TREE_MAX = 512 << 20 };

/* Arguments of the command line; "" if not given. */
enum argument {
    ARG_STEP = 1,
    ARG_CONFIG,
    ARG_COMMAND,
    ARG_MCP,
    ARG_TOOL,
    ARG_TIMEOUT,
    ARG_BLOCK,
    ARG_COUNT_
};

/* --- choosing the step --- */

static void set_shell_command(struct step *s, const char *command)
{
    s->argv[0] = "/bin/sh";
    s->argv[1] = "-c";
    s->argv[2] = command;
}

static void set_command_words(struct step *s, enum step_kind kind, const struct json_strs *words)
{
    s->kind = kind;
    for (size_t i = 0; i < words->n; i++) /* bounded by the configuration */
        s->argv[i] = words->p[i];
}

static void set_configured_step(struct step *s, const struct config_step *c)
{
    if (c->command.n)
        set_command_words(s, STEP_COMMAND, &c->command);
    else if (c->mcp.command.n)
        set_command_words(s, STEP_MCP_PIPE, &c->mcp.command);
    else if (c->mcp.url)
        s->kind = STEP_MCP_WEB;
    s->url = c->mcp.url;
    s->tool = c->mcp.tool;
}

/* The command line has precedence over the configuration. */
static int choose_hook_step(char **argv, const struct config *config, struct step *s, struct err *e)
{
    bool pre = strcmp(argv[ARG_STEP], "preflight") == 0;

    s->timeout_ns = config->scan.timeout;
    if (argv[ARG_TIMEOUT][0] &&
        units_duration(str_from(argv[ARG_TIMEOUT]), "--step-timeout", &s->timeout_ns, e) < 0)
        return -(int)ERR_INVALID;
    if (argv[ARG_COMMAND][0] && argv[ARG_MCP][0])
        return err_set(e, ERR_INVALID, "a step has a command or an MCP server, not both");
    if (argv[ARG_COMMAND][0]) {
        s->kind = STEP_COMMAND;
        set_shell_command(s, argv[ARG_COMMAND]);
    } else if (argv[ARG_MCP][0]) {
        bool web =
            strncmp(argv[ARG_MCP], "http://", 7) == 0 || strncmp(argv[ARG_MCP], "https://", 8) == 0;

        s->kind = web ? STEP_MCP_WEB : STEP_MCP_PIPE;
        s->url = argv[ARG_MCP];
        set_shell_command(s, argv[ARG_MCP]);
    } else {
        set_configured_step(s, pre ? &config->scan.preflight : &config->scan.postflight);
    }
    if (argv[ARG_TOOL][0])
        s->tool = argv[ARG_TOOL];
    if (!s->tool)
        s->tool = argv[ARG_STEP];
    return 0;
}

/* --- running the step --- */

static int run_step(const struct step *s, struct str question, struct buf *out, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
    const struct json_limits limits = { .bytes = QUESTION_MAX, .depth = 32 };
    const struct json *tree;
    int r;

    if (s->kind == STEP_COMMAND)
        return step_by_command(s, question, out, e);
    r = json_read(question, limits, &a, &tree, e);
    if (r < 0)
        return r;
    return s->kind == STEP_MCP_WEB ? step_by_web(s, tree, out, e) : step_by_pipe(s, tree, out, e);
}

static int print_answer(const struct buf *b, struct err *e)
{
    if (fwrite(b->p, 1, b->n, stdout) != b->n || fflush(stdout) == EOF)
        return err_sys(e, "writing the answer");
    return 0;
}

/* {"by": …, "block": …, "result": …} */
static int print_result(const struct step *s, const char *block, const struct json *result,
                        struct err *e)
{
    static const char *const names[] = { "sandboxer", "command", "mcp", "mcp" };
    AUTO(buf_done) struct buf out = BUF_INIT(2 * STEP_ANSWER_MAX);
    struct json_writer w;
    int r;

    json_writer_init(&w, &out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_cstr(&w, "by", names[s->kind]);
    json_field_cstr(&w, "block", block);
    if (result)
        json_field_tree(&w, "result", result);
    json_end_object(&w);
    r = json_writer_finish(&w, e);
    return r < 0 ? r : print_answer(&out, e);
}

static int take_step(char **argv, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(TREE_MAX);
    AUTO(buf_done) struct buf question = BUF_INIT(QUESTION_MAX), answer = BUF_INIT(STEP_ANSWER_MAX);
    const struct json_limits limits = { .bytes = STEP_ANSWER_MAX, .depth = 32 };
    const struct json *result = NULL;
    struct step s = { .kind = STEP_BUILT_IN };
    struct config config;
    const char *block;
    int r = config_load(argv[ARG_CONFIG][0] ? argv[ARG_CONFIG] : NULL, &config, &a, e);

    if (r >= 0)
        r = choose_hook_step(argv, &config, &s, e);
    if (r >= 0)
        r = err_wrap(e, buf_read_fd(&question, STDIN_FILENO, e), "the question");
    if (r >= 0 && s.kind != STEP_BUILT_IN)
        r = run_step(&s, buf_str(&question), &answer, e);
    if (r >= 0 && s.kind != STEP_BUILT_IN)
        r = err_wrap(e, json_read(buf_str(&answer), limits, &a, &result, e), "its answer");
    if (r < 0)
        return r;
    block = argv[ARG_BLOCK][0] ? argv[ARG_BLOCK] : config_severities[config.scan.block];
    return print_result(&s, block, result, e);
}

/* An error goes to stdout like an answer: stderr belongs to the external step. */
static int print_error(const struct err *why)
{
    AUTO(buf_done) struct buf out = BUF_INIT(8192);
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_text(&w, "error", why->msg);
    json_end_object(&w);
    return json_writer_finish(&w, &e) < 0 || print_answer(&out, &e) < 0 ? FAILED : 0;
}

int step_tool_main(int argc, char **argv)
{
    struct err e = { 0 };

    if (argc != ARG_COUNT_) {
        fputs("sandboxer-step: internal program of sandboxer, not to be called directly\n", stderr);
        return MISUSED;
    }
    signal(SIGPIPE, SIG_IGN);
    return take_step(argv, &e) < 0 ? print_error(&e) : 0;
}
