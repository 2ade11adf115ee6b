/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of the toolbox: a shell that runs one command after the other. It is a background
 * process; the commands and their results are parsed from its output. */
#include <stdio.h>

#include "edge/daytona/internal.h"
#include "edge/daytona/session_scan.h"
#include "edge/core/input.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/event/commands.h"
#include "lib/http/websocket.h"

enum { SHELL_ARGS = 6, OUTPUT_MAX = 8 << 20, CLOSE_DONE = 1000, CLOSE_FAILED = 1011 };

/* Time for the shell to begin a command: it may still run the previous one. */
static const int64_t PATIENCE_NS = 3 * NS_PER_S;

/* Reads lines of "KEY ID COMMAND" and evaluates the commands in the same shell. Other lines are
 * input of commands; unread input is skipped. Marks are written to the shell's original stdout and
 * stderr. */
static const char driver[] =
    "exec 7<&0 8>&1 9>&2; _sbx_key=$1; shift; "
    "while IFS= read -r _sbx_line <&7; do "
    "case $_sbx_line in \"$_sbx_key \"*) ;; *) continue;; esac; "
    "_sbx_line=${_sbx_line#\"$_sbx_key \"}; _sbx_id=${_sbx_line%% *}; _sbx_line=${_sbx_line#* }; "
    "printf '\\036%s>%s\\n' \"$_sbx_id\" \"$_sbx_line\" >&8; printf '\\036%s>\\n' \"$_sbx_id\" "
    ">&9; "
    "eval \"$(printf %b \"$_sbx_line\")\"; _sbx_status=$?; "
    "printf '\\036%s<%s\\n' \"$_sbx_id\" \"$_sbx_status\" >&8; "
    "printf '\\036%s<%s\\n' \"$_sbx_id\" \"$_sbx_status\" >&9; done";
static const char launcher[] =
    "if command -v bash >/dev/null; then exec bash -c \"$1\" bash \"$2\"; "
    "fi; exec sh -c \"$1\" sh \"$2\"";

bool daytona_name_good(struct call *c, struct str name)
{
    if (name.n && name.n <= DAYTONA_TAG_MAX && !memchr(name.p, 0, name.n))
        return true;
    call_fail_with(c, 400, "BAD_REQUEST", "the name must have 1 to 64 bytes");
    return false;
}

bool daytona_wants_socket(struct call *c)
{
    if (ws_wanted(http_request(c->x)))
        return true;
    call_fail_with(c, 400, "BAD_REQUEST",
                   "this endpoint requires a WebSocket: send Upgrade: websocket");
    return false;
}

/* --- scanning a session --- */

struct session_command {
    char id[ID_MAX];
    struct str text; /* encoded; on the call's arena */
    bool ended;
    int status;
    struct session_command *next;
};

struct session_call {
    struct background shell; /* of a list: the session being scanned … */
    struct process **all;    /* … out of these; referenced from `at` on */
    size_t n, at;
    struct session_scan scan[2];
    int channel; /* being scanned */
    struct session_command *commands, **last;
    /* members about one command */
    char id[ID_MAX]; /* "" if none */
    bool seen, over[2], too_big;
    bool async; /* answers when the command has begun */
    struct loop_timer patience;
    int status;
    struct buf out[2], both;
    void (*done)(struct session_call *t);
    struct ws ws;
};

static void release_session_call(void *state)
{
    struct session_call *t = state;

    loop_timer_stop(&t->patience);
    background_done(&t->shell);
    for (size_t i = t->at; i < t->n; i++)
        process_unref(t->all[i]);
    for (int i = 0; i < 2; i++) {
        session_scan_done(&t->scan[i]);
        buf_done(&t->out[i]);
    }
    buf_done(&t->both);
}

static void on_session_client_gone(struct call *c)
{
    struct session_call *t = c->state;

    loop_timer_stop(&t->patience);
    watcher_stop(&t->shell.watcher);
}

static struct session_call *new_session_call(struct call *c, struct process *p)
{
    struct session_call *t =
        background_new(c, sizeof *t, SESSION_MARK_MAX + 256, release_session_call);

