/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "cli/follow.h"
#include "cli/verbs/verbs.h"

struct events_options {
    struct common common;
    bool follow;
    const char *after, *kind, *tail, *since, *until, *type, *sandbox;
};

#define AT(member) .at = offsetof(struct events_options, member)

static const struct option_spec options[] = {
    { "follow", 'f', NULL, "follow new events", AT(follow) },
    { "tail", 'n', "N", "begin with the last N events, 1 to 1000", .kind = OPTION_COUNT, AT(tail),
      .least = 1, .most = FOLLOW_PAGE },
    { "since", 0, "WHEN", "begin this long ago (10m, 2h), or at a time: 2026-01-02T03:04:05Z",
      AT(since) },
    { "until", 0, "WHEN", "end this long ago, or at a time", AT(until) },
    { "after", 0, "SEQ", "only events behind this sequence number", .kind = OPTION_COUNT,
      AT(after) },
    { "type", 0, "TYPE", "only events of this type, such as sandbox.ready", AT(type) },
    { "sandbox", 0, "ID", "of this sandbox, as the argument", AT(sandbox),
      .complete = COMPLETE_SANDBOX },
    { "kind", 0, "KIND", "which ones: lifecycle, commands, denied, allowed, egress; with commas",
      AT(kind) },
};

/* A line or a document for each event; titles before the first page. */
static int print_page(struct follow *f, bool first, bool *ret_any)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *events;
    struct err e;
    int status = follow_next(f, false, &c, &events);

    if (status)
        return status;
    if (first)
        answer_titles(&c, &kind_event);
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

    follow_request(f, f->kind, &c);
    api_call_field(&c, "Accept", "text/event-stream");
    return answer_stream(&c, ANSWER_SSE, answer_print_row, &kind_event);
}

/* Where to begin; a status. */
static int find_begin(struct follow *f, const struct events_options *o)
{
    if (o->after && (o->tail || o->since))
        return verb_misused(f->verb, "--after excludes --tail and --since");
    if (o->after)
        f->after = strtoll(o->after, NULL, 10);
    if (o->tail)
        return follow_skip_to_last(f, (int)strtol(o->tail, NULL, 10));
    return o->follow && !o->after && !o->since ? follow_skip(f) : 0;
}

/* Egress decisions have no events: they are only streamed. */
static bool names_decisions(const char *kind)
{
    return kind && (strstr(kind, "denied") || strstr(kind, "allowed") || strstr(kind, "egress"));
}

static int run_events(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct events_options *o = options_;
    struct follow f = { .verb = c->verb,
                        .common = c->common,
                        .sandbox = argc ? argv[0] : o->sandbox,
                        .kind = o->kind,
                        .type = o->type,
                        .since = o->since,
                        .until = o->until };
    bool any = true;
    int status;

    if (argc && o->sandbox)
        return verb_misused(c->verb, "name the sandbox once");
    if (o->follow && o->until)
        return verb_misused(c->verb, "--follow and --until exclude each other");
    if (!o->follow && names_decisions(o->kind))
        return verb_misused(c->verb,
                            "--kind %s shows egress decisions as they are made, and needs "
                            "--follow; earlier ones: sandboxer egress log ID",
                            o->kind);
    status = find_begin(&f, o);
    if (status == 0 && o->follow)
        return print_event_stream(&f);
    for (bool first = true; status == 0 && any; first = false)
        status = print_page(&f, first, &any);
    return status;
}

const struct verb verb_events = {
    .name = "events",
    ARGUMENTS("[ID]", 0, 1, COMPLETE_SANDBOX),
    .summary = "show the events of one sandbox or of all",
    .text = "A line has time, type, sandbox and reason, and on a wide terminal more: as many\n"
            "columns as fit. With -o json it is one document a line.\n"
            "\n"
            "With -f it begins now, unless -n, --since or --after say where; without, with the\n"
            "oldest. They include denials of egress from then on (egress.denied; its detail is\n"
            "the record), and with --kind egress its grants, too. Earlier decisions are in the\n"
            "log: sandboxer egress log ID.\n"
            "\n"
            "  sandboxer events -f\n"
            "  sandboxer events -f -n 20\n"
            "  sandboxer events --since 1h --until 10m\n"
            "  sandboxer events --since 1h -n 20\n"
            "  sandboxer events --type sandbox.oom --sandbox web\n"
            "  sandboxer events -f --kind denied -o json\n"
            "  sandboxer events sbx_4k7 --after 120 -o json\n",
    OPTIONS(options, struct events_options),
    .run = run_events,
    .flags = VERB_REMOTE | VERB_FORMAT,
};
