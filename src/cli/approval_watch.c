/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/approval_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/own.h"
#include "cli/approval_hook.h"
#include "cli/held_call.h"
#include "cli/lines.h"
#include "cli/terminal.h"
#include "lib/proc/signals.h"

enum {
    REQUEST_PATIENCE_S = 30,
    SILENCE_S = 45, /* of the stream, which has a heartbeat every 15 s */
    RETRY_FIRST_MS = 100,
    RETRY_MOST_MS = 5000,
    PROMPT_MAX = 200,
    TEXT_MAX = 64 << 10,
    END_OF_INPUT = 4, /* ^D */
};

/* A call that waits for a decision. */
struct watched_call {
    char id[ID_MAX];
    bool shown;    /* printed, without a terminal */
    bool skipped;  /* not asked about again */
    bool notified; /* the command has had it */
};

struct watch {
    const struct verb *verb;
    const struct common *common;
    struct approval_hook hook;

    struct api_call stream;
    bool connected, changed;
    struct lines lines;
    int64_t heard, retry_at, retry_ms;

    struct watched_call *calls; /* in the order of the list, oldest first */
    size_t n;

    bool interactive, input;
    struct table_style style;
    struct terminal terminal;
    char asked[ID_MAX]; /* the call on the screen; "": none */
    bool guarded;       /* keys count again after Enter */
    int signals;
    int status; /* -1: it continues */
};

static void finish_watch(struct watch *w, int status)
{
    if (w->status < 0)
        w->status = status;
}

/* --- the screen --- */

static bool is_dumb_terminal(void)
{
    const char *term = getenv("TERM");

    return !term || strcmp(term, "dumb") == 0;
}

static void clear_prompt(const struct watch *w)
{
    if (w->interactive)
        fputs(is_dumb_terminal() ? "\n" : "\r\033[K", stdout);
    fflush(stdout);
}

static size_t count_waiting(const struct watch *w)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n; i++)
        n += !w->calls[i].skipped && strcmp(w->calls[i].id, w->asked) != 0;
    return n;
}

/* One line at any width. */
static void draw_prompt(const struct watch *w)
{
    char text[PROMPT_MAX], more[40] = "";
    int room = (int)terminal_columns(STDOUT_FILENO) - 1;

    if (!w->interactive)
        return;
    if (count_waiting(w))
        snprintf(more, sizeof more, "  (%zu more)", count_waiting(w));
    if (!w->connected)
        snprintf(text, sizeof text, "the daemon is gone; waiting for it  q quit ");
    else if (!w->asked[0])
        snprintf(text, sizeof text, "waiting for held calls  q quit ");
    else if (w->guarded)
        snprintf(text, sizeof text, "Enter to decide on this one  q quit%s ", more);
    else
        snprintf(text, sizeof text,
                 "y approve  n reject  t approve for 10 minutes  s skip  q quit%s ", more);
    clear_prompt(w);
    printf("%.*s", room > 0 ? room : 0, text);
    fflush(stdout);
}

static void print_watch_line(const struct watch *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void print_watch_line(const struct watch *w, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    clear_prompt(w);
    answer_print_text(str_from(text));
}

/* --- the list --- */

static struct watched_call *find_watched_call(const struct watch *w, const char *id)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->calls[i].id, id) == 0)
            return &w->calls[i];
    return NULL;
}

/* The order of the list is the same each time, so one pass over the known calls finds them again. */
static void merge_list(struct watch *w, const struct json *rows)
{
    size_t most = (size_t)(json_end(rows) - json_first(rows)), n = 0, from = 0;
    struct watched_call *calls = new0_array(most + 1, sizeof *calls);

    for (const struct json *row = json_first(rows); row != json_end(rows); row++) {
        struct watched_call *c = &calls[n];
        size_t at = from;

        if (!str_eq(show_string(row, "state"), STR("pending")) ||
            !str_copy(show_string(row, "request_id"), c->id, sizeof c->id))
            continue;
        while (at < w->n && strcmp(w->calls[at].id, c->id) != 0)
            at++;
        if (at < w->n) {
            *c = w->calls[at];
            from = at + 1;
        }
        n++;
    }
    free(w->calls);
    w->calls = calls;
    w->n = n;
}

/* The call on the screen has ended by itself: a key that is on its way was meant for it. */
static void drop_asked_call(struct watch *w)
{
    AUTO(api_call_done) struct api_call c;
    struct str state = { NULL, 0 };

    clear_prompt(w);
    if (held_call_fetch(&c, w->verb, w->common, CONTACT_ONLY, w->asked) == 0)
        state = show_string(c.answer, "state");
    if (!state.n)
        state = STR("no longer held");
    print_watch_line(w, "%s is " STR_FMT, w->asked, STR_ARG(state));
    w->asked[0] = '\0';
    w->guarded = true;
}