    t->shell.process = p;
    t->last = &t->commands;
    for (int i = 0; i < 2; i++) {
        session_scan_init(&t->scan[i]);
        buf_init(&t->out[i], OUTPUT_MAX);
    }
    buf_init(&t->both, 2 * OUTPUT_MAX);
    c->on_gone = on_session_client_gone;
    return t;
}

static struct session_call *session_call_of(struct watcher *w)
{
    return container_of(w, struct session_call, shell.watcher);
}

static void begin_command(struct session_call *t, const struct session_event *v)
{
    struct session_command *n = arena_alloc(&t->shell.call->arena, sizeof *n);
    const char *text = n ? arena_dup(&t->shell.call->arena, v->text) : NULL;

    if (!text) {
        t->too_big = true;
        return;
    }
    *n = (struct session_command){ .text = { text, v->text.n } };
    snprintf(n->id, sizeof n->id, "%s", v->id);
    *t->last = n;
    t->last = &n->next;
}

/* Ends the command with this id, or all that have not ended if the id is NULL. */
static void end_commands(struct session_call *t, const char *id, int status)
{
    for (struct session_command *n = t->commands; n; n = n->next)
        if (id ? strcmp(n->id, id) == 0 : !n->ended) {
            n->ended = true;
            n->status = status;
        }
}

static void on_session_event(void *user, const struct session_event *v)
{
    struct session_call *t = user;
    bool wanted = t->id[0] && strcmp(v->id, t->id) == 0;

    if (v->kind == SESSION_BEGIN && t->channel == 0)
        begin_command(t, v);
    if (v->kind == SESSION_END && t->channel == 0)
        end_commands(t, v->id, v->status);
    if (!wanted)
        return;
    t->seen = true;
    if (v->kind == SESSION_DATA)
        t->too_big |= buf_add(&t->out[t->channel], v->text) < 0 || buf_add(&t->both, v->text) < 0;
    if (v->kind == SESSION_END) {
        t->over[t->channel] = true;
        t->status = v->status;
    }
}

static void scan_output(struct session_call *t, int channel, struct str data)
{
    t->channel = channel == 2;
    session_scan(&t->scan[t->channel], data, on_session_event, t);
}

static bool is_command_finished(const struct session_call *t)
{
    return t->over[0] && t->over[1];
}

/* The shell ended: marks its unfinished commands as ended. */
static void note_shell_end(struct session_call *t, const struct backend_end *end)
{
    end_commands(t, NULL, daytona_exit_code(end));
    if (!is_command_finished(t))
        t->status = daytona_exit_code(end);
    t->over[0] = t->over[1] = true;
}

static void on_session_behind(struct watcher *w)
{
    struct session_call *t = session_call_of(w);

    call_fail_with(t->shell.call, 500, "", "the session's output could not be read");
}

/* --- reading all output of a session --- */

static void finish_session_scan(struct session_call *t)
{
    loop_timer_stop(&t->patience);
    watcher_stop(&t->shell.watcher);
    t->done(t);
}

static bool on_scan_output(struct watcher *w, int channel, struct str data)
{
    struct session_call *t = session_call_of(w);

    scan_output(t, channel, data);
    if (t->seen && loop_timer_started(&t->patience))
        finish_session_scan(t);
    return true;
}

static void on_scan_patience_over(struct loop_timer *x)
{
    finish_session_scan(container_of(x, struct session_call, patience));
}

static void on_scan_shell_ended(struct watcher *w, const struct backend_end *end)
{
    struct session_call *t = session_call_of(w);

    note_shell_end(t, end);
    finish_session_scan(t);
}

static void await_command_begin(struct session_call *t)
{
    (void)loop_timer_start(t->shell.call->loop, &t->patience, clock_mono() + PATIENCE_NS,
                           on_scan_patience_over, NULL);
}

/* All earlier output is scanned. If the command has not begun, waits a while for it. */
static void on_scan_caught_up(struct watcher *w)
{
    struct session_call *t = session_call_of(w);

    if (!t->id[0] || t->seen)
        finish_session_scan(t);
    else
        await_command_begin(t);
}

