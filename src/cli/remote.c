#include "cli/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/own.h"
#include "base/units.h"
#include "cli/body.h"
#include "cli/ending.h"
#include "cli/lines.h"
#include "cli/run_record.h"
#include "cli/stream.h"
#include "cli/terminal.h"
#include "cli/write.h"
#include "json/reader.h"
#include "proc/signals.h"

enum { FORCE_AFTER_SIGNALS = 3, MESSAGE_MAX = 1 << 20, INPUT_PIECE = 4096, EVENT_MAX = 64 << 10 };
enum { STREAM_IN, STREAM_OUT, STREAM_ERR, STREAMS };
enum { CHANNEL_STDIN, CHANNEL_STDOUT, CHANNEL_STDERR };

struct remote {
    struct call call;
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
    struct run_record *record; /* of what it reaches; NULL: it has no network, or is not ours */
};

static char room[STREAMS][STREAM_BUFFER];

static void remote_init(struct remote *r, const struct verb *v, const struct common *common,
                        const char *sandbox, bool tty)
{
    *r = (struct remote){ .sandbox = sandbox,
                          .tty = tty,
                          .lines = LINES_INIT,
                          .master = -1,
                          .signals = -1,
                          .status = EXIT_OURS };
    call_init(&r->call, v, common, "POST");
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
    call_done(&r->call);
}

static void end(struct remote *r, int status)
{
    r->ended = true;
    r->status = status;
    stream_close(&r->streams[STREAM_IN]);
    r->input = false;
}

static void fail(struct remote *r, const struct err *e)
{
    terminal_restore(&r->terminal);
    end(r, call_failed(&r->call, e));
}

/* --- What the daemon says --- */

static bool is_true(const struct json *event, const char *name)
{
    const struct json *v = show_at(event, name);

    return v && v->type == JSON_BOOL && v->b;
}

int remote_status(const struct json *exited)
{
    const struct json *code = show_at(exited, "exit_code");
    struct str signal = show_string(exited, "signal");

    if (is_true(exited, "timed_out"))
        return EXIT_TIMED_OUT;
    if (signal.n)
        return EXIT_SIGNALLED + signal_number(signal);
    return code && code->type == JSON_INT && code->i >= 0 && code->i <= 255 ? (int)code->i
                                                                            : EXIT_OURS;
}

static uint64_t number_of(const struct json *event, const char *name)
{
    const struct json *v = show_at(event, name);

    return v && v->type == JSON_INT && v->i > 0 ? (uint64_t)v->i : 0;
}

static void hear_start(struct remote *r, const struct json *event, uint64_t process)
{
    r->process = process;
    if (r->record)
        run_record_of(r->record, show_string(event, "sandbox_id"));
}

static void hear_exit(struct remote *r, const struct json *event)
{
    uint64_t kills = number_of(event, "oom_kills");

    end(r, remote_status(event));
    r->timed_out = is_true(event, "timed_out");
    r->memory = (struct ending_memory){ .kills = kills > UINT32_MAX ? UINT32_MAX : (uint32_t)kills,
                                        .limit = number_of(event, "memory_limit"),
                                        .killed = r->status == EXIT_SIGNALLED + SIGKILL ||
                                                  is_true(event, "lost") };
}

static void hear_problem(struct remote *r, const struct json *event)
{
    char words[768];
    int status = problem_describe(r->call.verb, event, 500, words, sizeof words);

    terminal_restore(&r->terminal);
    say("%s: %s", r->call.verb->name, words);
    end(r, status);
}

static void hear_event(struct remote *r, struct str text)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(16 * EVENT_MAX);
    struct json_limits limits = { .bytes = EVENT_MAX, .depth = 16 };
    const struct json *event, *number;
    struct err e;
    struct str name;

    if (json_read(text, limits, &a, &event, &e) < 0) {
        fail(r, &e);
        return;
    }
    name = show_string(event, "event");
    number = show_at(event, "process.process");
    if (str_eq(name, STR("started")) && number && number->type == JSON_INT)
        hear_start(r, event, (uint64_t)number->i);
    else if (str_eq(name, STR("exited")))
        hear_exit(r, event);
    else if (str_eq(name, STR("error")))
        hear_problem(r, event);
}

