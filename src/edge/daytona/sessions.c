#include "api/daytona/sessions.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/daytona/inside.h"
#include "api/input.h"
#include "api/guard.h"
#include "base/clock.h"
#include "http/websocket.h"

enum { OUTPUT_MAX = 8 << 20, CLOSE_DONE = 1000, CLOSE_FAILED = 1011 };

/* For the shell to take up a command that it was given; it may be busy with the one before. */
static const int64_t PATIENCE_NS = 3 * NS_PER_S;

/* Reads "KEY ID COMMAND" lines and runs them in this very shell; what else comes is for commands,
 * and what they leave of it is passed over. Marks go where the shell's output went at first. */
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

/* --- one that is looked into --- */

struct command {
    char id[ID_MAX];
    struct str text; /* encoded; on the call's arena */
    bool ended;
    int status;
    struct command *next;
};

struct talk {
    struct call *call;
    struct process *process; /* referenced; of a list: the one that is looked into … */
    struct process **all;    /* … out of these */
    size_t n, at;
    struct watcher watcher;
    struct session_scan scan[2];
    int channel; /* that is being scanned */
    struct command *commands, **last;
    /* one command of it */
    char id[ID_MAX]; /* "": none */
    bool seen, over[2], too_big;
    bool async; /* it is enough that the command has begun */
    struct loop_timer patience;
    int status;
    struct buf out[2], both;
    struct buf input; /* that the shell has not taken */
    void (*done)(struct talk *t);
    struct process_op op;
    struct process_request request;
    char tag[sizeof DAYTONA_SESSION + DAYTONA_TAG_MAX];
    struct ws ws;
};

static void talk_end(struct call *c)
{
    struct talk *t = c->state;

    loop_timer_stop(&t->patience);
    watcher_stop(&t->watcher);
    process_unref(t->process);
    for (size_t i = t->at; i < t->n; i++)
        process_unref(t->all[i]);
    free(t->all);
    for (int i = 0; i < 2; i++) {
        session_scan_done(&t->scan[i]);
        buf_done(&t->out[i]);
    }
    buf_done(&t->both);
    buf_done(&t->input);
    free(t);
}

static void talk_gone(struct call *c)
{
    struct talk *t = c->state;

    loop_timer_stop(&t->patience);
    watcher_stop(&t->watcher);
}

static struct talk *talk_new(struct call *c, struct process *p)
{
    struct talk *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->call = c;
    t->process = p;
    t->last = &t->commands;
    for (int i = 0; i < 2; i++) {
        session_scan_init(&t->scan[i]);
        buf_init(&t->out[i], OUTPUT_MAX);
    }
    buf_init(&t->both, 2 * OUTPUT_MAX);
    buf_init(&t->input, SESSION_MARK_MAX + 256);
    c->state = t;
    c->on_end = talk_end;
    c->on_gone = talk_gone;
    return t;
}

static void begin_command(struct talk *t, const struct session_event *v)
{
    struct command *n = arena_alloc(&t->call->arena, sizeof *n);
    const char *text = n ? arena_dup(&t->call->arena, v->text) : NULL;

    if (!text) {
        t->too_big = true;
        return;
    }
    *n = (struct command){ .text = { text, v->text.n } };
    snprintf(n->id, sizeof n->id, "%s", v->id);
    *t->last = n;
    t->last = &n->next;
}

static void end_command(struct talk *t, const struct session_event *v)
{
    for (struct command *n = t->commands; n; n = n->next)
        if (strcmp(n->id, v->id) == 0) {
            n->ended = true;
            n->status = v->status;
        }
}

static void take_data(struct talk *t, struct str data)
{
    if (buf_add(&t->out[t->channel], data) < 0 || buf_add(&t->both, data) < 0)
        t->too_big = true;
}

static void take_event(void *user, const struct session_event *v)
{
    struct talk *t = user;
    bool wanted = t->id[0] && strcmp(v->id, t->id) == 0;

    if (v->kind == SESSION_BEGIN && t->channel == 0)
        begin_command(t, v);
    if (v->kind == SESSION_END && t->channel == 0)
        end_command(t, v);
    if (!wanted)
        return;
    t->seen = true;
    if (v->kind == SESSION_DATA)
        take_data(t, v->text);
    if (v->kind == SESSION_END) {
        t->over[t->channel] = true;
        t->status = v->status;
    }
}

