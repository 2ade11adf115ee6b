#include <stdlib.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/follow.h"
#include "cli/row_stream.h"
#include "cli/verbs.h"

struct events_options {
    struct common common;
    bool follow;
    const char *after, *kind;
};

#define AT(member) .at = offsetof(struct events_options, member)

static const struct option_spec options[] = {
    { "follow", 'f', NULL, "go on with what happens from now on", .kind = OPTION_FLAG, AT(follow) },
    { "after", 0, "SEQ", "only events behind this sequence number", .kind = OPTION_COUNT,
      AT(after) },
    { "kind", 0, "KIND", "which ones: lifecycle, denied, allowed, egress; several with commas",
      .kind = OPTION_TEXT, AT(kind) },
};

/* A stream: a line or a document for each event, and titles once. */
static int print_event(const struct call *c, const struct json *event)
{
    struct look look = look_for(fileno(stdout));
    enum format format = common_format(c->common);
    struct err e;
    int r = format != FORMAT_TEXT
                ? tree_print(stdout, format, true, event, &e)
                : table_row(stdout, &look, event, kind_event.columns, kind_event.n, &e);

    return r < 0 ? call_failed(c, &e) : 0;
}

static int print_page(struct follow *f, bool *ret_any)
{
    AUTO(call_done) struct call c;
    const struct json *events;
    int status = follow_next(f, false, &c, &events);

    if (status)
        return status;
    *ret_any = json_first(events) != json_end(events);
    for (const struct json *e = json_first(events); e != json_end(events) && status == 0; e++)
        status = print_event(&c, e);
    return status ? status : answer_flush(&c);
}

static int print_pages(struct follow *f)
{
    bool any = true;
    int status = 0;

    while (status == 0 && any)
        status = print_page(f, &any);
    return status;
}

/* What happened and what happens, in one stream. */
static int print_stream(const struct follow *f, const char *after, const char *kind)
{
    AUTO(call_done) struct call c;

    call_init(&c, f->verb, f->common, "GET");
    if (f->sandbox)
        call_path(&c, "/v1/sandboxes/%s/events", f->sandbox);
    else
        call_path(&c, "/v1/events");
    call_query(&c, "after", after);
    call_query(&c, "kind", kind);
    call_field(&c, "Accept", "text/event-stream");
    return row_stream(&c, ROW_STREAM_SSE, kind_event.columns, kind_event.n);
}

static int run(const struct verb *v, int argc, char **argv)
{
    struct events_options o = { 0 };
    struct follow f = { .verb = v, .common = &o.common };
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    f.sandbox = argc ? argv[0] : NULL;
    f.after = o.after ? strtoll(o.after, NULL, 10) : 0;
    f.kind = o.kind;
    return o.follow ? print_stream(&f, o.after, o.kind) : print_pages(&f);
}

const struct verb verb_events = {
    .name = "events",
    .arguments = "[ID]",
    .summary = "show what happened, to one sandbox or to all",
    .text =
        "A line has sequence number, time, type, sandbox, the states before and after, who did\n"
        "it and why. With -o json it is one document a line.\n"
        "\n"
        "With -f, what egress denied is among them (egress.denied; its detail is the record),\n"
        "and with --kind egress what it allowed, too. What was decided before is in the log:\n"
        "sandboxer egress log ID.\n"
        "\n"
        "  sandboxer events -f\n"
        "  sandboxer events -f --kind denied -o json\n"
        "  sandboxer events sbx_4k7 --after 120 -o json\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run,
    .flags = VERB_REMOTE | VERB_FORMAT,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