static void hear_lost(struct remote *r, struct err *e)
{
    (void)err_set(e, ERR_UPSTREAM, "the connection was lost: how the process ends is not known");
    fail(r, e);
}

/* The descriptors' way: a line for each event. */
static void hear_lines(struct remote *r)
{
    struct str piece, line;
    struct err e;
    int got = http_client_read(&r->call.client, &piece, &e);

    if (got > 0)
        got = lines_feed(&r->lines, piece, &e) < 0 ? -1 : 1;
    if (got == 0)
        hear_lost(r, &e);
    else if (got < 0)
        fail(r, &e);
    while (!r->ended && lines_next(&r->lines, &line))
        hear_event(r, line);
}

static void hear_output(struct remote *r, struct str data)
{
    struct err e;
    int fd = data.n && data.p[0] == CHANNEL_STDERR ? STDERR_FILENO : STDOUT_FILENO;

    if (data.n > 1 && write_all(fd, (struct str){ data.p + 1, data.n - 1 }, &e) < 0 &&
        e.sys != EPIPE)
        fail(r, &e);
}

static void hear_messages(struct remote *r)
{
    struct frame_message m;
    struct err e;

    do {
        int got = http_client_ws_read(&r->call.client, &m, &e);

        if (got < 0)
            fail(r, &e);
        else if (got == 0)
            hear_lost(r, &e);
        else if (m.op == FRAME_BINARY)
            hear_output(r, m.data);
        else
            hear_event(r, m.data);
    } while (!r->ended && http_client_pending(&r->call.client));
}

/* --- What we say --- */

static void send_text(struct remote *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void send_text(struct remote *r, const char *fmt, ...)
{
    char text[128];
    struct err e;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (http_client_ws_send(&r->call.client, FRAME_TEXT, str_from(text), &e) < 0)
        fail(r, &e);
}

/* Small pieces, and only when there is room: a daemon that waits for us to read must not find us
 * waiting for it to read. */
static void send_input(struct remote *r)
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
        send_text(r, "{\"op\":\"close_stdin\"}");
        return;
    }
    piece[0] = CHANNEL_STDIN;
    if (http_client_ws_send(&r->call.client, FRAME_BINARY, (struct str){ piece, (size_t)n + 1 },
                            &e) < 0)
        fail(r, &e);
}

/* On the connection that says how it ends. What goes wrong with it is not worth a word: the third
 * signal does not ask. */
static void send_line(struct remote *r, const char *name)
{
    char line[64];
    int n = snprintf(line, sizeof line, "{\"op\":\"signal\",\"signal\":\"%s\"}\n", name);

    write_all(r->call.client.fd, (struct str){ line, (size_t)n }, NULL);
}

static void pass_signal(struct remote *r, int sig)
{
    const char *name = signal_name(sig);

    if (++r->n_signals >= FORCE_AFTER_SIGNALS || !r->process) {
        end(r, EXIT_SIGNALLED + sig);
        for (int i = 0; i < STREAMS; i++)
            stream_close(&r->streams[i]);
        return;
    }
    if (r->websocket)
        send_text(r, "{\"op\":\"signal\",\"signal\":\"%s\"}", name);
    else
        send_line(r, name);
}

static void resize(struct remote *r)
{
    uint16_t rows, cols;

    if (!r->tty)
        return;
    if (!r->websocket) {
        if (r->master >= 0)
            terminal_resize(r->master);
        return;
    }
    terminal_size(&rows, &cols);
    send_text(r, "{\"op\":\"resize\",\"rows\":%u,\"cols\":%u}", rows, cols);
}

static void hear_signal(struct remote *r)
{
    struct signalfd_siginfo info;

    if (read(r->signals, &info, sizeof info) != (ssize_t)sizeof info || r->ended)
        return;
    if (info.ssi_signo == SIGWINCH)
        resize(r);
    else
        pass_signal(r, (int)info.ssi_signo);
}

