/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/ending.h"
#include "cli/lines.h"
#include "cli/run/run_record.h"
#include "cli/stream.h"
#include "cli/terminal.h"
#include "base/io.h"
#include "lib/json/reader.h"
#include "lib/proc/signals.h"

enum { FORCE_AFTER_SIGNALS = 3, MESSAGE_MAX = 1 << 20, INPUT_PIECE = 4096, EVENT_MAX = 64 << 10 };
enum { CHANNEL_STDIN, CHANNEL_STDOUT, CHANNEL_STDERR };

struct remote {
    struct api_call call;
    const char *sandbox;
    bool websocket;
    bool tty;
    bool input; /* WebSocket: our stdin goes there, and has not ended */
    struct stream streams[STREAMS];
    int master; /* of a terminal that was handed over; owned by streams[STREAM_OUT] */
    struct lines lines;
    struct terminal terminal;
    int signals, n_signals;
    uint64_t process; /* 0 until it started */
    bool ended;       /* status is final */
    int status;
    int64_t timeout_ns; /* as it was asked for; 0: not by us */
    bool timed_out, quiet;
    struct ending_memory memory;
    struct run_record *record; /* of its connections; NULL: no network, or a sandbox of another
                                  run */
};

static void remote_init(struct remote *r, const struct verb *v, const struct common *common,
                        const char *sandbox, bool tty)
{
    *r = (struct remote){ .sandbox = sandbox,
                          .tty = tty,
                          .lines = LINES_INIT,
                          .master = -1,
                          .signals = -1,
                          .status = EXIT_TOOL_FAILED };
    api_call_init(&r->call, v, common, "POST");
    for (int i = 0; i < STREAMS; i++)
        stream_init(&r->streams[i], -1, -1, false, NULL);
}

static void remote_done(struct remote *r)
{
    terminal_restore(&r->terminal);
    for (int i = 0; i < STREAMS; i++)
        stream_close(&r->streams[i]);
    lines_done(&r->lines);
    drop_fd(&r->signals);
    api_call_done(&r->call);
}

static void end_remote(struct remote *r, int status)
{
    r->ended = true;
    r->status = status;
    stream_close(&r->streams[STREAM_IN]);
    r->input = false;
}

static void fail_remote(struct remote *r, const struct err *e)
{
    terminal_restore(&r->terminal);
    end_remote(r, api_call_failed(&r->call, e));
}

/* --- Messages of the daemon --- */

int remote_status(const struct json *exited)
{
    int64_t code = show_int(exited, "exit_code", -1);
    struct str signal = show_string(exited, "signal");

    if (show_true(exited, "timed_out"))
        return EXIT_TIMED_OUT;
    if (signal.n)
        return EXIT_SIGNALLED + signal_number(signal);
    return code >= 0 && code <= 255 ? (int)code : EXIT_TOOL_FAILED;
}

static void receive_exit(struct remote *r, const struct json *event)
{
    uint64_t kills = show_count(event, "oom_kills");

    end_remote(r, remote_status(event));
    r->timed_out = show_true(event, "timed_out");
    r->memory = (struct ending_memory){ .kills = kills > UINT32_MAX ? UINT32_MAX : (uint32_t)kills,
                                        .limit = show_count(event, "memory_limit"),
                                        .killed = r->status == EXIT_SIGNALLED + SIGKILL ||
                                                  show_true(event, "lost") };
}

static void receive_problem(struct remote *r, const struct json *event)
{
    char words[768];
    int status = problem_describe(r->call.verb, event, 500, words, sizeof words);

    terminal_restore(&r->terminal);
    cli_report("%s: %s", r->call.verb->name, words);
    end_remote(r, status);
}

static void receive_event(struct remote *r, struct str text)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(16 * EVENT_MAX);
    struct json_limits limits = { .bytes = EVENT_MAX, .depth = 16 };
    const struct json *event;
    struct err e;
    struct str name;

    if (json_read(text, limits, &a, &event, &e) < 0) {
        fail_remote(r, &e);
        return;
    }
    name = show_string(event, "event");
    if (str_eq(name, STR("started"))) {
        r->process = show_count(event, "process.process");
        if (r->record)
            str_copy(show_string(event, "sandbox_id"), r->record->sandbox, ID_MAX);
    } else if (str_eq(name, STR("exited"))) {
        receive_exit(r, event);
    } else if (str_eq(name, STR("error"))) {
        receive_problem(r, event);
    }
}