static const struct watcher_events scan_events = { .output = on_scan_output,
                                                   .ended = on_scan_shell_ended,
                                                   .fell_behind = on_session_behind,
                                                   .caught_up = on_scan_caught_up };

static void scan_session(struct session_call *t, void (*done)(struct session_call *t))
{
    t->done = done;
    background_watch(&t->shell, &scan_events, false);
}

/* The session in the path, referenced; NULL after it has answered the call. */
static struct process *find_daytona_session(struct call *c)
{
    struct process *p = background_find(c->sandbox, DAYTONA_SESSION, c->params[1]);

    if (!p)
        call_fail_missing(c, "session", c->params[1]);
    return p;
}

/* A call about the command in the path. */
static struct session_call *new_command_call(struct call *c)
{
    struct process *p = find_daytona_session(c);
    struct session_call *t;

    if (!p)
        return NULL;
    t = new_session_call(c, p);
    if (!str_copy(c->params[2], t->id, sizeof t->id))
        t->id[0] = '\0';
    return t;
}

/* --- sessions and commands as JSON --- */

static void write_command(struct json_writer *w, const void *command)
{
    struct buf text AUTO(buf_done) = BUF_INIT(SESSION_MARK_MAX);
    const struct session_command *n = command;

    (void)session_decode(n->text, &text);
    json_begin_object(w);
    json_field_text(w, "id", n->id);
    json_field_lossy(w, "command", buf_str(&text));
    if (n->ended)
        json_field_int(w, "exitCode", n->status);
    json_end_object(w);
}

static void write_daytona_session(struct json_writer *w, const void *session)
{
    const struct session_call *t = session;
    struct process_view v;

    process_view(t->shell.process, &v);
    json_begin_object(w);
    json_field_text(w, "sessionId", background_name(&v, DAYTONA_SESSION));
    json_field_begin_array(w, "commands");
    for (const struct session_command *n = t->commands; n; n = n->next)
        write_command(w, n);
    json_end_array(w);
    json_end_object(w);
}

static void answer_daytona_session(struct session_call *t)
{
    call_answer(t->shell.call, 200, write_daytona_session, t);
}

static void show_daytona_session(struct call *c)
{
    struct process *p = find_daytona_session(c);

    if (p)
        scan_session(new_session_call(c, p), answer_daytona_session);
}

static void answer_command(struct session_call *t)
{
    for (const struct session_command *n = t->commands; n; n = n->next)
        if (strcmp(n->id, t->id) == 0) {
            call_answer(t->shell.call, 200, write_command, n);
            return;
        }
    call_fail_missing(t->shell.call, "command", str_from(t->id));
}

static void get_command(struct call *c)
{
    struct session_call *t = new_command_call(c);

    if (t)
        scan_session(t, answer_command);
}

static void write_command_output(struct json_writer *w, const struct session_call *t)
{
    json_field_lossy(w, "output", buf_str(&t->both));
    json_field_lossy(w, "stdout", buf_str(&t->out[0]));
    json_field_lossy(w, "stderr", buf_str(&t->out[1]));
}

static void write_command_logs(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    write_command_output(w, what);
    json_end_object(w);
}

static void answer_logs(struct session_call *t)
{
    if (!t->seen)
        call_fail_missing(t->shell.call, "command", str_from(t->id));
    else if (t->too_big)
        call_fail_with(t->shell.call, 413, "",
                       "the command wrote more than 8 MiB; follow its logs");
    else
        call_answer(t->shell.call, 200, write_command_logs, t);
}

/* --- the list --- */

static void add_session(void *user, struct process *p)
{
    struct session_call *t = user;
    struct process_view v;

    process_view(p, &v);
    if (background_name(&v, DAYTONA_SESSION) && t->n < PROCESSES_MAX)
        t->all[t->n++] = process_ref(p);
}

static void list_next_session(struct session_call *t);

static void list_scanned_session(struct session_call *t)
{
    struct json_writer w;

    if (t->both.n > 1)
        buf_add_c(&t->both, ',');
    json_writer_init(&w, &t->both, JSON_COMPACT);
    write_daytona_session(&w, t);
    if (json_writer_finish(&w, NULL) < 0)
        t->too_big = true;
    t->commands = NULL;
    t->last = &t->commands;
    list_next_session(t);
}

