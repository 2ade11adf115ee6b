/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/answer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"

static const struct json nothing = { .type = JSON_OBJECT };

const struct json *answer_rows(const struct json *tree, const struct answer_kind *k)
{
    const struct json *rows = tree && tree->type == JSON_ARRAY ? tree : show_at(tree, k->rows);

    return rows && rows->type == JSON_ARRAY ? rows : &nothing;
}

static void print_text(struct str s)
{
    char shown[1024];

    log_printable(s, shown, sizeof shown);
    printf("%s\n", shown);
}

/* Ids are texts or numbers. */
static void print_id(const struct json *row, const struct answer_kind *k)
{
    AUTO(buf_done) struct buf text = BUF_INIT(512);

    show_text(show_at(row, k->id), 0, &text);
    print_text(buf_str(&text));
}

int answer_flush(const struct api_call *c)
{
    struct err e;

    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    (void)err_sys(&e, "writing to stdout");
    return api_call_failed(c, &e);
}

static int finish_output(const struct api_call *c, int r, const struct err *e)
{
    return r < 0 ? api_call_failed(c, e) : answer_flush(c);
}

int answer_list(const struct api_call *c, const struct json *tree, const struct answer_kind *k)
{
    const struct json *rows = answer_rows(tree, k);
    enum format format = common_format(c->common);
    struct table_style style = table_style_for(fileno(stdout));
    struct err e;
    int r = 0;

    if (format != FORMAT_TEXT)
        r = tree_print(stdout, format, false, tree ? tree : &nothing, &e);
    else if (c->common->quiet)
        for (const struct json *row = json_first(rows); row != json_end(rows); row++)
            print_id(row, k);
    else
        r = table_print(stdout, &style, rows, k->columns, k->n, &e);
    return finish_output(c, r, &e);
}

int answer_record(const struct api_call *c, const struct json *v, const struct answer_kind *k)
{
    enum format format = common_format(c->common);
    struct table_style style = table_style_for(fileno(stdout));
    struct err e;
    int r = 0;

    if (!v)
        v = &nothing;
    if (format != FORMAT_TEXT)
        r = tree_print(stdout, format, false, v, &e);
    else if (c->common->quiet)
        print_id(v, k);
    else
        r = record_print(stdout, &style, v, k->columns, k->n, &e);
    return finish_output(c, r, &e);
}

int answer_done(const struct api_call *c, const struct json *tree, const char *fmt, ...)
{
    enum format format = common_format(c->common);
    char text[1024];
    struct err e;
    va_list ap;
    int r = 0;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (format != FORMAT_TEXT)
        r = tree_print(stdout, format, false, tree ? tree : &nothing, &e);
    else if (!c->common->quiet)
        print_text(str_from(text));
    return finish_output(c, r, &e);
}

void answer_pause(const struct json *tree, char out[static ANSWER_PAUSE_MAX])
{
    AUTO(buf_done) struct buf ms = BUF_INIT(ANSWER_PAUSE_MAX / 2);

    show_text(show_at(tree, "pause_ms"), 0, &ms);
    if (ms.n && !str_eq(buf_str(&ms), STR("0")))
        snprintf(out, ANSWER_PAUSE_MAX, "stood still for " STR_FMT " ms", STR_ARG(buf_str(&ms)));
    else
        out[0] = '\0';
}

uint64_t answer_number(const struct api_call *c, const char *path)
{
    const struct json *v = show_at(c->answer, path);

    return v && v->type == JSON_INT ? (uint64_t)v->i : 0;
}

bool answer_is(const struct api_call *c, const char *path)
{
    const struct json *v = show_at(c->answer, path);

    return v && v->type == JSON_BOOL && v->b;
}

static const struct column sandbox_columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("STATE", "state", .state = true),
    COLUMN("PROFILE", "profile", .most = 32),
    COLUMN("HOST", "host", .most = 20),
    COLUMN("OWNER", "owner", .most = 20, .alone = true),
    COLUMN("SCOPE", "scope", .alone = true),
    COLUMN("CREATED", "created_at", .show = show_age),
    COLUMN("READY", "ready_at", .show = show_age, .alone = true),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("TTL ENDS", "ttl_expires_at", .show = show_until, .alone = true),
    COLUMN("TTL", "ttl", .show = show_seconds, .alone = true),
    COLUMN("TTL MAX", "ttl_max", .show = show_seconds, .alone = true),
    COLUMN("IDLE REAP", "idle_reap", .show = show_seconds, .alone = true),
    COLUMN("LABELS", "labels", .most = 40),
    COLUMN("IMAGE", "image", .alone = true),
    COLUMN("SNAPSHOT", "snapshot_id", .alone = true),
    COLUMN("INPUTS", "inputs", .alone = true),
    COLUMN("WORKSPACE", "workspace", .alone = true),
    COLUMN("CONSUMER", "consumer", .alone = true),
    COLUMN("CAPABILITIES", "capabilities", .alone = true),
    COLUMN("REACHABLE", "reachability.url", .alone = true),
    COLUMN("STEP", "step", .alone = true),
    COLUMN("REASON", "reason", .alone = true),
    COLUMN("NOTES", "notes", .alone = true),
    COLUMN("OOM KILLS", "oom_kills", .alone = true),
    COLUMN("LAST OOM", "last_oom_at", .alone = true, .show = show_age),
    COLUMN("EGRESS", "egress", .alone = true),
    COLUMN("NO EGRESS", "egress.problem", .alone = true),
    COLUMN("ACTUALS", "actuals", .alone = true, .block = true),
    COLUMN("TELEMETRY", "telemetry", .alone = true, .block = true),
};
const struct answer_kind kind_sandbox_whole = { "sandboxes", "sandbox_id", sandbox_columns,
                                                COUNT_OF(sandbox_columns) };
/* Without the telemetry, which is old news of one that was there before. */
const struct answer_kind kind_sandbox = { "sandboxes", "sandbox_id", sandbox_columns,
                                          COUNT_OF(sandbox_columns) - 1 };

static const struct column event_columns[] = {
    COLUMN("SEQ", "seq"),
    COLUMN("TIME", "time"),
    COLUMN("TYPE", "type"),
    COLUMN("SANDBOX", "sandbox_id"),
    COLUMN("FROM", "from", .state = true),
    COLUMN("TO", "to", .state = true),
    COLUMN("ACTOR", "actor.id", .most = 24),
    COLUMN("REASON", "reason", .most = 60),
};
const struct answer_kind kind_event = { "events", "seq", event_columns, COUNT_OF(event_columns) };

static const struct column process_columns[] = {
    COLUMN("PROCESS", "process"),
    COLUMN("PID", "pid"),
    COLUMN("STATE", "", .show = show_outcome),
    COLUMN("STARTED", "started_at", .show = show_age),
    COLUMN("COMMAND", "argv", .show = show_command, .most = 60),
};
const struct answer_kind kind_process = { "processes", "process", process_columns,
                                          COUNT_OF(process_columns) };

static const struct column stale_columns[] = {
    COLUMN("ID", "id"),
    COLUMN("EXTENSION", "extension"),
    COLUMN("WHAT", "what", .most = 60),
};
const struct answer_kind kind_stale = { "stale", "id", stale_columns, COUNT_OF(stale_columns) };

static const struct column workspace_change_columns[] = {
    COLUMN("ACTION", "action", .state = true),
    COLUMN("PATH", "path"),
    COLUMN("REASON", "reason", .most = 60),
};
const struct answer_kind kind_workspace_change = { "changes", "path", workspace_change_columns,
                                                   COUNT_OF(workspace_change_columns) };