static int read_held_list(struct watch *w)
{
    static const struct answer_kind kind = { "approvals", "request_id", NULL, 0 };
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, w->verb, w->common, "GET");
    c.start = CONTACT_ONLY;
    c.patience = REQUEST_PATIENCE_S * NS_PER_S;
    api_call_path(&c, "/v1/approvals");
    status = api_call_run(&c);
    if (status)
        return status;
    merge_list(w, answer_rows(c.answer, &kind));
    if (w->asked[0] && !find_watched_call(w, w->asked))
        drop_asked_call(w);
    return 0;
}

/* --- the stream --- */

static void drop_list_stream(struct watch *w)
{
    if (w->connected && !w->interactive && w->status < 0)
        cli_report("%s: the daemon is gone; waiting for it", w->verb->name);
    w->connected = false;
    w->retry_at = clock_mono() + w->retry_ms * NS_PER_MS;
    draw_prompt(w);
}

/* A status. `start`: the first connection may start a daemon. */
static int open_list_stream(struct watch *w, enum contact_start start)
{
    int status;

    lines_done(&w->lines);
    w->lines = LINES_INIT;
    api_call_done(&w->stream);
    api_call_init(&w->stream, w->verb, w->common, "GET");
    w->stream.start = start;
    w->stream.patience = SILENCE_S * NS_PER_S;
    api_call_path(&w->stream, "/v1/approvals");
    api_call_field(&w->stream, "Accept", "text/event-stream");
    status = api_call_open(&w->stream);
    w->connected = w->changed = status == 0;
    w->heard = clock_mono();
    return status;
}

/* Without messages: whether a daemon answers. */
static bool is_daemon_back(const struct watch *w)
{
    AUTO(api_call_done) struct api_call c;

    api_call_init(&c, w->verb, w->common, "GET");
    c.start = CONTACT_ONLY;
    c.patience = REQUEST_PATIENCE_S * NS_PER_S;
    api_call_path(&c, "/healthz");
    return api_call_answers(&c, NULL);
}

static void reconnect_stream(struct watch *w)
{
    int status;

    if (is_daemon_back(w)) {
        clear_prompt(w);
        status = open_list_stream(w, CONTACT_ONLY);
        if (status && status != EXIT_TOOL_FAILED) /* a token that has expired, for example */
            finish_watch(w, status);
    }
    if (!w->connected) {
        w->retry_ms = w->retry_ms * 2 < RETRY_MOST_MS ? w->retry_ms * 2 : RETRY_MOST_MS;
        w->retry_at = clock_mono() + w->retry_ms * NS_PER_MS;
    }
    draw_prompt(w);
}

/* Reads the messages that have arrived. */
static void read_list_stream(struct watch *w)
{
    struct str piece, line;
    int r = 1;

    while (w->connected && (r = http_client_try(&w->stream.client, &piece, NULL)) > 0) {
        w->heard = clock_mono();
        if (lines_feed(&w->lines, piece, NULL) < 0)
            break;
        while (lines_next(&w->lines, &line))
            w->changed |= str_starts(line, ANSWER_SSE);
    }
    if (w->connected && r != -(int)ERR_BUSY)
        drop_list_stream(w);
}

/* --- without a terminal --- */

static const struct column watch_columns[] = {
    COLUMN("ID", "request_id"),
    COLUMN("TOOL", "tool"),
    COLUMN("CALLER", "", .show = show_held_caller),
    COLUMN("SANDBOX", "sandbox_id"),
    COLUMN("TIER", "tier"),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("NETWORK", "", .show = show_wanted_network),
    COLUMN("ARGUMENTS", "args", .show = show_compact),
};
static const struct answer_kind watch_kind = KIND("approvals", "request_id", watch_columns);

/* The id may be that of a call that was decided since: it is still a call that came. */
static int print_watched_call(struct watch *w, const char *id)
{
    AUTO(api_call_done) struct api_call c;
    struct err e;
    int status = held_call_fetch(&c, w->verb, w->common, CONTACT_ONLY, id);

    if (status == EXIT_MISSING)
        return 0;
    if (status)
        return status;
    if (answer_row(&c, c.answer, &watch_kind, &e) < 0)
        finish_watch(w, api_call_failed(&c, &e));
    else if (answer_flush(&c) != 0)
        finish_watch(w, EXIT_TOOL_FAILED);
    return 0;
}

