/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/units.h"
#include "base/rfc3339.h"
#include "cli/follow.h"
#include "cli/verbs/verbs.h"

struct events_options {
    struct common common;
    bool follow;
    const char *after, *kind, *tail, *since;
};

#define AT(member) .at = offsetof(struct events_options, member)

static const struct option_spec options[] = {
    { "follow", 'f', NULL, "follow new events", AT(follow) },
    { "tail", 'n', "N", "begin with the last N events, 1 to 1000", .kind = OPTION_COUNT, AT(tail),
      .least = 1, .most = FOLLOW_PAGE },
    { "since", 0, "WHEN", "begin this long ago (10m, 2h), or at a time: 2026-01-02T03:04:05Z",
      AT(since) },
    { "after", 0, "SEQ", "only events behind this sequence number", .kind = OPTION_COUNT,
      AT(after) },
    { "kind", 0, "KIND", "which ones: lifecycle, denied, allowed, egress; several with commas",
      AT(kind) },
};

/* A stream: a line or a document for each event, without titles. */
static int print_page(struct follow *f, bool *ret_any)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *events;
    struct err e;
    int status = follow_next(f, false, &c, &events);

    if (status)
        return status;
    *ret_any = json_first(events) != json_end(events);
    for (const struct json *event = json_first(events); event != json_end(events); event++)
        if (answer_row(&c, event, &kind_event, &e) < 0)
            return api_call_failed(&c, &e);
    return answer_flush(&c);
}

/* Past and future events in one stream. */
static int print_event_stream(const struct follow *f)
{
    AUTO(api_call_done) struct api_call c;
    char after[24];

    snprintf(after, sizeof after, "%lld", (long long)f->after);
    api_call_init(&c, f->verb, f->common, "GET");
    if (f->sandbox)
        api_call_path(&c, "/v1/sandboxes/%s/events", f->sandbox);
    else
        api_call_path(&c, "/v1/events");
    api_call_query(&c, "after", after);
    api_call_query(&c, "kind", f->kind);
    api_call_field(&c, "Accept", "text/event-stream");
    return answer_stream(&c, ANSWER_SSE, answer_print_row, &kind_event);
}

/* A duration before now, or a time. */
static int parse_since_option(const char *text, int64_t *ret, struct err *e)
{
    int64_t ago;

    if (rfc3339_parse(str_from(text), ret))
        return 0;
    if (units_duration(str_from(option_duration(text)), "--since", &ago, NULL) < 0)
        return err_set(e, ERR_INVALID,
                       "--since: '%s' is neither a duration (10m, 2h) nor a time "
                       "(2026-01-02T03:04:05Z)",
                       text);
    *ret = clock_wall() - ago;
    return 0;
}

/* Where to begin; a status. */
static int find_begin(struct follow *f, const struct events_options *o)
{
    int64_t since;
    struct err e;

    if (!!o->after + !!o->tail + !!o->since > 1)
        return verb_misused(f->verb, "--after, --tail and --since exclude each other");
    if (o->after)
        f->after = strtoll(o->after, NULL, 10);
    if (o->tail)
        return follow_skip_to_last(f, (int)strtol(o->tail, NULL, 10));
    if (o->since)
        return parse_since_option(o->since, &since, &e) < 0 ? verb_misused(f->verb, "%s", e.msg)
                                                            : follow_skip_to_time(f, since);
    return o->follow && !o->after ? follow_skip(f) : 0;
}

static int run_events(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct events_options *o = options_;
    struct follow f = { .verb = c->verb, .common = c->common, .sandbox = argv[0], .kind = o->kind };
    bool any = true;
    int status = find_begin(&f, o);

    if (status == 0 && o->follow)
        return print_event_stream(&f);
    while (status == 0 && any)
        status = print_page(&f, &any);
    return status;
}

const struct verb verb_events = {
    .name = "events",
    ARGUMENTS("[ID]", 0, 1, COMPLETE_SANDBOX),
    .summary = "show the events of one sandbox or of all",
    .text = "A line has sequence number, time, type, sandbox, the states before and after, who\n"
            "did it and why. With -o json it is one document a line.\n"
            "\n"
            "With -f it begins now, unless -n, --since or --after say where; without, with the\n"
            "oldest. What egress denies from then on is among them (egress.denied; its detail is\n"
            "the record), and with --kind egress what it allows, too. What was decided before is\n"
            "in the log: sandboxer egress log ID.\n"
            "\n"
            "  sandboxer events -f\n"
            "  sandboxer events -f -n 20\n"
            "  sandboxer events --since 10m\n"
            "  sandboxer events -f --kind denied -o json\n"
            "  sandboxer events sbx_4k7 --after 120 -o json\n",
    OPTIONS(options, struct events_options),
    .run = run_events,
    .flags = VERB_REMOTE | VERB_FORMAT,
};