static void scan_output(struct talk *t, int channel, struct str data)
{
    t->channel = channel == 2;
    session_scan(&t->scan[t->channel], data, take_event, t);
}

static bool is_over(const struct talk *t)
{
    return t->over[0] && t->over[1];
}

/* A shell that ended took its last command with it. */
static void note_end(struct talk *t, const struct ext_end *end)
{
    for (struct command *n = t->commands; n; n = n->next)
        if (!n->ended) {
            n->ended = true;
            n->status = daytona_exit_code(end);
        }
    if (!is_over(t))
        t->status = daytona_exit_code(end);
    t->over[0] = t->over[1] = true;
}

static void fail_behind(struct watcher *w)
{
    struct talk *t = container_of(w, struct talk, watcher);

    call_fail_with(t->call, 500, "", "the session's output could not be read");
}

/* --- all that there is of one --- */

static void look_over(struct talk *t)
{
    loop_timer_stop(&t->patience);
    watcher_stop(&t->watcher);
    t->done(t);
}

static bool look_output(struct watcher *w, int channel, struct str data)
{
    struct talk *t = container_of(w, struct talk, watcher);

    scan_output(t, channel, data);
    if (t->seen && loop_timer_started(&t->patience))
        look_over(t);
    return true;
}

static void look_late(struct loop_timer *x)
{
    look_over(container_of(x, struct talk, patience));
}

static void look_ended(struct watcher *w, const struct ext_end *end)
{
    struct talk *t = container_of(w, struct talk, watcher);

    note_end(t, end);
    look_over(t);
}

/* A command that the shell has not taken up yet may be about to be. */
static void look_caught_up(struct watcher *w)
{
    struct talk *t = container_of(w, struct talk, watcher);

    if (!t->id[0] || t->seen)
        look_over(t);
    else
        (void)loop_timer_start(t->call->loop, &t->patience, clock_mono() + PATIENCE_NS, look_late,
                               NULL);
}

static const struct watcher_events look_events = { .output = look_output,
                                                   .ended = look_ended,
                                                   .fell_behind = fail_behind,
                                                   .caught_up = look_caught_up };

static void look(struct talk *t, void (*done)(struct talk *t))
{
    t->done = done;
    t->watcher.events = &look_events;
    process_watch(t->process, &t->watcher, false);
}

/* The session that the path names, referenced; NULL: it is answered. */
static struct process *find(struct call *c)
{
    struct process *p = daytona_find(c->sandbox, DAYTONA_SESSION, c->params[1]);

    if (!p)
        call_fail_with(c, 404, "NOT_FOUND", "there is no such session");
    return p;
}

/* With the command that the path names. */
static struct talk *talk_about(struct call *c)
{
    struct process *p = find(c);
    struct talk *t;

    if (!p)
        return NULL;
    t = talk_new(c, p);
    if (!str_copy(c->params[2], t->id, sizeof t->id))
        t->id[0] = '\0';
    return t;
}

/* --- what is told of them --- */

static void write_command(struct json_writer *w, const struct command *n)
{
    struct buf text AUTO(buf_done) = BUF_INIT(SESSION_MARK_MAX);

    (void)session_decode(n->text, &text);
    json_begin_object(w);
    put(w, "id", n->id);
    put_bytes(w, "command", buf_str(&text));
    if (n->ended)
        put_number(w, "exitCode", n->status);
    json_end_object(w);
}

static void write_session(struct json_writer *w, const struct talk *t)
{
    struct process_view v;

    process_view(t->process, &v);
    json_begin_object(w);
    put(w, "sessionId", daytona_tag(&v, DAYTONA_SESSION));
    json_key(w, STR("commands"));
    json_begin_array(w);
    for (const struct command *n = t->commands; n; n = n->next)
        write_command(w, n);
    json_end_array(w);
    json_end_object(w);
}

static void write_one(struct json_writer *w, const void *what)
{
    write_session(w, what);
}

static void answer_session(struct talk *t)
{
    call_answer(t->call, 200, write_one, t);
}

static void get(struct call *c)
{
    struct process *p = find(c);

    if (p)
        look(talk_new(c, p), answer_session);
}

static void write_found(struct json_writer *w, const void *what)
{
    write_command(w, what);
}