static int print_new_calls(struct watch *w)
{
    int status = 0;

    for (size_t i = 0; i < w->n && status == 0 && w->status < 0; i++) {
        if (w->calls[i].shown)
            continue;
        status = print_watched_call(w, w->calls[i].id);
        w->calls[i].shown = status == 0;
    }
    return status;
}

/* --- on a terminal --- */

static int show_watched_call(struct watch *w, struct watched_call *next)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    AUTO(api_call_done) struct api_call c;
    int status = held_call_fetch(&c, w->verb, w->common, CONTACT_ONLY, next->id);

    if (status == EXIT_MISSING)
        next->skipped = true;
    if (status)
        return status == EXIT_MISSING ? 0 : status;
    w->style.now = clock_wall();
    held_call_describe(c.answer, &w->style, terminal_columns(STDOUT_FILENO), &text);
    clear_prompt(w);
    tcflush(STDIN_FILENO, TCIFLUSH); /* keys from before it is there */
    printf("\n" STR_FMT, STR_ARG(buf_str(&text)));
    memcpy(w->asked, next->id, sizeof w->asked);
    return 0;
}

static int ask_about_next(struct watch *w)
{
    int status = 0;

    for (size_t i = 0; i < w->n && status == 0 && !w->asked[0]; i++)
        if (!w->calls[i].skipped)
            status = show_watched_call(w, &w->calls[i]);
    draw_prompt(w);
    return status;
}

static const struct {
    char key;
    struct held_decision decision;
    const char *done;
} decisions[] = {
    { 'y', { "approve", "approved in approvals watch", NULL }, "approved" },
    { 't', { "approve", "approved in approvals watch", "10m" }, "approved, for 10 minutes" },
    { 'n', { "reject", "rejected in approvals watch", NULL }, "rejected" },
};

/* A decision that is refused (the policy has changed, the call is decided, this caller may not)
 * leaves the question to the list: the call is shown and asked about again if it still waits. */
static void decide_asked_call(struct watch *w, size_t i)
{
    int status;

    clear_prompt(w);
    status = held_call_decide(w->verb, w->common, w->asked, &decisions[i].decision);
    if (status == 0)
        print_watch_line(w, "%s %s", w->asked, decisions[i].done);
    if (status == 0 && find_watched_call(w, w->asked))
        find_watched_call(w, w->asked)->skipped = true; /* also while the list still has it */
    w->asked[0] = '\0';
    w->changed = true;
}

static void take_watch_key(struct watch *w, char key)
{
    struct watched_call *asked = w->asked[0] ? find_watched_call(w, w->asked) : NULL;

    if (key == 'q' || key == END_OF_INPUT) {
        finish_watch(w, 0);
    } else if (w->guarded && (key == '\n' || key == '\r')) {
        w->guarded = false;
        draw_prompt(w);
    } else if (asked && !w->guarded && w->connected && key == 's') {
        asked->skipped = true;
        print_watch_line(w, "%s skipped; it is still held", w->asked);
        w->asked[0] = '\0';
        w->changed = true;
    } else if (asked && !w->guarded && w->connected) {
        for (size_t i = 0; i < COUNT_OF(decisions); i++)
            if (decisions[i].key == key)
                decide_asked_call(w, i);
    }
}

static void read_watch_input(struct watch *w)
{
    char bytes[64];
    ssize_t n = read(STDIN_FILENO, bytes, w->interactive ? 1 : sizeof bytes);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n > 0 && w->interactive)
        take_watch_key(w, bytes[0]);
    else if (n > 0)
        finish_watch(w, verb_misused(w->verb, "a decision needs a terminal; without one, use "
                                              "'sandboxer approvals approve ID'"));
    else if (w->interactive)
        finish_watch(w, 0);
    else
        w->input = false;
}

static void stop_on_terminal(struct watch *w)
{
    clear_prompt(w);
    terminal_restore(&w->terminal);
    raise(SIGSTOP);
    if (w->interactive)
        terminal_keys(&w->terminal);
    draw_prompt(w);
}

