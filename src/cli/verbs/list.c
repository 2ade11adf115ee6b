/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/own.h"
#include "cli/follow.h"
#include "cli/redraw.h"
#include "cli/sandbox_pages.h"
#include "cli/terminal.h"
#include "cli/verbs/verbs.h"

struct list_options {
    struct common common;
    struct option_list states, labels;
    const char *profile, *limit;
    bool watch, names;
};

#define AT(member) .at = offsetof(struct list_options, member)

static const struct option_spec options[] = {
    { "state", 's', "STATE", "in this state; can be repeated; 'all' includes destroyed ones",
      .kind = OPTION_LIST, AT(states),
      .words =
          "all requested provisioning ready active paused expired failed destroying destroyed" },
    { "label", 'l', "KEY=VALUE", "with this label; can be repeated", .kind = OPTION_PAIRS,
      AT(labels) },
    { "profile", 'p', "PROFILE", "made from this profile", AT(profile),
      .complete = COMPLETE_PROFILE },
    { "limit", 0, "N", "so many at most", .kind = OPTION_COUNT, AT(limit), .least = 1 },
    { "names", 0, NULL, "print ids and names only, one a line", AT(names) },
    { "watch", 'w', NULL, "keep showing changes", AT(watch) },
};

static uint64_t list_limit(const struct list_options *o)
{
    uint64_t limit = 0;

    if (o->limit) /* checked by its kind */
        (void)str_to_u64(str_from(o->limit), &limit);
    return limit;
}

/* A line for each id, and one for each name. */
static int print_names(const struct api_call *c, const struct json *rows)
{
    for (const struct json *row = json_first(rows); row != json_end(rows); row++) {
        struct str name = show_string(row, "name");

        answer_print_text(show_string(row, "sandbox_id"));
        if (name.n)
            answer_print_text(name);
    }
    return answer_flush(c);
}

static int print_all(const struct verb *v, const struct list_options *o, bool redraws)
{
    const struct sandbox_filter filter = {
        .states = &o->states, .labels = &o->labels, .profile = o->profile, .limit = list_limit(o)
    };
    AUTO(sandbox_pages_done) struct sandbox_pages p;
    int status = sandbox_pages_fetch(&p, v, &o->common, &filter);

    if (status)
        return status;
    if (o->names)
        return print_names(sandbox_pages_call(&p), answer_rows(&p.answer, &kind_sandbox));
    return (redraws ? redraw_table : answer_list)(sandbox_pages_call(&p), &p.answer, &kind_sandbox);
}

static const struct column change_columns[] = {
    COLUMN("TIME", "time"),
    COLUMN("ID", "sandbox_id"),
    COLUMN("STATE", "to", .state = true),
    COLUMN("REASON", "reason"),
};
static const struct answer_kind change_kind = KIND("", "sandbox_id", change_columns);

/* Not for a terminal: a line for each change. */
static int print_changes(const struct api_call *c, const struct json *events)
{
    struct err e;

    for (const struct json *event = json_first(events); event != json_end(events); event++)
        if (show_at(event, "to") && answer_row(c, event, &change_kind, &e) < 0)
            return api_call_failed(c, &e);
    return answer_flush(c);
}

enum { REDRAW_WAIT_S = 2 }; /* a terminal of another size is noticed after so long */

static uint32_t terminal_area(void)
{
    uint16_t rows, columns;

    terminal_size(&rows, &columns);
    return (uint32_t)rows << 16 | columns;
}

/* The list of a terminal, again after each change and in each new size. */
static int redraw_list(const struct verb *v, const struct list_options *o, struct follow *f)
{
    uint32_t area = terminal_area(), now;
    int status = print_all(v, o, true);

    f->wait_s = REDRAW_WAIT_S;
    while (status == 0) {
        AUTO(api_call_done) struct api_call c;
        const struct json *events;

        status = follow_next(f, true, &c, &events);
        now = terminal_area();
        if (status == 0 && (now != area || json_first(events) != json_end(events)))
            status = print_all(v, o, true);
        area = now;
    }
    return status;
}

static int watch_list(const struct verb *v, const struct list_options *o)
{
    struct follow f = { .verb = v, .common = &o->common };
    bool redraws = redraw_available(&o->common) && !o->names;
    int status = follow_skip(&f);

    if (status == 0 && redraws)
        return redraw_list(v, o, &f);
    if (status == 0)
        status = print_all(v, o, false);
    while (status == 0) {
        AUTO(api_call_done) struct api_call c;
        const struct json *events;

        status = follow_next(&f, true, &c, &events);
        if (status == 0)
            status = print_changes(&c, events);
    }
    return status;
}

static int run_sandbox_list(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct list_options *o = options_;

    return o->watch ? watch_list(c->verb, o) : print_all(c->verb, o, false);
}

const struct verb verb_list = {
    .name = "list",
    .aliases = "ls",
    .summary = "list sandboxes",
    .text = "Without --state, all that are not destroyed. With --watch a terminal shows the list\n"
            "as it changes; otherwise the list is followed by a line for each change.\n"
            "\n"
            "  sandboxer list --state ready --label team=web\n"
            "  sandboxer destroy $(sandboxer list -q --profile profile.build)\n",
    OPTIONS(options, struct list_options),
    .run = run_sandbox_list,
    .flags = VERB_ASKS,
};