static void report_lost_connection(struct remote *r, struct err *e)
{
    (void)err_set(e, ERR_UPSTREAM,
                  "the connection to the daemon was lost; the process's exit status is unknown");
    fail_remote(r, e);
}

/* The descriptors' way: a line for each event. */
static void receive_event_lines(struct remote *r)
{
    struct str piece, line;
    struct err e;
    int got = http_client_read(&r->call.client, &piece, &e);

    if (got > 0)
        got = lines_feed(&r->lines, piece, &e) < 0 ? -1 : 1;
    if (got == 0)
        report_lost_connection(r, &e);
    else if (got < 0)
        fail_remote(r, &e);
    while (!r->ended && lines_next(&r->lines, &line))
        receive_event(r, line);
}

static void receive_output(struct remote *r, struct str data)
{
    struct err e;
    int fd = data.n && data.p[0] == CHANNEL_STDERR ? STDERR_FILENO : STDOUT_FILENO;

    if (data.n > 1 && write_all(fd, (struct str){ data.p + 1, data.n - 1 }, &e) < 0 &&
        e.sys != EPIPE)
        fail_remote(r, &e);
}

static void receive_websocket_messages(struct remote *r)
{
    struct frame_message m;
    struct err e;

    do {
        int got = http_client_ws_read(&r->call.client, &m, &e);

        if (got < 0)
            fail_remote(r, &e);
        else if (got == 0)
            report_lost_connection(r, &e);
        else if (m.op == FRAME_BINARY)
            receive_output(r, m.data);
        else
            receive_event(r, m.data);
    } while (!r->ended && http_client_pending(&r->call.client));
}

/* --- Messages to the daemon --- */

static void send_websocket_text(struct remote *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void send_websocket_text(struct remote *r, const char *fmt, ...)
{
    char text[128];
    struct err e;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (http_client_ws_send(&r->call.client, FRAME_TEXT, str_from(text), &e) < 0)
        fail_remote(r, &e);
}

/* Small pieces, and only when there is room: a daemon that waits for us to read must not find us
 * waiting for it to read. */
static void send_stdin_piece(struct remote *r)
{
    struct pollfd out = { .fd = r->call.client.fd, .events = POLLOUT };
    char piece[1 + INPUT_PIECE];
    struct err e;
    ssize_t n;

    if (poll(&out, 1, 0) != 1 || !(out.revents & POLLOUT))
        return;
    n = read(STDIN_FILENO, piece + 1, INPUT_PIECE);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        r->input = false;
        send_websocket_text(r, "{\"op\":\"close_stdin\"}");
        return;
    }
    piece[0] = CHANNEL_STDIN;
    if (http_client_ws_send(&r->call.client, FRAME_BINARY, (struct str){ piece, (size_t)n + 1 },
                            &e) < 0)
        fail_remote(r, &e);
}

static void pass_signal_to_process(struct remote *r, int sig)
{
    char line[64];

    if (++r->n_signals >= FORCE_AFTER_SIGNALS || !r->process) {
        end_remote(r, EXIT_SIGNALLED + sig);
        for (int i = 0; i < STREAMS; i++)
            stream_close(&r->streams[i]);
        return;
    }
    snprintf(line, sizeof line, "{\"op\":\"signal\",\"signal\":\"%s\"}\n", signal_name(sig));
    if (r->websocket)
        send_websocket_text(r, "%.*s", (int)strcspn(line, "\n"), line);
    else /* errors are ignored: the third signal ends this process anyway */
        write_all(r->call.client.fd, str_from(line), NULL);
}

static void resize_remote_terminal(struct remote *r)
{
    uint16_t rows, cols;

    if (r->tty && r->websocket) {
        terminal_size(&rows, &cols);
        send_websocket_text(r, "{\"op\":\"resize\",\"rows\":%u,\"cols\":%u}", rows, cols);
    } else if (r->tty && r->master >= 0) {
        terminal_resize(r->master);
    }
}

