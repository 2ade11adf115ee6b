/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/answer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/own.h"
#include "cli/lines.h"
#include "cli/show_sandbox.h"
#include "lib/json/reader.h"

static const struct json nothing = { .type = JSON_OBJECT };

const struct json *answer_rows(const struct json *tree, const struct answer_kind *k)
{
    const struct json *rows = tree && tree->type == JSON_ARRAY ? tree : show_at(tree, k->rows);

    return rows && rows->type == JSON_ARRAY ? rows : &nothing;
}

void answer_print_text(struct str s)
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
    answer_print_text(buf_str(&text));
}

int answer_flush(const struct api_call *c)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return verb_failed(c->verb, "writing to stdout: %s", strerror(errno));
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
        answer_print_text(str_from(text));
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

int answer_print_row(const void *user, const struct json *row, struct err *e)
{
    const struct answer_kind *k = user;
    struct table_style style = table_style_for(fileno(stdout));

    return table_row(stdout, &style, row, k->columns, k->n, e);
}

void answer_titles(const struct api_call *c, const struct answer_kind *k)
{
    struct table_style style = table_style_for(fileno(stdout));

    if (common_format(c->common) == FORMAT_TEXT)
        table_titles(stdout, &style, k->columns, k->n);
}

int answer_row(const struct api_call *c, const struct json *row, const struct answer_kind *k,
               struct err *e)
{
    enum format format = common_format(c->common);

    return format == FORMAT_TEXT ? answer_print_row(k, row, e)
                                 : tree_print(stdout, format, true, row, e);
}

/* The line's memory is released at once: the stream may never end. */
static int print_stream_line(const struct api_call *c, struct str line, answer_row_fn *print,
                             const void *user, struct err *e)
{
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)8 * LINES_MAX);
    const struct json_limits limits = { .bytes = LINES_MAX, .depth = 16 };
    enum format format = common_format(c->common);
    const struct json *row;
    int r = json_read(line, limits, &a, &row, e);

    if (r < 0)
        return err_wrap(e, r, "the daemon's answer");
    r = format == FORMAT_TEXT ? print(user, row, e) : tree_print(stdout, format, true, row, e);
    return r < 0 || fflush(stdout) == 0 ? r : err_sys(e, "writing to stdout");
}

int answer_stream(struct api_call *c, struct str prefix, answer_row_fn *print, const void *user)
{
    AUTO(lines_done) struct lines lines = LINES_INIT;
    struct str piece, line;
    struct err e;
    int status = api_call_open(c);

    if (status == 0 && print == answer_print_row)
        answer_titles(c, user);
    while (status == 0 && api_call_next(c, &piece, &status) > 0) {
        int r = lines_feed(&lines, piece, &e);

        while (r >= 0 && lines_next(&lines, &line))
            if (str_starts(line, prefix))
                r = print_stream_line(c, (struct str){ line.p + prefix.n, line.n - prefix.n },
                                      print, user, &e);
        if (r < 0)
            return api_call_failed(c, &e);
    }
    return status;
}

