/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/follow.h"
#include "cli/verbs/verbs.h"
#include "lib/json/build.h"

enum { ROWS_MEMORY = 256 << 20 };

struct list_options {
    struct common common;
    struct option_list states, labels;
    const char *profile;
    bool watch;
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
    { "watch", 'w', NULL, "keep showing changes", AT(watch) },
};

static int fetch_page(struct api_call *c, const struct verb *v, const struct list_options *o,
                      const char *cursor)
{
    api_call_init(c, v, &o->common, "GET");
    api_call_path(c, "/v1/sandboxes");
    for (size_t i = 0; i < o->states.n; i++)
        api_call_query(c, "state", o->states.p[i]);
    for (size_t i = 0; i < o->labels.n; i++)
        api_call_query(c, "label", o->labels.p[i]);
    api_call_query(c, "profile", o->profile);
    api_call_query(c, "limit", "1000");
    api_call_query(c, "cursor", cursor);
    return api_call_run(c);
}

/* All pages as one answer: {"sandboxes":[…]}. Each page keeps the memory of its rows. */
struct pages {
    struct page {
        struct api_call call;
        struct page *before;
    } * last;
    struct arena arena;
    struct json_build rows;
    struct json list, answer;
};

static void pages_done(struct pages *p)
{
    while (p->last) {
        struct page *page = p->last;

        p->last = page->before;
        api_call_done(&page->call);
        free(page);
    }
    json_build_done(&p->rows);
    arena_done(&p->arena);
}

/* *cursor becomes that of the next page, or NULL. */
static int add_page(struct pages *p, const struct verb *v, const struct list_options *o,
                    const char **cursor)
{
    struct page *page = new0(sizeof *page);
    struct api_call *c = &page->call;
    const struct json *rows;
    int status;

    page->before = p->last;
    p->last = page;
    status = fetch_page(c, v, o, *cursor);
    if (status)
        return status;
    rows = answer_rows(c->answer, &kind_sandbox);
    for (const struct json *row = json_first(rows); row != json_end(rows); row++)
        if (json_build_push(&p->rows, row) < 0)
            return verb_failed(v, "the list is too long");
    *cursor = json_first(rows) == json_end(rows) ? NULL : show_string(c->answer, "next").p;
    return 0;
}

static int fetch_pages(struct pages *p, const struct verb *v, const struct list_options *o)
{
    const char *cursor = NULL;
    int status;

    do
        status = add_page(p, v, o, &cursor);
    while (status == 0 && cursor);
    if (status)
        return status;
    if (json_build_close(&p->rows, 0, &p->list) < 0)
        return verb_failed(v, "the list is too long");
    p->list.type = JSON_ARRAY;
    p->list.key = str_from(kind_sandbox.rows);
    p->answer = (struct json){ .type = JSON_OBJECT, .list = { &p->list, 1 } };
    return 0;
}

static int print_all(const struct verb *v, const struct list_options *o, bool clear)
{
    AUTO(pages_done) struct pages p = { .arena = ARENA_INIT(ROWS_MEMORY) };
    int status;

    json_build_init(&p.rows, &p.arena);
    status = fetch_pages(&p, v, o);
    if (status)
        return status;
    if (clear)
        fputs("\033[H\033[2J", stdout);
    return answer_list(&p.last->call, &p.answer, &kind_sandbox);
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

static int watch_list(const struct verb *v, const struct list_options *o)
{
    struct follow f = { .verb = v, .common = &o->common };
    bool redraw = isatty(STDOUT_FILENO) == 1 && common_format(&o->common) == FORMAT_TEXT;
    int status = follow_skip(&f);

    if (status == 0)
        status = print_all(v, o, redraw);
    while (status == 0) {
        AUTO(api_call_done) struct api_call c;
        const struct json *events;

        status = follow_next(&f, true, &c, &events);
        if (status == 0)
            status = redraw ? print_all(v, o, true) : print_changes(&c, events);
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