static int open_signals(struct remote *r, struct err *e)
{
    static const int list[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };

    r->signals = signals_open(list, COUNT_OF(list), e);
    return r->signals < 0 ? r->signals : 0;
}

/* --- The loop --- */

/* The process is over, and so is this output, unless there is something in it that we have not read
 * or not written: whoever else holds the other end is not waited for. */
static bool drained(const struct stream *s)
{
    struct pollfd in = { .fd = s->from, .events = POLLIN };

    if (!stream_open(s))
        return true;
    return s->n == 0 && !s->wait_out && poll(&in, 1, 0) == 0;
}

static bool finished(const struct remote *r)
{
    return r->ended && drained(&r->streams[STREAM_OUT]) && drained(&r->streams[STREAM_ERR]);
}

static void wait_for(struct remote *r, struct pollfd *waits, size_t n)
{
    bool pending = !r->ended && http_client_pending(&r->call.client);

    while (poll(waits, n, pending ? 0 : -1) < 0 && errno == EINTR)
        ;
    if (pending)
        waits[0].revents |= POLLIN;
}

static void loop(struct remote *r)
{
    enum { CONNECTION, SIGNALS, INPUT, FIRST_STREAM, WAITS = FIRST_STREAM + STREAMS };
    struct pollfd waits[WAITS];

    while (!finished(r)) {
        waits[CONNECTION] =
            (struct pollfd){ .fd = r->ended ? -1 : r->call.client.fd, .events = POLLIN };
        waits[SIGNALS] = (struct pollfd){ .fd = r->signals, .events = POLLIN };
        waits[INPUT] = (struct pollfd){ .fd = r->input ? STDIN_FILENO : -1, .events = POLLIN };
        for (int i = 0; i < STREAMS; i++)
            stream_poll(&r->streams[i], &waits[FIRST_STREAM + i]);
        wait_for(r, waits, WAITS);
        for (int i = 0; i < STREAMS; i++)
            if (waits[FIRST_STREAM + i].revents)
                stream_move(&r->streams[i]);
        if (waits[CONNECTION].revents && !r->ended)
            (r->websocket ? hear_messages : hear_lines)(r);
        if (waits[INPUT].revents && r->input)
            send_input(r);
        if (waits[SIGNALS].revents)
            hear_signal(r);
    }
}

/* Output that could not be written is lost: whatever the process thinks, this was no success. */
static void check_outputs(struct remote *r)
{
    for (int i = STREAM_OUT; i < STREAMS; i++) {
        if (!r->streams[i].error)
            continue;
        say("%s: writing to our %s: %s", r->call.verb->name, i == STREAM_OUT ? "stdout" : "stderr",
            strerror(r->streams[i].error));
        if (r->status == 0)
            r->status = EXIT_OURS;
    }
}

static int finish(struct remote *r)
{
    struct err e;

    if (open_signals(r, &e) < 0)
        return call_failed(&r->call, &e);
    if (r->tty && terminal_is(STDIN_FILENO))
        terminal_raw(&r->terminal);
    loop(r);
    terminal_restore(&r->terminal);
    check_outputs(r);
    if (r->timed_out)
        ending_timed_out(r->timeout_ns);
    if (r->record && run_record_end(r->record, r->call.verb, r->quiet) < 0 && r->status == 0)
        r->status = EXIT_OURS;
    ending_memory(&r->memory, r->quiet);
    return r->status;
}

/* --- Beginning --- */

void remote_put(struct json_writer *w, const struct remote_start *s)
{
    uint16_t rows, cols;

    json_begin_object(w);
    json_key(w, STR("argv"));
    json_begin_array(w);
    for (size_t i = 0; s->argv[i]; i++)
        json_put_str(w, str_from(s->argv[i]));
    json_end_array(w);
    if (s->env)
        body_pairs(w, "env", s->env);
    body_text(w, "cwd", s->workdir);
    body_text(w, "user", s->user);
    body_text(w, "image", s->image);
    body_text(w, "timeout", s->timeout);
    body_flag(w, "stdin", s->stdin_);
    body_flag(w, "background", s->background);
    body_flag(w, "tty", s->tty);
    if (s->tty) {
        terminal_size(&rows, &cols);
        json_key(w, STR("rows"));
        json_put_uint(w, rows);
        json_key(w, STR("cols"));
        json_put_uint(w, cols);
    }
    if (s->network)
        network_options_put(s->network, w);
    json_end_object(w);
}