static void list_next_session(struct session_call *t)
{
    process_unref(take_ptr(t->shell.process));
    if (t->too_big) {
        call_fail_with(t->shell.call, 413, "",
                       "the list of sessions is longer than %zu bytes; remove some sessions",
                       t->both.max);
        return;
    }
    if (t->at == t->n) {
        buf_add_c(&t->both, ']');
        call_answer_bytes(t->shell.call, 200, "application/json", buf_str(&t->both));
        return;
    }
    t->shell.process = t->all[t->at++];
    for (int i = 0; i < 2; i++) {
        session_scan_done(&t->scan[i]);
        session_scan_init(&t->scan[i]);
    }
    scan_session(t, list_scanned_session);
}

static void list_daytona_sessions(struct call *c)
{
    struct session_call *t = new_session_call(c, NULL);

    t->all = call_alloc(c, PROCESSES_MAX, sizeof(struct process *));
    process_each(c->sandbox, add_session, t);
    buf_add_c(&t->both, '[');
    list_next_session(t);
}

/* --- create and delete --- */

struct create_session {
    const char *id;
};

static const struct json_field create_fields[] = {
    { "sessionId", JSON_KIND_STR, JSON_AT(struct create_session, id), .required = true },
};

static void write_created_session(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_field_text(w, "sessionId", what);
    json_end_object(w);
}

void daytona_answer_created(struct call *c, const char *name)
{
    call_answer(c, 201, write_created_session, name);
}

static void on_session_started(struct background *b, int r, const struct err *e)
{
    if (r < 0)
        call_fail(b->call, e);
    else
        daytona_answer_created(b->call, b->request.tag + strlen(DAYTONA_SESSION));
}

