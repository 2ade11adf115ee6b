/* SPDX-License-Identifier: Apache-2.0 */
/* Shows and changes the egress policy of a daemon's sandbox, and lists its connection attempts. */
#include <stdio.h>
#include <time.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/row_stream.h"
#include "cli/text_file.h"
#include "cli/verbs/verbs.h"
#include "lib/json/reader.h"

static const struct column columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("GENERATION", "generation"),
    COLUMN("IN FORCE", "in_force"),
    COLUMN("PROBLEM", "problem", .alone = true),
    COLUMN("ENDPOINTS", "endpoints"),
    COLUMN("ALLOWED", "allowed"),
    COLUMN("DENIED", "denied"),
    COLUMN("SENT", "bytes_out", .show = show_bytes),
    COLUMN("RECEIVED", "bytes_in", .show = show_bytes),
    COLUMN("CEILING", "ceiling.reach", .alone = true),
    COLUMN("SET BY", "ceiling.from", .alone = true),
    COLUMN("POLICY", "policy", .alone = true, .block = true),
};
static const struct answer_kind kind = { "egress", "generation", columns, COUNT_OF(columns) };

static int run_egress_get(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = {
        .method = "GET", .before = "/v1/sandboxes/", .after = "/egress", .kind = &kind
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_egress_get = {
    .name = "egress get",
    .arguments = "ID",
    .summary = "show the egress policy and traffic of a sandbox",
    .text = "  sandboxer egress get sbx_4k7\n"
            "  sandboxer egress get sbx_4k7 -o yaml\n",
    .run = run_egress_get,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};

static int run_egress_set(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(api_call_done) struct api_call c;
    AUTO(buf_done) struct buf generation = BUF_INIT(32);
    struct err e;
    int status;

    api_call_init(&c, v, &common, "PUT");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    if (text_file_read(argv[1], &c.body, &e) < 0)
        return api_call_failed(&c, &e);
    api_call_path(&c, "/v1/sandboxes/%s/egress", argv[0]);
    api_call_field(&c, "Content-Type", "application/yaml");
    status = api_call_run(&c);
    if (status)
        return status;
    show_text(show_at(c.answer, "generation"), 0, &generation);
    return answer_done(&c, c.answer, "%s: generation " STR_FMT " of its policy", argv[0],
                       STR_ARG(buf_str(&generation)));
}

const struct verb verb_egress_set = {
    .name = "egress set",
    .arguments = "ID FILE",
    .summary = "give a sandbox another egress policy, at once",
    .text = "The new policy replaces the old one as a whole; an invalid policy changes nothing.\n"
            "Connections that the new policy does not allow are closed. '-' is stdin.\n"
            "\n"
            "  sandboxer egress set sbx_4k7 policy.yaml\n",
    .run = run_egress_set,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 2,
    .max_arguments = 2,
    .complete = COMPLETE_SANDBOX_OR_FILE,
};

/* --- what was tried --- */

/* Milliseconds since 1970, as events have their time. */
static void show_event_time(const struct json *v, int64_t now, struct buf *out)
{
    char text[32];
    struct tm tm;
    time_t s;

    if (!v || v->type != JSON_INT || v->i < 0)
        return;
    s = (time_t)(v->i / 1000);
    if (gmtime_r(&s, &tm) && strftime(text, sizeof text, "%FT%T", &tm))
        buf_addf(out, "%s.%03dZ", text, (int)(v->i % 1000));
}

static const struct column log_columns[] = {
    COLUMN("TIME", "time", .show = show_event_time),
    COLUMN("ACTION", "action"),
    COLUMN("ACTIVITY", "activity_name"),
    COLUMN("HOST", "dst_endpoint.hostname", .most = 48),
    COLUMN("ADDRESS", "dst_endpoint.ip"),
    COLUMN("PORT", "dst_endpoint.port"),
    COLUMN("CODE", "status_code"),
    COLUMN("COUNT", "count"),
    COLUMN("PROGRAM", "actor.process.file.path", .most = 40),
    COLUMN("MESSAGE", "message", .most = 80),
};

struct log_options {
    struct common common;
    bool follow;
    const char *tail;
};

static const struct option_spec log_options[] = {
    { "follow", 'f', NULL, "follow new decisions", .kind = OPTION_FLAG,
      .at = offsetof(struct log_options, follow) },
    { "tail", 'n', "LINES", "only the last decisions", .kind = OPTION_COUNT,
      .at = offsetof(struct log_options, tail) },
};

static int run_log(const struct verb *v, int argc, char **argv)
{
    struct log_options o = { 0 };
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, &o.common, "GET");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    api_call_path(&c, "/v1/sandboxes/%s/egress/log", argv[0]);
    api_call_query(&c, "follow", o.follow ? "true" : NULL);
    api_call_query(&c, "tail", o.tail);
    return row_stream(&c, STR(""), log_columns, COUNT_OF(log_columns));
}

const struct verb verb_egress_log = {
    .name = "egress log",
    .arguments = "ID",
    .summary = "show the egress decisions of a sandbox",
    .text = "A line has time, action, destination, reason, count and program. With -o json it is "
            "the\n"
            "whole event (OCSF), one per line.\n"
            "\n"
            "  sandboxer egress log -f sbx_4k7\n"
            "  sandboxer egress log sbx_4k7 -o json | jq 'select(.action_id == 2)'\n",
    .options = log_options,
    .n_options = COUNT_OF(log_options),
    .run = run_log,
    .flags = VERB_REMOTE | VERB_FORMAT,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};

static const struct column denial_columns[] = {
    COLUMN("COUNT", "count"),
    COLUMN("HOST", "host", .most = 48),
    COLUMN("PORT", "port"),
    COLUMN("CODE", "code"),
    COLUMN("PROGRAM", "program", .most = 40),
    COLUMN("LAST", "last_at", .show = show_age),
    COLUMN("MESSAGE", "message", .most = 80),
};
static const struct answer_kind denials = { "denials", "host", denial_columns,
                                            COUNT_OF(denial_columns) };

static int run_denials(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "GET",
                                          .before = "/v1/sandboxes/",
                                          .after = "/egress/denials",
                                          .kind = &denials,
                                          .list = true };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_egress_denials = {
    .name = "egress denials",
    .arguments = "ID",
    .summary = "show recent egress denials of a sandbox, with reasons",
    .text = "Each destination once, the newest first, with the number of denials.\n"
            "\n"
            "  sandboxer egress denials sbx_4k7\n",
    .run = run_denials,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