static void receive_remote_signal(struct remote *r)
{
    struct signalfd_siginfo info;

    if (read(r->signals, &info, sizeof info) != (ssize_t)sizeof info || r->ended)
        return;
    if (info.ssi_signo == SIGWINCH)
        resize_remote_terminal(r);
    else
        pass_signal_to_process(r, (int)info.ssi_signo);
}

/* --- The loop --- */

/* After the process has ended, an output is finished unless unread or unwritten bytes remain. Other
 * processes that hold the pipe's other end are not waited for. */
static bool is_stream_drained(const struct stream *s)
{
    struct pollfd in = { .fd = s->from, .events = POLLIN };

    return !stream_open(s) || (s->n == 0 && !s->wait_out && poll(&in, 1, 0) == 0);
}

static void run_remote_loop(struct remote *r)
{
    enum { CONNECTION, SIGNALS, INPUT, FIRST_STREAM, WAITS = FIRST_STREAM + STREAMS };
    struct pollfd waits[WAITS];
    bool pending;

    while (!r->ended || !is_stream_drained(&r->streams[STREAM_OUT]) ||
           !is_stream_drained(&r->streams[STREAM_ERR])) {
        waits[CONNECTION] =
            (struct pollfd){ .fd = r->ended ? -1 : r->call.client.fd, .events = POLLIN };
        waits[SIGNALS] = (struct pollfd){ .fd = r->signals, .events = POLLIN };
        waits[INPUT] = (struct pollfd){ .fd = r->input ? STDIN_FILENO : -1, .events = POLLIN };
        for (int i = 0; i < STREAMS; i++)
            stream_poll(&r->streams[i], &waits[FIRST_STREAM + i]);
        pending = !r->ended && http_client_pending(&r->call.client);
        while (poll(waits, WAITS, pending ? 0 : -1) < 0 && errno == EINTR)
            ;
        for (int i = 0; i < STREAMS; i++)
            if (waits[FIRST_STREAM + i].revents)
                stream_move(&r->streams[i]);
        if ((pending || waits[CONNECTION].revents) && !r->ended)
            (r->websocket ? receive_websocket_messages : receive_event_lines)(r);
        if (waits[INPUT].revents && r->input)
            send_stdin_piece(r);
        if (waits[SIGNALS].revents)
            receive_remote_signal(r);
    }
}