static void answer_command(struct talk *t)
{
    for (const struct command *n = t->commands; n; n = n->next)
        if (strcmp(n->id, t->id) == 0) {
            call_answer(t->call, 200, write_found, n);
            return;
        }
    call_fail_with(t->call, 404, "NOT_FOUND", "there is no such command");
}

static void get_command(struct call *c)
{
    struct talk *t = talk_about(c);

    if (t)
        look(t, answer_command);
}

static void put_output(struct json_writer *w, const struct talk *t)
{
    put_bytes(w, "output", buf_str(&t->both));
    put_bytes(w, "stdout", buf_str(&t->out[0]));
    put_bytes(w, "stderr", buf_str(&t->out[1]));
}

static void write_logs(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    put_output(w, what);
    json_end_object(w);
}

static void answer_logs(struct talk *t)
{
    if (!t->seen)
        call_fail_with(t->call, 404, "NOT_FOUND", "there is no such command");
    else if (t->too_big)
        call_fail_with(t->call, 413, "", "the command wrote more than 8 MiB: follow its logs");
    else
        call_answer(t->call, 200, write_logs, t);
}

/* --- the list --- */

static void add_session(void *user, struct process *p)
{
    struct talk *t = user;
    struct process_view v;

    process_view(p, &v);
    if (daytona_tag(&v, DAYTONA_SESSION) && t->n < PROCESSES_MAX)
        t->all[t->n++] = process_ref(p);
}

static void list_next(struct talk *t);

static void list_one(struct talk *t)
{
    struct json_writer w;

    if (t->both.n > 1)
        buf_add_c(&t->both, ',');
    json_writer_init(&w, &t->both, JSON_COMPACT);
    write_session(&w, t);
    if (json_writer_finish(&w, NULL) < 0)
        t->too_big = true;
    t->commands = NULL;
    t->last = &t->commands;
    list_next(t);
}

static void list_next(struct talk *t)
{
    process_unref(take_ptr(t->process));
    if (t->too_big) {
        call_fail_with(t->call, 413, "", "there is more than fits into an answer");
        return;
    }
    if (t->at == t->n) {
        buf_add_c(&t->both, ']');
        call_answer_bytes(t->call, 200, "application/json", buf_str(&t->both));
        return;
    }
    t->process = t->all[t->at++];
    for (int i = 0; i < 2; i++) {
        session_scan_done(&t->scan[i]);
        session_scan_init(&t->scan[i]);
    }
    look(t, list_one);
}

static void list(struct call *c)
{
    struct talk *t = talk_new(c, NULL);

    t->all = calloc(PROCESSES_MAX, sizeof(struct process *));
    if (!t->all)
        abort();
    process_each(c->sandbox, add_session, t);
    buf_add_c(&t->both, '[');
    list_next(t);
}

/* --- create and delete --- */

struct create_session {
    const char *id;
};

static const struct json_field create_fields[] = {
    { "sessionId", JSON_KIND_STR, JSON_AT(struct create_session, id), .required = true },
};

static void write_created(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    put(w, "sessionId", what);
    json_end_object(w);
}

static void started(struct process_op *op, int r, const struct err *e)
{
    struct talk *t = container_of(op, struct talk, op);
    struct call *c = t->call;

    if (r >= 0)
        t->process = take_ptr(op->process);
    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 201, write_created, t->tag + strlen(DAYTONA_SESSION));
    call_unref(c);
}