static void start_session_shell(struct call *c, const char *id)
{
    const char **argv = call_alloc(c, SHELL_ARGS, sizeof *argv);
    const struct process_request q = { .argv = { argv, SHELL_ARGS },
                                       .cwd = DAYTONA_HOME,
                                       .user = DAYTONA_USER,
                                       .tag = background_tag(c, DAYTONA_SESSION, id),
                                       .stdin_ = true,
                                       .background = true,
                                       .helper = PROCESS_SESSION,
                                       .rows = 24,
                                       .cols = 80 };
    char key[ID_MAX];
    struct err e;

    if (id_make("key_", key, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    argv[0] = "sh";
    argv[1] = "-c";
    argv[2] = launcher;
    argv[3] = "sh";
    argv[4] = driver;
    argv[5] = arena_dup(&c->own, str_from(key));
    background_start(background_new(c, sizeof(struct background), 0, NULL), &q, on_session_started);
}

static void create_daytona_session(struct call *c)
{
    struct create_session q = { 0 };
    struct process *p;

    if (!daytona_read_body(c, create_fields, COUNT_OF(create_fields), &q) ||
        !daytona_name_good(c, str_from(q.id)))
        return;
    p = background_find(c->sandbox, DAYTONA_SESSION, str_from(q.id));
    if (p) {
        process_unref(p);
        call_fail_with(c, 409, "CONFLICT", "session '%s' already exists; choose another id", q.id);
    } else if (background_count(c->sandbox, DAYTONA_SESSION) >= DAYTONA_RUNNING_MAX) {
        call_fail_with(c, 429, "", "this sandbox has %d sessions, the maximum; remove some",
                       DAYTONA_RUNNING_MAX);
    } else {
        start_session_shell(c, q.id);
    }
}

static void remove_session(struct call *c)
{
    struct process *p = find_daytona_session(c);

    if (p)
        background_remove(c, p);
}

/* --- a command --- */

struct exec_session {
    const char *command;
    bool async, run_async, quiet;
};

static const struct json_field exec_fields[] = {
    { "command", JSON_KIND_STR, JSON_AT(struct exec_session, command), .required = true, .min = 1,
      .max = SESSION_COMMAND_MAX },
    { "async", JSON_KIND_BOOL, JSON_AT(struct exec_session, async) },
    { "runAsync", JSON_KIND_BOOL, JSON_AT(struct exec_session, run_async) },
    { "suppressInputEcho", JSON_KIND_BOOL, JSON_AT(struct exec_session, quiet) },
};

static void write_run(struct json_writer *w, const void *what)
{
    const struct session_call *t = what;

    json_begin_object(w);
    json_field_text(w, "cmdId", t->id);
    if (is_command_finished(t)) {
        json_field_int(w, "exitCode", t->status);
        write_command_output(w, t);
    }
    json_end_object(w);
}

static void answer_session_command(struct session_call *t)
{
    if (t->too_big)
        call_fail_with(t->shell.call, 413, "",
                       "the command wrote more than 8 MiB; follow its logs");
    else
        call_answer(t->shell.call, is_command_finished(t) ? 200 : 202, write_run, t);
}

static bool on_command_output(struct watcher *w, int channel, struct str data)
{
    struct session_call *t = session_call_of(w);

    scan_output(t, channel, data);
    if (is_command_finished(t) || (t->async && t->seen))
        finish_session_scan(t);
    return true;
}

/* Full: on_session_room() continues. Ended: the watcher reports it. */
static void send_session_input(struct session_call *t)
{
    if (background_send_input(&t->shell, NULL) > 0 && t->async)
        await_command_begin(t);
}

static void on_session_room(struct watcher *w)
{
    send_session_input(session_call_of(w));
}

static const struct watcher_events run_events = { .output = on_command_output,
                                                  .ended = on_scan_shell_ended,
                                                  .fell_behind = on_session_behind,
                                                  .room = on_session_room };

/* Begins with a newline, so that unread input of the previous command does not become part of the
 * line. */
static int write_session_command(struct session_call *t, const char *command, struct err *e)
{
    struct process_view v;
    int r = id_make("cmd_", t->id, e);

    process_view(t->shell.process, &v);
    if (r >= 0 && (buf_addf(&t->shell.input, "\n%s %s ", v.request->argv.p[v.request->argv.n - 1],
                            t->id) < 0 ||
                   session_encode(str_from(command), &t->shell.input) < 0 ||
                   buf_add_c(&t->shell.input, '\n') < 0))
        r = err_set(e, ERR_TOO_BIG,
                    "command: is longer than %zu bytes when encoded; upload it as a file",
                    t->shell.input.max);
    return r;
}

/* The end is that of the session's shell, which clients ask for. */
static int record_session_command(struct session_call *t, const char *command, struct err *e)
{
    struct call *c = t->shell.call;
    const char *argv[] = { "sh", "-c", command, NULL };
    struct command_run *record;
    int r = sandbox_record_input(c->sandbox, &c->caller.actor, call_client(c), argv, &record, e);

    if (r >= 0)
        command_gave_up(record, COMMAND_SENT, "");
    return r;
}

static void execute_session_command(struct call *c)
{
    struct exec_session q = { 0 };
    struct process_view v;
    struct process *p;
    struct session_call *t;
    struct err e;

    if (!daytona_read_body(c, exec_fields, COUNT_OF(exec_fields), &q))
        return;
    p = find_daytona_session(c);
    if (!p)
        return;
    t = new_session_call(c, p);
    process_view(p, &v);
    if (v.ended) {
        call_fail_with(c, 410, "SESSION_ENDED", "the session's shell has ended");
    } else if (write_session_command(t, q.command, &e) < 0 ||
               record_session_command(t, q.command, &e) < 0) {
        call_fail(c, &e);
    } else {
        t->async = q.async || q.run_async;
        t->done = answer_session_command;
        background_watch(&t->shell, &run_events, true);
        send_session_input(t);
    }
}

struct input_request {
    const char *data;
};

static const struct json_field input_fields[] = {
    { "data", JSON_KIND_STR, JSON_AT(struct input_request, data), .required = true,
      .max = INPUT_WHOLE_MAX },
};

static void send_command_input(struct call *c)
{
    struct input_request q = { 0 };
    struct process *p;

    if (!daytona_read_body(c, input_fields, COUNT_OF(input_fields), &q))
        return;
    p = find_daytona_session(c);
    if (p)
        input_whole(c, p, str_from(q.data), call_answer_empty);
}

/* --- following --- */

static void on_follow_closed(struct ws *w, int code)
{
    struct session_call *t = container_of(w, struct session_call, ws);

    call_take_exchange(t->shell.call);
    watcher_stop(&t->shell.watcher);
}

static void on_follow_drain(struct ws *w)
{
    watcher_resume(&container_of(w, struct session_call, ws)->shell.watcher);
}

static void on_follow_message(struct ws *w, enum frame_op op, struct str data)
{
    /* messages are ignored */
}

/* Sends the collected output of both streams. Returns false if the connection is full. */
static bool send_followed_output(struct session_call *t)
{
    static const char *const marks[] = { "\1\1\1", "\2\2\2" };
    struct buf message AUTO(buf_done) = BUF_INIT(OUTPUT_MAX + 8);
    int r = 0;

    for (int i = 0; i < 2 && r >= 0; i++) {
        if (!t->out[i].n)
            continue;
        buf_clear(&message);
        buf_add(&message, str_from(marks[i]));
        buf_add(&message, buf_str(&t->out[i]));
        r = ws_send(&t->ws, FRAME_BINARY, buf_str(&message), NULL);
        buf_clear(&t->out[i]);
    }
    buf_clear(&t->both);
    if (r < 0)
        ws_close(&t->ws, CLOSE_FAILED, STR("sending output failed"));
    return r == 0;
}

static bool on_follow_output(struct watcher *w, int channel, struct str data)
{
    struct session_call *t = session_call_of(w);
    bool more;

    scan_output(t, channel, data);
    more = send_followed_output(t);
    if (is_command_finished(t)) {
        watcher_stop(w);
        ws_close(&t->ws, CLOSE_DONE, STR(""));
    }
    return more;
}

static void on_follow_ended(struct watcher *w, const struct backend_end *end)
{
    struct session_call *t = session_call_of(w);

    ws_close(&t->ws, CLOSE_DONE, STR(""));
}

static void on_follow_behind(struct watcher *w)
{
    struct session_call *t = session_call_of(w);

    ws_close(&t->ws, CLOSE_FAILED, STR("the client reads too slowly"));
}

static const struct watcher_events follow_events = { .output = on_follow_output,
                                                     .ended = on_follow_ended,
                                                     .fell_behind = on_follow_behind };

static void show_command_logs(struct call *c)
{
    const struct ws_config config = { .on_message = on_follow_message,
                                      .on_closed = on_follow_closed,
                                      .on_drain = on_follow_drain };
    bool follows = ws_wanted(http_request(c->x));
    struct session_call *t = new_command_call(c);
    struct err e;

    if (!t)
        return;
    if (!follows)
        scan_session(t, answer_logs);
    else if (ws_accept(&t->ws, c->x, &config, &e) < 0)
        call_fail(c, &e);
    else
        background_watch(&t->shell, &follow_events, false);
}

static void no_entrypoint(struct call *c)
{
    call_fail_with(c, 404, "NOT_FOUND", "sandboxes have no entrypoint session");
}

#define SESSION                           DAYTONA_INSIDE "/process/session"
#define COMMAND                           SESSION "/{session}/command/{command}"
#define ROW(method, path, flags, handler) DAYTONA_ROUTE(method, VERB_EXEC, path, flags, handler)

const struct route routes_daytona_sessions[] = {
    ROW(H1_GET, SESSION "/entrypoint", 0, no_entrypoint),
    ROW(H1_GET, SESSION "/entrypoint/logs", 0, no_entrypoint),
    ROW(H1_POST, SESSION, ROUTE_JSON, create_daytona_session),
    ROW(H1_GET, SESSION, 0, list_daytona_sessions),
    ROW(H1_GET, SESSION "/{session}", 0, show_daytona_session),
    ROW(H1_DELETE, SESSION "/{session}", 0, remove_session),
    ROW(H1_POST, SESSION "/{session}/exec", ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG,
        execute_session_command),
    ROW(H1_GET, COMMAND, 0, get_command),
    ROW(H1_GET, COMMAND "/logs", ROUTE_LONG, show_command_logs),
    ROW(H1_POST, COMMAND "/input", ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG, send_command_input),
    { .path = NULL },
};