static int finish_remote(struct remote *r)
{
    static const int list[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
    struct err e;

    r->signals = signals_open(list, COUNT_OF(list), &e);
    if (r->signals < 0)
        return api_call_failed(&r->call, &e);
    if (r->tty && isatty(STDIN_FILENO) == 1)
        terminal_raw(&r->terminal);
    run_remote_loop(r);
    terminal_restore(&r->terminal);
    if (streams_lost(r->streams, r->call.verb->name) && r->status == 0)
        r->status = EXIT_TOOL_FAILED; /* even if the process succeeded */
    if (r->timed_out)
        ending_timed_out(r->timeout_ns);
    if (r->record && run_record_end(r->record, r->call.verb, r->quiet) < 0 && r->status == 0)
        r->status = EXIT_TOOL_FAILED;
    ending_memory(&r->memory, r->quiet);
    return r->status;
}

/* --- Beginning --- */

/* Splits variables; the last one of a name counts. */
static int split_variables(const char *const *env, size_t n, struct arena *a, struct json_map *ret,
                           struct err *e)
{
    struct json_pair *pairs = arena_array(a, n, sizeof *pairs);
    size_t count = 0;

    for (size_t i = 0; pairs && i < n; i++) {
        struct str name, value = str_cut(str_from(env[i]), '=', &name);
        const char *key = arena_dup(a, name);
        size_t at = 0;

        if (!key)
            return err_set(e, ERR_TOO_BIG,
                           "the environment variables need more than %zu bytes; pass fewer of them",
                           a->max);
        while (at < count && strcmp(pairs[at].key, key) != 0)
            at++;
        pairs[at] = (struct json_pair){ key, value.p };
        count += at == count;
    }
    *ret = (struct json_map){ pairs, count };
    return pairs ? 0
                 : err_set(e, ERR_TOO_BIG,
                           "%zu environment variables need more than %zu bytes; pass fewer of "
                           "them",
                           n, a->max);
}

int remote_fill_request(struct process_request *ret, char *const *argv, const char *const *env,
                        size_t n, bool tty, struct arena *a, struct err *e)
{
    *ret = run_request_default.process;
    ret->argv.p = (const char *const *)argv;
    while (argv[ret->argv.n])
        ret->argv.n++;
    ret->tty = tty;
    if (tty)
        terminal_size(&ret->rows, &ret->cols);
    return n ? split_variables(env, n, a, &ret->env, e) : 0;
}

void remote_write_request(struct json_writer *w, const struct process_request *q)
{
    json_unbind_changed(q, &run_request_default, process_request_fields,
                        process_request_field_count, w);
}

/* The descriptors that came with the daemon's answer: [stdin] stdout stderr, or the terminal. */
static int take_process_descriptors(struct remote *r, bool stdin_)
{
    int fds[HTTP_CLIENT_FDS_MAX], expected = r->tty ? 1 : stdin_ ? 3 : 2;
    size_t n;
    struct err e;

    if (http_client_await_fds(&r->call.client, &e) < 0)
        return api_call_failed(&r->call, &e);
    n = http_client_take_fds(&r->call.client, fds, COUNT_OF(fds));
    for (size_t i = 0; i < n; i++)
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
    if (!streams_connect(r->streams, fds, n, r->tty, stdin_)) {
        for (size_t i = 0; i < n; i++)
            close(fds[i]);
        (void)err_set(&e, ERR_UPSTREAM, "the daemon sent %zu descriptors, not %d", n, expected);
        return api_call_failed(&r->call, &e);
    }
    if (r->tty)
        r->master = r->streams[STREAM_OUT].from;
    return 0;
}

/* Requests the process's own descriptors, with the body that was written: 0 with the answer's head,
 * or a status. */
static int request_with_descriptors(struct remote *r, struct err *e)
{
    struct http_client_request q;
    int status;

    api_call_field(&r->call, "Connection", "Upgrade");
    api_call_field(&r->call, "Upgrade", "sandboxer-stdio");
    status = api_call_request(&r->call, &q);
    if (status)
        return status;
    if (http_client_send(&r->call.client, &q, e) < 0 ||
        http_client_head(&r->call.client, &r->call.head, e) < 0)
        return EXIT_TOOL_FAILED;
    return 0;
}

static int begin_stdio(struct remote *r, const struct process_request *q)
{
    struct err e = { 0 };
    int status;

    api_call_path(&r->call, "/v1/sandboxes/%s/processes", r->sandbox);
    remote_write_request(api_call_json(&r->call), q);
    status = request_with_descriptors(r, &e);
    if (status)
        return e.code ? api_call_failed(&r->call, &e) : status;
    if (r->call.head->status >= 400)
        return api_call_problem(&r->call);
    if (r->call.head->status != 101) {
        (void)err_set(&e, ERR_UPSTREAM,
                      "the daemon answered %d instead of passing the process's descriptors",
                      r->call.head->status);
        return api_call_failed(&r->call, &e);
    }
    return take_process_descriptors(r, q->stdin_);
}

static int open_websocket(struct remote *r)
{
    struct http_client_request q;
    struct err e;
    int status = api_call_request(&r->call, &q);

    if (status)
        return status;
    r->websocket = true;
    switch (http_client_websocket(&r->call.client, &q, MESSAGE_MAX, &r->call.head, &e)) {
    case 0:
        return 0;
    case -ERR_DENIED:
        return api_call_problem(&r->call);
    default:
        return api_call_failed(&r->call, &e);
    }
}

static int begin_websocket(struct remote *r, const struct process_request *q)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MESSAGE_MAX);
    struct json_writer w;
    struct err e;
    int status;

    r->call.method = "GET";
    api_call_path(&r->call, "/v1/sandboxes/%s/processes/new", r->sandbox);
    json_writer_init(&w, &text, JSON_COMPACT);
    remote_write_request(&w, q);
    if (json_writer_finish(&w, &e) < 0)
        return verb_misused(r->call.verb, "%s", e.msg);
    status = open_websocket(r);
    if (status)
        return status;
    if (http_client_ws_send(&r->call.client, FRAME_TEXT, buf_str(&text), &e) < 0)
        return api_call_failed(&r->call, &e);
    r->input = q->stdin_ || q->tty;
    return 0;
}