static void start(struct call *c, const char *id)
{
    const char **argv = arena_array(&c->own, 6, sizeof *argv);
    struct talk *t = talk_new(c, NULL);
    char key[ID_MAX];
    struct err e;

    if (!argv)
        abort();
    if (id_make("key_", key, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    snprintf(t->tag, sizeof t->tag, DAYTONA_SESSION "%s", id);
    argv[0] = "sh";
    argv[1] = "-c";
    argv[2] = launcher;
    argv[3] = "sh";
    argv[4] = driver;
    argv[5] = arena_dup(&c->own, str_from(key));
    t->request = (struct process_request){ .argv = { argv, 6 },
                                           .cwd = DAYTONA_HOME,
                                           .user = DAYTONA_USER,
                                           .tag = t->tag,
                                           .stdin_ = true,
                                           .background = true,
                                           .helper = PROCESS_SESSION,
                                           .rows = 24,
                                           .cols = 80 };
    t->op.request = &t->request;
    t->op.done = started;
    call_ref(c);
    t->op.programs = guard_starts_programs(c);
    process_start(c->sandbox, &c->caller.actor, &t->op);
}

static void create(struct call *c)
{
    struct create_session q = { 0 };
    struct process *p;

    if (!daytona_read(c, create_fields, COUNT_OF(create_fields), &q) ||
        !daytona_name_good(c, str_from(q.id)))
        return;
    p = daytona_find(c->sandbox, DAYTONA_SESSION, str_from(q.id));
    if (p) {
        process_unref(p);
        call_fail_with(c, 409, "CONFLICT", "there is a session of that name already");
    } else if (daytona_count(c->sandbox, DAYTONA_SESSION) >= DAYTONA_RUNNING_MAX) {
        call_fail_with(c, 429, "", "this sandbox has as many sessions as it may have");
    } else {
        start(c, q.id);
    }
}

static void remove_session(struct call *c)
{
    struct process *p = find(c);

    if (p)
        daytona_remove(c, p);
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
    const struct talk *t = what;

    json_begin_object(w);
    put(w, "cmdId", t->id);
    if (is_over(t)) {
        put_number(w, "exitCode", t->status);
        put_output(w, t);
    }
    json_end_object(w);
}

static void answer_run(struct talk *t)
{
    loop_timer_stop(&t->patience);
    watcher_stop(&t->watcher);
    if (t->too_big)
        call_fail_with(t->call, 413, "", "the command wrote more than 8 MiB: follow its logs");
    else
        call_answer(t->call, is_over(t) ? 200 : 202, write_run, t);
}

static bool run_output(struct watcher *w, int channel, struct str data)
{
    struct talk *t = container_of(w, struct talk, watcher);

    scan_output(t, channel, data);
    if (is_over(t) || (t->async && t->seen))
        answer_run(t);
    return true;
}

static void run_late(struct loop_timer *x)
{
    answer_run(container_of(x, struct talk, patience));
}

static void await_begin(struct talk *t)
{
    (void)loop_timer_start(t->call->loop, &t->patience, clock_mono() + PATIENCE_NS, run_late, NULL);
}

static void run_ended(struct watcher *w, const struct ext_end *end)
{
    struct talk *t = container_of(w, struct talk, watcher);

    note_end(t, end);
    answer_run(t);
}

static void give_input(struct talk *t)
{
    while (t->input.n) {
        ssize_t n = process_stdin(t->process, buf_str(&t->input), NULL);

        if (n <= 0) /* full: `room` comes; or over, which is told */
            return;
        buf_drop(&t->input, (size_t)n);
    }
    if (t->done)
        t->done(t);
}

static void run_room(struct watcher *w)
{
    give_input(container_of(w, struct talk, watcher));
}

static const struct watcher_events run_events = {
    .output = run_output, .ended = run_ended, .fell_behind = fail_behind, .room = run_room
};

/* A line of its own, whatever the command before has left unread. */
static int write_line(struct talk *t, const char *command, struct err *e)
{
    struct process_view v;
    int r = id_make("cmd_", t->id, e);

    process_view(t->process, &v);
    if (r >= 0 &&
        (buf_addf(&t->input, "\n%s %s ", v.request->argv.p[v.request->argv.n - 1], t->id) < 0 ||
         session_encode(str_from(command), &t->input) < 0 || buf_add_c(&t->input, '\n') < 0))
        r = err_set(e, ERR_TOO_BIG, "command: is too long");
    return r;
}

static void execute(struct call *c)
{
    struct exec_session q = { 0 };
    struct process_view v;
    struct process *p;
    struct talk *t;
    struct err e;

    if (!daytona_read(c, exec_fields, COUNT_OF(exec_fields), &q))
        return;
    p = find(c);
    if (!p)
        return;
    t = talk_new(c, p);
    process_view(p, &v);
    if (v.ended) {
        call_fail_with(c, 410, "SESSION_ENDED", "the session's shell has ended");
    } else if (write_line(t, q.command, &e) < 0) {
        call_fail(c, &e);
    } else {
        t->async = q.async || q.run_async;
        t->done = t->async ? await_begin : NULL;
        t->watcher.events = &run_events;
        process_watch(p, &t->watcher, true);
        give_input(t);
    }
}

struct input_request {
    const char *data;
};

static const struct json_field input_fields[] = {
    { "data", JSON_KIND_STR, JSON_AT(struct input_request, data), .required = true,
      .max = INPUT_WHOLE_MAX },
};

static void send_input(struct call *c)
{
    struct input_request q = { 0 };
    struct process *p;

    if (!daytona_read(c, input_fields, COUNT_OF(input_fields), &q))
        return;
    p = find(c);
    if (p)
        input_whole(c, p, str_from(q.data), call_answer_empty);
}

/* --- following --- */

static void follow_closed(struct ws *w, int code)
{
    struct talk *t = container_of(w, struct talk, ws);
    struct call *c = t->call;

    (void)code;
    watcher_stop(&t->watcher);
    c->x = NULL;
    meters_ended(c, CALL_STREAMED);
    call_unref(c); /* the exchange's */
}

static void follow_drain(struct ws *w)
{
    watcher_resume(&container_of(w, struct talk, ws)->watcher);
}

static void follow_message(struct ws *w, enum frame_op op, struct str data)
{
    (void)w; /* nothing is asked here */
    (void)op;
    (void)data;
}

/* What there is of the command now, stream by stream; false: the client is full. */
static bool send_taken(struct talk *t)
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
        ws_close(&t->ws, CLOSE_FAILED, STR("output could not be told"));
    return r == 0;
}

static bool follow_output(struct watcher *w, int channel, struct str data)
{
    struct talk *t = container_of(w, struct talk, watcher);
    bool more;

    scan_output(t, channel, data);
    more = send_taken(t);
    if (is_over(t)) {
        watcher_stop(w);
        ws_close(&t->ws, CLOSE_DONE, STR(""));
    }
    return more;
}

static void follow_ended(struct watcher *w, const struct ext_end *end)
{
    struct talk *t = container_of(w, struct talk, watcher);

    (void)end;
    ws_close(&t->ws, CLOSE_DONE, STR(""));
}

static void follow_behind(struct watcher *w)
{
    struct talk *t = container_of(w, struct talk, watcher);

    ws_close(&t->ws, CLOSE_FAILED, STR("the client does not read"));
}

static const struct watcher_events follow_events = { .output = follow_output,
                                                     .ended = follow_ended,
                                                     .fell_behind = follow_behind };

static void follow(struct talk *t)
{
    const struct ws_config config = { .on_message = follow_message,
                                      .on_closed = follow_closed,
                                      .on_drain = follow_drain };
    struct err e;

    if (ws_accept(&t->ws, t->call->x, &config, &e) < 0) {
        call_fail(t->call, &e);
        return;
    }
    t->watcher.events = &follow_events;
    process_watch(t->process, &t->watcher, false);
}

static void logs(struct call *c)
{
    bool follows = ws_wanted(http_request(c->x));
    struct talk *t = talk_about(c);

    if (!t)
        return;
    if (follows)
        follow(t);
    else
        look(t, answer_logs);
}

static void no_entrypoint(struct call *c)
{
    call_fail_with(c, 404, "NOT_FOUND", "sandboxes have no entrypoint here");
}

#define SESSION DAYTONA_INSIDE "/process/session"
#define COMMAND SESSION "/{session}/command/{command}"
#define ROW(method, path, flags, handler)                                                          \
    {                                                                                              \
        method, VERB_EXEC, path, DAYTONA_LIVE | (flags), handler, .face = &toolbox_face            \
    }

const struct route routes_daytona_sessions[] = {
    ROW(H1_GET, SESSION "/entrypoint", 0, no_entrypoint),
    ROW(H1_GET, SESSION "/entrypoint/logs", 0, no_entrypoint),
    ROW(H1_POST, SESSION, ROUTE_JSON, create),
    ROW(H1_GET, SESSION, 0, list),
    ROW(H1_GET, SESSION "/{session}", 0, get),
    ROW(H1_DELETE, SESSION "/{session}", 0, remove_session),
    ROW(H1_POST, SESSION "/{session}/exec", ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG, execute),
    ROW(H1_GET, COMMAND, 0, get_command),
    ROW(H1_GET, COMMAND "/logs", ROUTE_LONG, logs),
    ROW(H1_POST, COMMAND "/input", ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG, send_input),
    { .path = NULL },
};
