/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, keys and signals of the live view; cli/top.h has the view itself. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/units.h"
#include "cli/held_call.h"
#include "cli/feed.h"
#include "cli/follow.h"
#include "cli/keys.h"
#include "cli/lines.h"
#include "cli/screen.h"
#include "cli/top.h"
#include "cli/verbs/verbs.h"

struct top_options {
    struct common common;
    const char *interval, *sort;
};

#define AT(member) .at = offsetof(struct top_options, member)

static const struct option_spec options[] = {
    { "interval", 0, "DURATION", "pause between two samples (default: 2s)", .kind = OPTION_DURATION,
      AT(interval) },
    { "sort", 0, "ORDER", "begin sorted by cpu, memory, name or age", AT(sort),
      .words = "cpu memory name age" },
};
static const struct top_options defaults = { .interval = "2s", .sort = "cpu" };

#define FRESH_NS (250 * NS_PER_MS)
#define HISTORY  "10m" /* denials that are shown at the start */

enum { FEED_SANDBOXES, FEED_APPROVALS, FEED_EVENTS, FEED_ACTION, FEEDS };
enum { POLL_KEYS = FEEDS, POLL_SIGNALS, POLLS };

struct top_session {
    const struct api_call *like;
    struct top view;
    struct screen screen;
    struct feed feeds[FEEDS];
    struct lines lines;                         /* of the events */
    int64_t after;                              /* the last event that was seen */
    int64_t interval, refreshed_at, refresh_at; /* clock_mono() */
    char acting[TOP_ID_MAX + 32];               /* the request of FEED_ACTION, in words */
    bool shows_answer;                          /* it is asked for the details of an approval */
    bool dirty, quit;
};

/* --- requests --- */

__attribute__((format(printf, 2, 3))) static void set_message(struct top_session *s,
                                                              const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(s->view.message, sizeof s->view.message, fmt, ap);
    va_end(ap);
    s->dirty = true;
}

static struct api_call *make_sandboxes_call(const struct api_call *like)
{
    static const char *const states[] = { "ready", "active", "paused" };
    struct api_call *c = feed_call(like, "GET");
    char limit[8];

    snprintf(limit, sizeof limit, "%d", TOP_ROWS_MAX);
    api_call_path(c, "/v1/sandboxes");
    for (size_t i = 0; i < COUNT_OF(states); i++)
        api_call_query(c, "state", states[i]);
    api_call_query(c, "limit", limit);
    api_call_query(c, "usage", "true");
    return c;
}

static struct api_call *make_approvals_call(const struct api_call *like)
{
    struct api_call *c = feed_call(like, "GET");

    api_call_path(c, "/v1/approvals");
    return c;
}

static void send_feed(struct top_session *s, int feed, struct api_call *c)
{
    struct err e;

    if (feed_send(&s->feeds[feed], c, &e) < 0)
        set_message(s, "%s", e.msg);
}

static struct api_call *make_events_call(struct top_session *s)
{
    char after[24];
    struct api_call *c = feed_call(s->like, "GET");

    snprintf(after, sizeof after, "%lld", (long long)s->after);
    api_call_path(c, "/v1/events");
    api_call_query(c, "kind", "lifecycle,denied");
    api_call_query(c, "after", after);
    api_call_query(c, "since", s->view.n_denials ? "1s" : HISTORY);
    api_call_field(c, "Accept", "text/event-stream");
    return c;
}

static void refresh_feeds(struct top_session *s)
{
    s->refreshed_at = clock_mono();
    s->refresh_at = s->refreshed_at + s->interval;
    if (!s->feeds[FEED_SANDBOXES].busy)
        send_feed(s, FEED_SANDBOXES, make_sandboxes_call(s->like));
    if (!s->feeds[FEED_APPROVALS].busy)
        send_feed(s, FEED_APPROVALS, make_approvals_call(s->like));
    if (!s->feeds[FEED_EVENTS].busy)
        send_feed(s, FEED_EVENTS, make_events_call(s));
}

/* --- answers --- */

static void read_rows(struct top_session *s, int feed, enum top_pane pane, const char *member)
{
    const struct json *rows;
    struct err e;

    if (feed_read(&s->feeds[feed], &e) < 0) {
        set_message(s, "%s", e.msg);
        return;
    }
    rows = show_at(s->feeds[feed].last->answer, member);
    top_set_rows(&s->view, pane, rows ? rows : &(const struct json){ .type = JSON_ARRAY });
    s->dirty = true;
}