int remote_exec(const struct verb *v, const struct common *common, const char *sandbox,
                const struct process_request *q)
{
    AUTO(remote_done) struct remote r;
    int status;

    remote_init(&r, v, common, sandbox, q->tty);
    r.timeout_ns = q->timeout_ns;
    status = api_call_connect(&r.call);
    if (status == 0)
        status = r.call.contact.place.tcp ? begin_websocket(&r, q) : begin_stdio(&r, q);
    return status ? status : finish_remote(&r);
}

int remote_attach(const struct verb *v, const struct common *common, const char *sandbox,
                  const char *process, bool stdin_, bool tty, bool replay)
{
    AUTO(remote_done) struct remote r;
    int status;

    remote_init(&r, v, common, sandbox, tty);
    r.call.method = "GET";
    api_call_path(&r.call, "/v1/sandboxes/%s/processes/%s/attach", sandbox, process);
    api_call_query(&r.call, "replay", replay ? NULL : "no");
    str_to_u64(str_from(process), &r.process);
    status = api_call_connect(&r.call);
    if (status == 0)
        status = open_websocket(&r);
    if (status)
        return status;
    r.input = stdin_;
    return finish_remote(&r);
}

/* A start that PID 1 refused (program, user or directory) is reported as the program's failure, in
 * PID 1's words. */
static bool start_refused(struct remote *r, int *ret_status)
{
    struct str step, detail, no;
    struct err e;

    if (api_call_read_answer(&r->call, &e) < 0 || !r->call.answer)
        return false;
    step = show_string(r->call.answer, "step");
    detail = show_string(r->call.answer, "detail");
    if (!str_eq(step, STR("program")) && !str_eq(step, STR("user")) &&
        !str_eq(step, STR("workdir")))
        return false;
    no = show_string(r->call.answer, "errno");
    cli_report(STR_FMT, STR_ARG(detail));
    *ret_status = !str_eq(step, STR("program")) ? EXIT_TOOL_FAILED
                  : str_eq(no, STR("ENOENT"))   ? EXIT_NOT_FOUND
                                                : EXIT_NOT_EXECUTABLE;
    return true;
}

static bool run_in_own(struct remote *r, const struct run_request *q, int *ret_status)
{
    struct err e;

    r->call.start = CONTACT_ONLY;
    api_call_path(&r->call, "/v1/run");
    if (!api_call_reaches(&r->call))
        return false;
    json_unbind_changed(q, &run_request_default, process_request_fields, run_request_field_count,
                        api_call_json(&r->call));
    if (request_with_descriptors(r, &e) != 0)
        return false;
    if (r->call.head->status != 101 && q->image) { /* only the daemon has the image */
        *ret_status = api_call_problem(&r->call);
        return true;
    }
    if (r->call.head->status != 101)
        return start_refused(r, ret_status);
    *ret_status = take_process_descriptors(r, q->process.stdin_);
    if (*ret_status == 0)
        *ret_status = finish_remote(r);
    return true;
}

bool remote_run(const struct verb *v, const struct run_request *q, const struct box_options *box,
                const struct network_options *network, bool quiet, int *ret_status)
{
    static const struct common common;
    AUTO(run_record_done) struct run_record record = RUN_RECORD_NONE;
    AUTO(remote_done) struct remote r;
    struct run_request request = *q;
    struct json policy;

    remote_init(&r, v, &common, "", q->process.tty);
    r.quiet = quiet;
    r.timeout_ns = q->process.timeout_ns;
    *ret_status = box ? box_options_hand_over(box, &r.call, &request.mounts, &r.call.arena) : 0;
    if (*ret_status)
        return true;
    if (network && network_log_open(network, &record.log, NULL) < 0)
        return false; /* a run whose record cannot be kept does not begin */
    if (network) {
        r.record = &record;
        request.egress = network_options_request(network, &policy);
    }
    return run_in_own(&r, &request, ret_status);
}