static const struct column sandbox_columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("NAME", "name", .most = 32),
    COLUMN("STATE", "state", .state = true),
    COLUMN("PROFILE", "profile", .most = 32),
    COLUMN("HOST", "host", .most = 20, .wide = 120),
    COLUMN("OWNER", "owner", .most = 20, .alone = true),
    COLUMN("SCOPE", "scope", .alone = true),
    COLUMN("CREATED", "created_at", .show = show_age, .wide = 90),
    COLUMN("READY", "ready_at", .show = show_age, .alone = true),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("TTL ENDS", "ttl_expires_at", .show = show_until, .alone = true),
    COLUMN("TTL", "ttl", .show = show_seconds, .alone = true),
    COLUMN("TTL MAX", "ttl_max", .show = show_seconds, .alone = true),
    COLUMN("IDLE REAP", "idle_reap", .show = show_seconds, .alone = true),
    COLUMN("LABELS", "labels", .most = 40, .wide = 100),
    COLUMN("LIMITS", "limits", .show = show_limits, .alone = true),
    COLUMN("USED", "usage", .show = show_usage, .alone = true),
    COLUMN("IMAGE", "image", .alone = true),
    COLUMN("SNAPSHOT", "snapshot_id", .alone = true),
    COLUMN("INPUTS", "inputs", .alone = true),
    COLUMN("WORKSPACE", "", .show = show_workspace, .alone = true),
    COLUMN("MOUNTS", "", .show = show_mounts, .alone = true),
    COLUMN("CONSUMER", "consumer", .alone = true),
    COLUMN("CAPABILITIES", "capabilities", .alone = true),
    COLUMN("REACHABLE", "reachability.url", .alone = true),
    COLUMN("STEP", "step", .alone = true),
    COLUMN("REASON", "reason", .alone = true),
    COLUMN("NOTES", "notes", .alone = true),
    COLUMN("OOM KILLS", "oom_kills", .alone = true),
    COLUMN("LAST OOM", "last_oom_at", .alone = true, .show = show_age),
    COLUMN("EGRESS", "", .show = show_egress, .alone = true),
    COLUMN("NO EGRESS", "egress.problem", .alone = true),
    COLUMN("ACTUALS", "actuals", .alone = true, .block = true),
};
const struct answer_kind kind_sandbox = KIND("sandboxes", "sandbox_id", sandbox_columns);

static const struct column stats_columns[] = {
    COLUMN("SANDBOX", "", .show = show_name, .most = 24),
    COLUMN("STATE", "state", .state = true, .wide = 110),
    COLUMN("CPU", "usage.cpu", .show = show_percent),
    COLUMN("MEMORY", "", .show = show_memory_use),
    COLUMN("DISK", "", .show = show_disk_use, .wide = 100),
    COLUMN("PIDS", "", .show = show_process_use),
    COLUMN("SENT", "egress.bytes_out", .show = show_bytes),
    COLUMN("RECEIVED", "egress.bytes_in", .show = show_bytes, .wide = 90),
    COLUMN("DENIED", "egress.denied", .wide = 110),
    COLUMN("UP", "ready_at", .show = show_since),
};
const struct answer_kind kind_sandbox_stats = KIND("sandboxes", "sandbox_id", stats_columns);

/* After a change: the sandbox, its end if it is not used, restrictions that the caller did not ask
 * for, and the next command. */
static const struct column changed_columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("NAME", "name"),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("NOTES", "notes"),
    COLUMN("NO EGRESS", "egress.problem"),
    COLUMN("NEXT", "", .show = show_next_command),
};
const struct answer_kind kind_sandbox_changed = KIND("sandboxes", "sandbox_id", changed_columns);

static const struct column event_columns[] = {
    COLUMN("SEQ", "seq", .width = 7, .wide = 100),
    COLUMN("TIME", "time", .show = show_moment, .width = 20),
    COLUMN("TYPE", "type", .width = 20),
    COLUMN("SANDBOX", "sandbox_id", .width = 24),
    COLUMN("FROM", "from", .state = true, .width = 12, .wide = 140),
    COLUMN("TO", "to", .state = true, .width = 12, .wide = 140),
    COLUMN("ACTOR", "actor.id", .width = 16, .wide = 120),
    COLUMN("REASON", "reason", .width = 24),
};
const struct answer_kind kind_event = KIND("events", "seq", event_columns);

static const struct column process_columns[] = {
    COLUMN("PROCESS", "process"),
    COLUMN("PID", "pid"),
    COLUMN("STATE", "", .show = show_outcome),
    COLUMN("STARTED", "started_at", .show = show_age),
    COLUMN("COMMAND", "argv", .show = show_command, .most = 60),
};
const struct answer_kind kind_process = KIND("processes", "process", process_columns);

static const struct column stale_columns[] = {
    COLUMN("ID", "id"),
    COLUMN("EXTENSION", "extension"),
    COLUMN("WHAT", "what", .most = 60),
};
const struct answer_kind kind_stale = KIND("stale", "id", stale_columns);

static const struct column workspace_change_columns[] = {
    COLUMN("ACTION", "action", .state = true),
    COLUMN("PATH", "path"),
    COLUMN("REASON", "reason", .most = 60),
};
const struct answer_kind kind_workspace_change = KIND("changes", "path", workspace_change_columns);