/* The descriptors that came with the daemon's answer: [stdin] stdout stderr, or the terminal. */
static int take_descriptors(struct remote *r, bool stdin_)
{
    int fds[HTTP_CLIENT_FDS_MAX], input;
    size_t n, at = 0, expected = r->tty ? 1 : stdin_ ? 3 : 2;
    struct err e;

    if (http_client_await_fds(&r->call.client, &e) < 0)
        return call_failed(&r->call, &e);
    n = http_client_take_fds(&r->call.client, fds, COUNT_OF(fds));
    for (size_t i = 0; i < n; i++)
        fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK);
    if (n != expected) {
        for (size_t i = 0; i < n; i++)
            close(fds[i]);
        (void)err_set(&e, ERR_UPSTREAM, "the daemon sent %zu descriptors, not %zu", n, expected);
        return call_failed(&r->call, &e);
    }
    if (r->tty) {
        r->master = fds[0];
        input = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
        stream_init(&r->streams[STREAM_IN], STDIN_FILENO, input, false, room[STREAM_IN]);
        stream_init(&r->streams[STREAM_OUT], fds[0], STDOUT_FILENO, true, room[STREAM_OUT]);
        return 0;
    }
    if (stdin_)
        stream_init(&r->streams[STREAM_IN], STDIN_FILENO, fds[at++], false, room[STREAM_IN]);
    stream_init(&r->streams[STREAM_OUT], fds[at], STDOUT_FILENO, true, room[STREAM_OUT]);
    stream_init(&r->streams[STREAM_ERR], fds[at + 1], STDERR_FILENO, true, room[STREAM_ERR]);
    return 0;
}

/* Asks for the process's own descriptors: 0 and the answer's head, or a status. */
static int ask_stdio(struct remote *r, const struct remote_start *s, struct err *e)
{
    struct http_client_request q;
    int status;

    call_field(&r->call, "Connection", "Upgrade");
    call_field(&r->call, "Upgrade", "sandboxer-stdio");
    remote_put(call_json(&r->call), s);
    status = call_request(&r->call, &q);
    if (status)
        return status;
    if (http_client_send(&r->call.client, &q, e) < 0 ||
        http_client_head(&r->call.client, &r->call.head, e) < 0)
        return EXIT_OURS;
    return 0;
}

static int begin_stdio(struct remote *r, const struct remote_start *s)
{
    struct err e = { 0 };
    int status;

    call_path(&r->call, "/v1/sandboxes/%s/processes", s->sandbox);
    status = ask_stdio(r, s, &e);
    if (status)
        return e.code ? call_failed(&r->call, &e) : status;
    if (r->call.head->status >= 400)
        return call_problem(&r->call);
    if (r->call.head->status != 101) {
        (void)err_set(&e, ERR_UPSTREAM, "the daemon answers %d instead of handing over the process",
                      r->call.head->status);
        return call_failed(&r->call, &e);
    }
    return take_descriptors(r, s->stdin_);
}

static int open_websocket(struct remote *r)
{
    struct http_client_request q;
    struct err e;
    int status = call_request(&r->call, &q);

    if (status)
        return status;
    r->websocket = true;
    switch (http_client_websocket(&r->call.client, &q, MESSAGE_MAX, &r->call.head, &e)) {
    case 0:
        return 0;
    case -ERR_DENIED:
        return call_problem(&r->call);
    default:
        return call_failed(&r->call, &e);
    }
}

