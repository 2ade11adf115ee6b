/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that callers started in sandboxes. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "cli/verbs/verbs.h"

enum { COMMANDS_SHOWN = 100, COMMANDS_PAGE = 1000 };

struct audit_commands_options {
    struct common common;
    const char *user, *client, *program, *status, *since, *until, *tail;
    bool failed, follow;
};

#define AT(member) .at = offsetof(struct audit_commands_options, member)
static const struct option_spec options[] = {
    { "follow", 'f', NULL, "show programs as they are recorded, from now on", AT(follow) },
    { "tail", 'n', "N", "so many at most, the last ones (default: 100)", .kind = OPTION_COUNT,
      AT(tail), .least = 1 },
    { "since", 0, "WHEN", "begin this long ago (10m, 2h), or at a time: 2026-01-02T03:04:05Z",
      AT(since) },
    { "until", 0, "WHEN", "end this long ago, or at a time", AT(until) },
    { "user", 0, "CALLER", "only those of this caller: uid:1000, a token's id or name, an owner",
      AT(user) },
    { "client", 0, "CLIENT", "only those by this interface", .kind = OPTION_WORD, AT(client),
      .words = "cli rest mcp e2b daytona ssh daemon" },
    { "program", 0, "GLOB", "only this program: a path or its last part; * and ? match any text",
      AT(program) },
    { "status", 0, "STATUS", "only those with this exit code or outcome, such as timed_out",
      AT(status) },
    { "failed", 0, NULL, "only those that did not exit with 0", AT(failed) },
};

static void show_ending(const struct json *v, int64_t now, struct buf *out)
{
    struct str outcome = show_string(v, "outcome"), signal = show_string(v, "signal");

    if (str_eq(outcome, STR("exited")))
        buf_addf(out, "exit %lld", (long long)show_int(v, "exit_code", 0));
    else if (str_eq(outcome, STR("signalled")))
        buf_addf(out, "signal " STR_FMT, STR_ARG(signal));
    else
        buf_add(out, outcome);
}

static void show_duration_ms(const struct json *v, int64_t now, struct buf *out)
{
    int64_t ms = v && v->type == JSON_INT ? v->i : -1;

    if (ms < 0)
        buf_add(out, STR("-"));
    else if (ms < 1000)
        buf_addf(out, "%lldms", (long long)ms);
    else
        buf_addf(out, "%lld.%llds", (long long)(ms / 1000), (long long)(ms % 1000 / 100));
}

/* The name of the token, or the user. */
static void show_caller(const struct json *v, int64_t now, struct buf *out)
{
    struct str token = show_string(v, "token");

    buf_add(out, token.n ? token : show_string(v, "actor.id"));
}

/* The program of ssh is its server: the claim of the client says more, and is marked as one. */
static void show_program(const struct json *v, int64_t now, struct buf *out)
{
    const struct json *requested = show_at(v, "requested");

    if (requested) {
        const struct json words = { .type = JSON_ARRAY, .list = { requested, 1 } };

        buf_add(out, STR("requested: "));
        show_command(&words, now, out);
    } else {
        show_command(show_at(v, "argv"), now, out);
    }
}

static const struct column command_columns[] = {
    COLUMN("TIME", "started_at", .show = show_moment, .width = 20),
    COLUMN("SANDBOX", "sandbox_id", .width = 24, .wide = 120),
    COLUMN("CALLER", "", .show = show_caller, .width = 12),
    COLUMN("CLIENT", "client", .width = 7),
    COLUMN("USER", "user", .width = 8, .wide = 140),
    COLUMN("STATUS", "", .show = show_ending, .width = 12),
    COLUMN("TOOK", "duration_ms", .show = show_duration_ms, .width = 8, .wide = 100),
    COLUMN("COMMAND", "", .show = show_program, .width = 30),
};
static const struct answer_kind command_kind = KIND("commands", "id", command_columns);

