/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/redraw.h"
#include "cli/sandbox_pages.h"
#include "cli/verbs/verbs.h"

enum { FRAME_MAX = 256 << 10 }; /* bytes of a table that is written at once */

struct stats_options {
    struct common common;
    struct option_list labels;
    const char *profile, *limit, *interval;
    bool watch;
};

#define AT(member) .at = offsetof(struct stats_options, member)

static const struct option_spec options[] = {
    { "watch", 'w', NULL, "show it again and again", AT(watch) },
    { "interval", 0, "DURATION", "pause between two samples with --watch (default: 2s)",
      .kind = OPTION_DURATION, AT(interval) },
    { "label", 'l', "KEY=VALUE", "of sandboxes with this label; can be repeated",
      .kind = OPTION_PAIRS, AT(labels) },
    { "profile", 'p', "PROFILE", "of sandboxes made from this profile", AT(profile),
      .complete = COMPLETE_PROFILE },
    { "limit", 0, "N", "so many at most", .kind = OPTION_COUNT, AT(limit), .least = 1 },
};
static const struct stats_options defaults = { .interval = "2s" };

/* Programs can run in these, or are frozen. */
static const struct option_list running = { .p = { "ready", "active", "paused" }, .n = 3 };

static int print_stats_document(const struct sandbox_pages *p, const struct common *common)
{
    const struct api_call *c = sandbox_pages_call(p);
    struct err e;

    return tree_print(stdout, common_format(common), true, &p->answer, &e) < 0
               ? api_call_failed(c, &e)
               : answer_flush(c);
}

static int fetch_stats(struct sandbox_pages *p, const struct api_call *like,
                       const struct stats_options *o, int argc, char **argv)
{
    struct sandbox_filter filter = {
        .states = &running, .labels = &o->labels, .profile = o->profile, .usage = true
    };

    if (o->limit) /* checked by its kind */
        (void)str_to_u64(str_from(o->limit), &filter.limit);
    return argc ? sandbox_pages_fetch_named(p, like->verb, like->common, &filter, argv, argc)
                : sandbox_pages_fetch(p, like->verb, like->common, &filter);
}

static int print_stats(const struct api_call *like, const struct stats_options *o, int argc,
                       char **argv, bool redraws)
{
    AUTO(sandbox_pages_done) struct sandbox_pages p;
    int status = fetch_stats(&p, like, o, argc, argv);

    if (status)
        return status;
    if (o->watch && common_format(like->common) != FORMAT_TEXT)
        return print_stats_document(&p, like->common);
    return (redraws ? redraw_table : answer_list)(sandbox_pages_call(&p), &p.answer,
                                                  &kind_sandbox_stats);
}

static int run_stats(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct stats_options *o = options_;
    bool redraws = o->watch && redraw_available(&o->common);
    int64_t interval = 0;
    int status;

    if (redraws)
        setvbuf(stdout, NULL, _IOFBF, FRAME_MAX);

    (void)units_duration(str_from(o->interval), "--interval", &interval, NULL); /* by its kind */
    do
        status = print_stats(c, o, argc, argv, redraws);
    while (status == 0 && o->watch && poll(NULL, 0, clock_poll_ms(clock_mono() + interval)) == 0);
    return status;
}

const struct verb verb_stats = {
    .name = "stats",
    ARGUMENTS("[ID…]", 0, ARGUMENTS_ANY, COMPLETE_SANDBOX),
    .summary = "show the limits and the use of sandboxes",
    .text = "Processors since the sample before (100% is one of them), memory, disk, processes,\n"
            "bytes through the egress proxy, and the time since it was ready; behind the slash is\n"
            "the limit. Without an id, of all that run or are paused; these are measured a few at\n"
            "a time. With -w a terminal shows the table as it changes, and with -o each sample is\n"
            "a document.\n"
            "\n"
            "  sandboxer stats\n"
            "  sandboxer stats -w --interval 5s web\n"
            "  sandboxer stats -o json | jq '.sandboxes[].usage.memory_bytes'\n",
    OPTIONS(options, struct stats_options),
    .defaults = &defaults,
    .run = run_stats,
    .flags = VERB_ASKS,
};