static int begin_websocket(struct remote *r, const struct remote_start *s)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MESSAGE_MAX);
    struct json_writer w;
    struct err e;
    int status;

    r->call.method = "GET";
    call_path(&r->call, "/v1/sandboxes/%s/processes/new", s->sandbox);
    json_writer_init(&w, &text, JSON_COMPACT);
    remote_put(&w, s);
    if (json_writer_finish(&w, &e) < 0)
        return verb_misused(r->call.verb, "%s", e.msg);
    status = open_websocket(r);
    if (status)
        return status;
    if (http_client_ws_send(&r->call.client, FRAME_TEXT, buf_str(&text), &e) < 0)
        return call_failed(&r->call, &e);
    r->input = s->stdin_ || s->tty;
    return 0;
}

/* What is said at its end. */
static void take_start(struct remote *r, const struct remote_start *s)
{
    r->quiet = s->quiet;
    if (s->timeout)
        (void)units_duration(str_from(s->timeout), "--timeout", &r->timeout_ns, NULL);
}

int remote_exec(const struct verb *v, const struct common *common, const struct remote_start *s)
{
    AUTO(remote_done) struct remote r;
    int status;

    remote_init(&r, v, common, s->sandbox, s->tty);
    take_start(&r, s);
    status = call_connect(&r.call);
    if (status == 0)
        status = r.call.contact.place.tcp ? begin_websocket(&r, s) : begin_stdio(&r, s);
    return status ? status : finish(&r);
}

int remote_attach(const struct verb *v, const struct common *common, const char *sandbox,
                  const char *process, bool stdin_, bool tty, bool replay)
{
    AUTO(remote_done) struct remote r;
    int status;

    remote_init(&r, v, common, sandbox, tty);
    r.call.method = "GET";
    call_path(&r.call, "/v1/sandboxes/%s/processes/%s/attach", sandbox, process);
    call_query(&r.call, "replay", replay ? NULL : "no");
    str_to_u64(str_from(process), &r.process);
    status = call_connect(&r.call);
    if (status == 0)
        status = open_websocket(&r);
    if (status)
        return status;
    r.input = stdin_;
    return finish(&r);
}

/* What PID 1 said of the program, its user or its directory is the program's affair, in its words.
 */
static bool start_refused(struct remote *r, int *ret_status)
{
    struct str step, detail, no;
    struct err e;

    if (call_read_answer(&r->call, &e) < 0 || !r->call.answer)
        return false;
    step = show_string(r->call.answer, "step");
    detail = show_string(r->call.answer, "detail");
    if (!str_eq(step, STR("program")) && !str_eq(step, STR("user")) &&
        !str_eq(step, STR("workdir")))
        return false;
    no = show_string(r->call.answer, "errno");
    say(STR_FMT, STR_ARG(detail));
    *ret_status = !str_eq(step, STR("program")) ? EXIT_OURS
                  : str_eq(no, STR("ENOENT"))   ? EXIT_NOT_FOUND
                                                : EXIT_NOT_EXECUTABLE;
    return true;
}

static bool run_in_own(struct remote *r, const struct remote_start *s, int *ret_status)
{
    struct err e;

    take_start(r, s);
    r->call.start = CONTACT_ONLY;
    call_path(&r->call, "/v1/run");
    if (!call_reaches(&r->call) || ask_stdio(r, s, &e) != 0)
        return false;
    if (r->call.head->status != 101 && s->image) { /* nobody else has it */
        *ret_status = call_problem(&r->call);
        return true;
    }
    if (r->call.head->status != 101)
        return start_refused(r, ret_status);
    *ret_status = take_descriptors(r, s->stdin_);
    if (*ret_status == 0)
        *ret_status = finish(r);
    return true;
}

bool remote_run(const struct verb *v, const struct remote_start *s, int *ret_status)
{
    static const struct common common;
    AUTO(run_record_done) struct run_record record = RUN_RECORD_NONE;
    AUTO(remote_done) struct remote r;

    remote_init(&r, v, &common, "", s->tty);
    if (s->network && run_record_open(&record, s->network, NULL) < 0)
        return false;
    if (s->network)
        r.record = &record;
    return run_in_own(&r, s, ret_status);
}