static void prepare_request(struct api_call *c, const struct audit_commands_options *o,
                            const char *id)
{
    if (id)
        api_call_path(c, "/v1/sandboxes/%s/audit/commands", id);
    else
        api_call_path(c, "/v1/audit/commands");
    api_call_query(c, "since", o->since);
    api_call_query(c, "until", o->until);
    api_call_query(c, "caller", o->user);
    api_call_query(c, "client", o->client);
    api_call_query(c, "program", o->program);
    api_call_query(c, "status", o->status);
    api_call_query(c, "failed", o->failed ? "true" : NULL);
}

/* *left: how many rows are wanted yet; *before: where the next page begins, 0: there is none. */
static int print_command_page(const struct api_call *of, const struct audit_commands_options *o,
                              const char *id, uint64_t *left, int64_t *before)
{
    AUTO(api_call_done) struct api_call c;
    char limit[24], from[24];
    const struct json *rows;
    struct err e;
    int status;

    snprintf(limit, sizeof limit, "%llu",
             (unsigned long long)(*left < COMMANDS_PAGE ? *left : COMMANDS_PAGE));
    snprintf(from, sizeof from, "%lld", (long long)*before);
    api_call_init(&c, of->verb, of->common, "GET");
    prepare_request(&c, o, id);
    api_call_query(&c, "limit", limit);
    api_call_query(&c, "before", *before ? from : NULL);
    status = api_call_run(&c);
    if (status)
        return status;
    if (!*before)
        answer_titles(&c, &command_kind);
    rows = answer_rows(c.answer, &command_kind);
    for (const struct json *row = json_first(rows); row != json_end(rows) && *left; row++) {
        --*left;
        if (answer_row(&c, row, &command_kind, &e) < 0)
            return api_call_failed(&c, &e);
    }
    *before = show_int(c.answer, "next", 0);
    return answer_flush(&c);
}

static int follow_commands(const struct api_call *of, const struct audit_commands_options *o,
                           const char *id)
{
    AUTO(api_call_done) struct api_call c;

    api_call_init(&c, of->verb, of->common, "GET");
    prepare_request(&c, o, id);
    api_call_query(&c, "follow", "true");
    return answer_stream(&c, STR(""), answer_print_row, &command_kind);
}

static int run_audit_commands(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct audit_commands_options *o = options_;
    const char *id = argc ? argv[0] : NULL;
    uint64_t left = o->tail ? strtoull(o->tail, NULL, 10) : COMMANDS_SHOWN;
    int64_t before = 0;
    int status;

    if (o->follow && (o->since || o->until || o->tail))
        return verb_misused(c->verb, "--follow begins now: leave out --since, --until and --tail");
    if (o->follow)
        return follow_commands(c, o, id);
    do
        status = print_command_page(c, o, id, &left, &before);
    while (status == 0 && left && before);
    return status;
}

const struct verb verb_audit_commands = {
    .name = "audit commands",
    ARGUMENTS("[ID]", 0, 1, COMPLETE_SANDBOX),
    .summary = "show the programs that were started in sandboxes",
    .text = "The newest first, those that run before the others: who started them, by which\n"
            "interface, how they ended, and their arguments. Values that look like secrets are\n"
            "masked (record_commands in the profile). Of 'sandboxer ssh', a command after\n"
            "'requested:' is the client's claim, which the daemon cannot check. A user sees the\n"
            "programs in its own sandboxes, an administrator those of every owner. With -o json\n"
            "it is one document a line. The records are a part of the chain that `audit verify`\n"
            "checks.\n"
            "\n"
            "  sandboxer audit commands\n"
            "  sandboxer audit commands sbx_4k7 --failed\n"
            "  sandboxer audit commands --since 24h --program 'curl*' -n 1000 -o json\n"
            "  sandboxer audit commands --user ci --client mcp --status timed_out\n"
            "  sandboxer audit commands -f\n",
    OPTIONS(options, struct audit_commands_options),
    .run = run_audit_commands,
    .flags = VERB_REMOTE | VERB_FORMAT,
};