/* Soon, but at most as often as there are new samples. */
static void hasten_refresh(struct top_session *s)
{
    int64_t soon = s->refreshed_at + FRESH_NS;

    if (soon < s->refresh_at)
        s->refresh_at = soon;
}

static void read_event(struct top_session *s, struct str line)
{
    if (str_starts(line, STR("id: "))) {
        struct str id = { line.p + 4, line.n - 4 }, seq;

        (void)str_cut(id, '.', &seq);
        (void)str_to_i64(seq, &s->after);
    } else if (str_starts(line, ANSWER_SSE)) {
        struct str event = { line.p + ANSWER_SSE.n, line.n - ANSWER_SSE.n };

        if (top_add_denial(&s->view, event))
            s->dirty = true;
        else
            hasten_refresh(s); /* a sandbox has changed */
    }
}

static void read_events(struct top_session *s)
{
    struct feed *f = &s->feeds[FEED_EVENTS];
    struct str piece, line;
    struct err e;
    int r;

    while ((r = feed_read_stream(f, &piece, &e)) > 0) {
        r = lines_feed(&s->lines, piece, &e);
        while (r >= 0 && lines_next(&s->lines, &line))
            read_event(s, line);
        if (r < 0)
            break;
    }
    if (r >= 0)
        return;
    feed_drop(f);
    lines_done(&s->lines);
    s->lines = LINES_INIT;
}

static void read_action_answer(struct top_session *s)
{
    struct feed *f = &s->feeds[FEED_ACTION];
    struct err e;

    if (feed_read(f, &e) < 0) {
        set_message(s, "%s: %s", s->acting, e.msg);
    } else if (s->shows_answer) {
        s->view.details = f->last->answer;
        s->view.mode = TOP_DETAILS;
        s->view.message[0] = '\0';
        s->dirty = true;
    } else {
        set_message(s, "%s: done", s->acting);
    }
    hasten_refresh(s);
}

static void read_feed(struct top_session *s, int feed)
{
    switch (feed) {
    case FEED_SANDBOXES:
        read_rows(s, feed, TOP_SANDBOXES, "sandboxes");
        break;
    case FEED_APPROVALS:
        read_rows(s, feed, TOP_APPROVALS, "approvals");
        break;
    case FEED_EVENTS:
        read_events(s);
        break;
    default:
        read_action_answer(s);
    }
}

/* --- actions --- */

/* The id of the selected row of that pane; NULL, after a message, without a selection. */
static const char *find_target(struct top_session *s, enum top_pane pane, const char *missing)
{
    if (s->view.pane == pane && top_selected(&s->view))
        return s->view.panes[pane].selected;
    set_message(s, "%s", missing);
    return NULL;
}

static const char *find_sandbox(struct top_session *s)
{
    return find_target(s, TOP_SANDBOXES, "select a sandbox first (Tab)");
}

static void start_action(struct top_session *s, const char *words, const char *id,
                         struct api_call *c)
{
    if (s->feeds[FEED_ACTION].busy) {
        api_call_done(c);
        free(c);
        set_message(s, "%s is still under way", s->acting);
        return;
    }
    c->patience = 0; /* a destroy may sync a workspace first */
    snprintf(s->acting, sizeof s->acting, "%s %s", words, id);
    s->shows_answer = false;
    set_message(s, "%s …", s->acting);
    send_feed(s, FEED_ACTION, c);
}

static void key_up(struct top_session *s)
{
    top_select(&s->view, -1);
}

static void key_down(struct top_session *s)
{
    top_select(&s->view, 1);
}

static void key_tab(struct top_session *s)
{
    if (!s->view.panes[TOP_APPROVALS].n)
        set_message(s, "no approval is waiting");
    top_switch_pane(&s->view);
}

static void key_details(struct top_session *s)
{
    const struct json *row = top_selected(&s->view);
    struct api_call *c;

    if (!row)
        return;
    s->view.details = NULL;
    if (s->view.pane == TOP_SANDBOXES) {
        s->view.mode = TOP_DETAILS;
        return;
    }
    c = feed_call(s->like, "GET");
    api_call_path(c, "/v1/approvals/%s", s->view.panes[TOP_APPROVALS].selected);
    start_action(s, "show", s->view.panes[TOP_APPROVALS].selected, c);
    s->shows_answer = true;
}

static void key_destroy(struct top_session *s)
{
    const char *id = find_sandbox(s);

    if (!id)
        return;
    s->view.mode = TOP_CONFIRM;
    set_message(s, "destroy %s? y or n", id);
}