static void take_watch_signal(struct watch *w)
{
    struct signalfd_siginfo info;

    if (read(w->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    if (info.ssi_signo == SIGWINCH)
        draw_prompt(w);
    else if (info.ssi_signo == SIGTSTP)
        stop_on_terminal(w);
    else if (info.ssi_signo != SIGCHLD)
        finish_watch(w, EXIT_SIGNALLED + (int)info.ssi_signo);
}

/* --- the command --- */

static void run_hook_for(struct watch *w, struct watched_call *call)
{
    AUTO(api_call_done) struct api_call c;
    struct err e;
    int status = held_call_fetch(&c, w->verb, w->common, CONTACT_ONLY, call->id);

    call->notified = true;
    if (status == 0 && approval_hook_start(&w->hook, c.answer, &e) < 0)
        cli_report("%s: --exec: %s", w->verb->name, e.msg);
}

static void serve_hook(struct watch *w)
{
    struct err e;

    if (approval_hook_check(&w->hook, &e) < 0) {
        clear_prompt(w);
        cli_report("%s: %s", w->verb->name, e.msg);
        draw_prompt(w);
    }
    for (size_t i = 0; i < w->n && w->connected && approval_hook_is_free(&w->hook); i++)
        if (!w->calls[i].notified)
            run_hook_for(w, &w->calls[i]);
}

/* --- the loop --- */

/* Reads the list, if it may have changed, and shows it. */
static void follow_list(struct watch *w)
{
    int status;

    if (!w->changed || !w->connected)
        return;
    w->changed = false;
    status = read_held_list(w);
    if (status == 0)
        status = w->interactive ? ask_about_next(w) : print_new_calls(w);
    if (status == 0)
        w->retry_ms = RETRY_FIRST_MS;
    else if (status == EXIT_TOOL_FAILED || status == EXIT_BUSY)
        drop_list_stream(w);
    else
        finish_watch(w, status);
}

static int64_t next_watch_deadline(const struct watch *w)
{
    int64_t at = w->connected ? w->heard + SILENCE_S * NS_PER_S : w->retry_at;

    return w->hook.pid && w->hook.deadline < at ? w->hook.deadline : at;
}

static void wait_for_watch(struct watch *w)
{
    struct pollfd waits[] = {
        { .fd = w->connected ? w->stream.client.fd : -1, .events = POLLIN },
        { .fd = w->input ? STDIN_FILENO : -1, .events = POLLIN },
        { .fd = w->signals, .events = POLLIN },
        { .fd = w->interactive ? -1 : STDOUT_FILENO }, /* its reader may go */
    };

    if (poll(waits, COUNT_OF(waits), clock_poll_ms(next_watch_deadline(w))) < 0)
        return;
    if (waits[2].revents)
        take_watch_signal(w);
    if (waits[1].revents && w->status < 0)
        read_watch_input(w);
    if (waits[3].revents & (POLLERR | POLLHUP))
        finish_watch(w, EXIT_SIGNALLED + SIGPIPE);
    if (w->connected && clock_mono() >= w->heard + SILENCE_S * NS_PER_S)
        drop_list_stream(w);
    else if (!w->connected && clock_mono() >= w->retry_at)
        reconnect_stream(w);
}

static int prepare_watch(struct watch *w)
{
    static const int list[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH, SIGCHLD };
    struct err e;
    int status = open_list_stream(w, CONTACT_MAY_START);

    if (status)
        return status;
    w->interactive = common_format(w->common) == FORMAT_TEXT && isatty(STDIN_FILENO) == 1 &&
                     isatty(STDOUT_FILENO) == 1;
    /* the shell's terminal is not ours to read while we only print */
    w->input = w->interactive || isatty(STDIN_FILENO) != 1;
    w->style = table_style_for(STDOUT_FILENO);
    w->signals = signals_open(list, COUNT_OF(list), &e);
    if (w->signals < 0)
        return api_call_failed(&w->stream, &e);
    if (w->interactive)
        terminal_keys(&w->terminal);
    return 0;
}

int approval_watch(const struct verb *v, const struct common *common, const char *command)
{
    struct watch w = { .verb = v,
                       .common = common,
                       .hook = { .command = command },
                       .lines = LINES_INIT,
                       .retry_ms = RETRY_FIRST_MS,
                       .signals = -1,
                       .status = -1 };
    int status;

    api_call_init(&w.stream, v, common, "GET");
    status = prepare_watch(&w);
    if (status)
        finish_watch(&w, status);
    while (w.status < 0) {
        read_list_stream(&w);
        follow_list(&w);
        serve_hook(&w);
        if (w.status < 0)
            wait_for_watch(&w);
    }
    clear_prompt(&w);
    terminal_restore(&w.terminal);
    approval_hook_done(&w.hook);
    lines_done(&w.lines);
    api_call_done(&w.stream);
    free(w.calls);
    drop_fd(&w.signals);
    return w.status;
}