/* Changes of a workspace that cannot be synced back are left for `sandboxer destroy`, which lists
 * them. */
static void destroy_selected(struct top_session *s)
{
    const char *id = find_sandbox(s);
    struct api_call *c;

    if (!id)
        return;
    c = feed_call(s->like, "DELETE");
    api_call_path(c, "/v1/sandboxes/%s", id);
    api_call_query(c, "sync", "yes");
    api_call_query(c, "unsynced", "refuse");
    start_action(s, "destroy", id, c);
}

static void key_pause(struct top_session *s)
{
    const char *id = find_sandbox(s);
    bool paused;
    struct api_call *c;

    if (!id)
        return;
    paused = str_eq(show_string(top_selected(&s->view), "state"), STR("paused"));
    c = feed_call(s->like, "POST");
    api_call_path(c, paused ? "/v1/sandboxes/%s/resume" : "/v1/sandboxes/%s/pause", id);
    start_action(s, paused ? "resume" : "pause", id, c);
}

static void decide_selected(struct top_session *s, bool approve)
{
    const char *id =
        find_target(s, TOP_APPROVALS, "select an approval first (Tab, if one is waiting)");
    const struct held_decision d = { .how = approve ? "approve" : "reject",
                                     .reason = "decided by hand" };
    struct api_call *c;

    if (!id)
        return;
    c = feed_call(s->like, "POST");
    if (held_call_prepare(c, id, &d))
        set_message(s, "SANDBOXER_MASTER is not a valid token");
    start_action(s, approve ? "approve" : "reject", id, c);
}

static void key_yes(struct top_session *s)
{
    decide_selected(s, true);
}

static void key_no(struct top_session *s)
{
    if (s->view.pane == TOP_APPROVALS)
        decide_selected(s, false);
    else
        top_set_sort(&s->view, TOP_BY_NAME);
}

static void key_cpu(struct top_session *s)
{
    top_set_sort(&s->view, TOP_BY_CPU);
}

static void key_memory(struct top_session *s)
{
    top_set_sort(&s->view, TOP_BY_MEMORY);
}

static void key_age(struct top_session *s)
{
    top_set_sort(&s->view, TOP_BY_AGE);
}

static void key_help(struct top_session *s)
{
    s->view.mode = TOP_HELP;
}

static void key_quit(struct top_session *s)
{
    s->quit = true;
}

static void key_stop(struct top_session *s)
{
    screen_stop(&s->screen);
}

enum { CONTROL_C = 3, CONTROL_L = 12, CONTROL_Z = 26 };

static const struct {
    int key;
    void (*act)(struct top_session *s);
} keys[] = {
    { KEY_UP, key_up },   { 'k', key_up },         { KEY_DOWN, key_down },
    { 'j', key_down },    { KEY_TAB, key_tab },    { KEY_ENTER, key_details },
    { 'g', key_details }, { 'x', key_destroy },    { 'p', key_pause },
    { 'y', key_yes },     { 'n', key_no },         { 'c', key_cpu },
    { 'm', key_memory },  { 'a', key_age },        { '?', key_help },
    { 'q', key_quit },    { CONTROL_C, key_quit }, { CONTROL_Z, key_stop },
};

static void press_key(struct top_session *s, int key)
{
    enum top_mode mode = s->view.mode;

    s->view.message[0] = '\0';
    s->view.mode = TOP_TABLES;
    s->dirty = true;
    if (key == CONTROL_L)
        s->screen.all = true;
    if (mode == TOP_CONFIRM && (key == 'y' || key == 'Y'))
        destroy_selected(s);
    if (mode != TOP_TABLES && key != CONTROL_C && key != CONTROL_Z)
        return;
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (keys[i].key == key)
            keys[i].act(s);
}

static void read_keys(struct top_session *s)
{
    char bytes[256];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    struct str rest = { bytes, n > 0 ? (size_t)n : 0 };

    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) /* the terminal is gone */
        s->quit = true;
    while (rest.n && !s->quit)
        press_key(s, keys_next(&rest));
}

/* --- the loop --- */

static void draw_view(struct top_session *s)
{
    AUTO(frame_done) struct frame f;
    uint16_t rows, columns;

    terminal_size(&rows, &columns);
    frame_init(&f, rows, columns);
    top_draw(&s->view, clock_wall(), &f);
    screen_draw(&s->screen, &f);
    s->dirty = false;
}

static void wait_for_keys(struct top_session *s)
{
    struct pollfd fds[POLLS];

    for (int i = 0; i < FEEDS; i++)
        feed_poll(&s->feeds[i], &fds[i]);
    fds[POLL_KEYS] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
    fds[POLL_SIGNALS] = (struct pollfd){ .fd = s->screen.signals, .events = POLLIN };
    if (poll(fds, POLLS, clock_poll_ms(s->refresh_at)) < 0)
        return;
    if (fds[POLL_SIGNALS].revents && screen_signal(&s->screen))
        s->dirty = true;
    if (fds[POLL_KEYS].revents)
        read_keys(s);
    for (int i = 0; i < FEEDS && !s->quit; i++)
        if (fds[i].revents && s->feeds[i].busy && s->feeds[i].busy->contact.fd == fds[i].fd)
            read_feed(s, i);
}

static int watch_top(struct top_session *s)
{
    struct err e;

    if (screen_open(&s->screen, &e) < 0)
        return verb_failed(s->like->verb, "%s", e.msg);
    s->dirty = true;
    while (!s->quit) {
        if (clock_mono() >= s->refresh_at)
            refresh_feeds(s);
        if (s->dirty)
            draw_view(s);
        wait_for_keys(s);
    }
    screen_close(&s->screen);
    return 0;
}

/* --- without a terminal --- */

/* Callers without the right to see approvals have none to decide. */
static const struct json *find_approvals(struct feed *f, const struct api_call *like)
{
    static const struct json none = { .type = JSON_ARRAY };
    const struct json *rows = NULL;

    if (feed_send(f, make_approvals_call(like), NULL) >= 0 && feed_read(f, NULL) >= 0)
        rows = show_at(f->last->answer, "approvals");
    return rows ? rows : &none;
}

static int print_frame(struct top_session *s)
{
    const struct api_call *like = s->like;
    const struct top_rows *r = &s->view.panes[TOP_SANDBOXES];
    struct json members[2] = { { .type = JSON_ARRAY } };
    struct json tree = { .type = JSON_OBJECT, .list = { members, COUNT_OF(members) } };
    struct err e;

    if (feed_send(&s->feeds[FEED_SANDBOXES], make_sandboxes_call(like), &e) < 0 ||
        feed_read(&s->feeds[FEED_SANDBOXES], &e) < 0)
        return api_call_failed(like, &e);
    top_set_rows(&s->view, TOP_SANDBOXES,
                 answer_rows(s->feeds[FEED_SANDBOXES].last->answer, &kind_sandbox_stats));
    members[1] = *find_approvals(&s->feeds[FEED_APPROVALS], like);
    members[0].list.p = r->rows;
    members[0].list.n = r->n;
    members[0].key = STR("sandboxes");
    members[1].key = STR("approvals");
    return answer_list(like, &tree, &kind_sandbox_stats);
}

static void set_first_order(struct top_session *s, const char *word)
{
    for (int i = 0; i < TOP_SORTS_; i++)
        if (strcmp(top_sorts[i], word) == 0)
            top_set_sort(&s->view, (enum top_sort)i);
}

static int run_top(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct top_options *o = options_;
    struct top_session *s = new0(sizeof *s);
    struct follow now = { .verb = c->verb, .common = c->common };
    int status = follow_skip(&now); /* also starts the daemon */

    s->like = c;
    s->after = now.after;
    s->lines = LINES_INIT;
    top_init(&s->view);
    set_first_order(s, o->sort);
    (void)units_duration(str_from(o->interval), "--interval", &s->interval, NULL); /* its kind */
    if (status == 0)
        status = screen_available() && common_format(c->common) == FORMAT_TEXT ? watch_top(s)
                                                                               : print_frame(s);
    for (int i = 0; i < FEEDS; i++)
        feed_done(&s->feeds[i]);
    lines_done(&s->lines);
    top_done(&s->view);
    free(s);
    return status;
}

const struct verb verb_top = {
    .name = "top",
    .summary = "watch sandboxes, egress denials and approvals, and act on them",
    .text =
        "On a terminal: the sandboxes that run or are paused with their use, the latest\n"
        "connections that egress denied, and the calls that wait for an approval; '?' shows\n"
        "the keys, which destroy, pause, approve and reject. Elsewhere, and with -o, it prints\n"
        "the sandboxes once; -o json has the waiting approvals, too.\n"
        "\n"
        "  sandboxer top\n"
        "  sandboxer top --sort memory --interval 5s\n"
        "  sandboxer top -o json | jq '.approvals[].request_id'\n",
    OPTIONS(options, struct top_options),
    .defaults = &defaults,
    .run = run_top,
    .flags = VERB_REMOTE | VERB_FORMAT,
};
