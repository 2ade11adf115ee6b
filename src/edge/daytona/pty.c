/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals of the toolbox: background processes with a terminal, which clients attach to and
 * detach from by WebSocket. */
#include "edge/daytona/internal.h"
#include "base/own.h"
#include "edge/core/guard.h"
#include "lib/crypto/encode.h"
#include "lib/http/websocket.h"

enum {
    INPUT_MAX = 2 << 20,
    SIZE_MAX_ = 10000,
    ENVS_MAX = 64 << 10,
    CLOSE_DONE = 1000,
    CLOSE_FAILED = 1011
};

#define EXIT_CONTROL "X-Daytona-Pty-Exit-Control"
#define ENVS         "X-Daytona-Pty-Envs~"

struct pty_request {
    const char *id, *cwd;
    uint16_t cols, rows;
    struct json_map env;
    bool lazy;
};

#define AT(member) JSON_AT(struct pty_request, member)

static const struct json_field pty_fields[] = {
    { "id", JSON_KIND_STR, AT(id) },
    { "cwd", JSON_KIND_STR, AT(cwd), .max = 4095 },
    { "cols", JSON_KIND_UINT, AT(cols), .max = SIZE_MAX_ },
    { "rows", JSON_KIND_UINT, AT(rows), .max = SIZE_MAX_ },
    { "envs", JSON_KIND_MAP, AT(env), .max = PROCESS_ENV_MAX },
    { "lazyStart", JSON_KIND_BOOL, AT(lazy) },
};

struct pty {
    struct background terminal;
    struct ws ws;
    bool tells_exit; /* the client understands exit messages */
};

static struct pty *pty_of(struct watcher *w)
{
    return container_of(w, struct pty, terminal.watcher);
}

/* --- messages --- */

/* A control message if it has a status, and the end of the terminal if that is given. */
static void write_pty_message(struct buf *out, const char *status, const struct backend_end *end)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_object(&w);
    if (status) {
        json_field_text(&w, "type", "control");
        json_field_text(&w, "status", status);
    }
    if (end)
        json_field_int(&w, "exitCode", daytona_exit_code(end));
    if (end && end->how != BACKEND_EXITED)
        json_field_text(&w, "exitReason",
                        end->how == BACKEND_LOST ? "the sandbox ended" : "it was killed");
    json_end_object(&w);
    json_writer_finish(&w, NULL);
}

static void send_control(struct pty *p, const char *status, const struct backend_end *end)
{
    struct buf text AUTO(buf_done) = BUF_INIT(512);

    write_pty_message(&text, status, end);
    (void)ws_send(&p->ws, FRAME_TEXT, buf_str(&text), NULL);
}

static void send_pty_input(struct pty *p)
{
    int r = background_send_input(&p->terminal, NULL);

    if (r < 0)
        buf_clear(&p->terminal.input); /* ended: on_pty_ended() reports it */
    if (r > 0)
        ws_resume(&p->ws);
}

static void on_pty_message(struct ws *w, enum frame_op op, struct str data)
{
    struct pty *p = container_of(w, struct pty, ws);

    /* text frames are input as well */
    if (buf_add(&p->terminal.input, data) < 0) {
        ws_close(w, CLOSE_FAILED, STR("too much input"));
        return;
    }
    ws_pause(w);
    send_pty_input(p);
}

static void on_pty_closed(struct ws *w, int code)
{
    struct pty *p = container_of(w, struct pty, ws);

    call_take_exchange(p->terminal.call);
    watcher_stop(&p->terminal.watcher); /* the terminal continues */
}

static void on_pty_drain(struct ws *w)
{
    watcher_resume(&container_of(w, struct pty, ws)->terminal.watcher);
}

/* --- the terminal --- */

static bool on_pty_output(struct watcher *w, int channel, struct str data)
{
    struct pty *p = pty_of(w);
    int r = ws_send(&p->ws, FRAME_BINARY, data, NULL);

    if (r < 0)
        ws_close(&p->ws, CLOSE_FAILED, STR("sending output failed"));
    return r == 0;
}

static void on_pty_ended(struct watcher *w, const struct backend_end *end)
{
    struct pty *p = pty_of(w);
    struct buf text AUTO(buf_done) = BUF_INIT(256);

    if (p->tells_exit)
        send_control(p, "exited", end);
    write_pty_message(&text, NULL, end);
    ws_close(&p->ws, CLOSE_DONE, buf_str(&text));
}

static void on_pty_behind(struct watcher *w)
{
    ws_close(&pty_of(w)->ws, CLOSE_FAILED, STR("the client reads too slowly"));
}

static void on_pty_room(struct watcher *w)
{
    send_pty_input(pty_of(w));
}

static const struct watcher_events events = { .output = on_pty_output,
                                              .ended = on_pty_ended,
                                              .fell_behind = on_pty_behind,
                                              .room = on_pty_room };

/* Chooses one of the subprotocols that the client offers; p == NULL if it offers none. */
static struct str choose_pty_protocol(const struct call *c, bool *ret_exit)
{
    struct str rest = call_header(c, "Sec-WebSocket-Protocol"), word, first = { NULL, 0 };

    *ret_exit = false;
    while (rest.n) {
        rest = str_cut(rest, ',', &word);
        word = str_trim(word);
        *ret_exit |= str_eq(word, STR(EXIT_CONTROL));
        if (word.n && !first.p)
            first = word;
    }
    return *ret_exit ? STR(EXIT_CONTROL) : first;
}

static void serve_pty_socket(struct pty *p, bool live_only)
{
    struct ws_config config = { .on_message = on_pty_message,
                                .on_closed = on_pty_closed,
                                .on_drain = on_pty_drain };
    struct call *c = p->terminal.call;
    struct err e;

    config.protocol = choose_pty_protocol(c, &p->tells_exit);
    if (ws_accept(&p->ws, c->x, &config, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    send_control(p, "connected", NULL);
    background_watch(&p->terminal, &events, live_only);
}

/* --- creating a terminal --- */

static void on_pty_created(struct background *b, int r, const struct err *e)
{
    if (r < 0)
        call_fail(b->call, e);
    else
        daytona_answer_created(b->call, b->request.tag + strlen(DAYTONA_PTY));
}

static void on_pty_created_to_connect(struct background *b, int r, const struct err *e)
{
    if (r < 0)
        call_fail(b->call, e);
    else
        serve_pty_socket(container_of(b, struct pty, terminal), false);
}

static struct json_map with_term(struct call *c, const struct json_map *env)
{
    struct json_pair *all = call_alloc(c, env->n + 1, sizeof *all);

    all[0] = (struct json_pair){ "TERM", "xterm-256color" };
    for (size_t i = 0; i < env->n; i++)
        all[1 + i] = env->p[i];
    for (size_t i = 0; i < env->n; i++)
        if (strcmp(env->p[i].key, "TERM") == 0)
            return *env;
    return (struct json_map){ all, env->n + 1 };
}

static void start_pty(struct call *c, const struct pty_request *q, background_started_fn *started)
{
    static const char *const argv[] = {
        "sh", "-c", "if command -v bash >/dev/null; then exec bash -i; fi; exec sh -i"
    };
    const struct process_request request = { .argv = { argv, COUNT_OF(argv) },
                                             .env = with_term(c, &q->env),
                                             .cwd = daytona_path(c, str_from(q->cwd)),
                                             .user = DAYTONA_USER,
                                             .tag = background_tag(c, DAYTONA_PTY, q->id),
                                             .stdin_ = true,
                                             .tty = true,
                                             .background = true,
                                             .helper = PROCESS_SHELL,
                                             .rows = q->rows ? q->rows : 24,
                                             .cols = q->cols ? q->cols : 80 };
    struct err e;

    if (!request.cwd)
        return;
    if (process_request_check(&request, &e) < 0)
        call_fail(c, &e);
    else
        background_start(background_new(c, sizeof(struct pty), INPUT_MAX, NULL), &request, started);
}

/* Returns false after it has answered the call. */
static bool check_new_pty(struct call *c, struct pty_request *q)
{
    struct process *p;
    char id[ID_MAX];
    struct err e;

    if (!q->id || !q->id[0]) {
        if (id_make("pty_", id, &e) < 0) {
            call_fail(c, &e);
            return false;
        }
        q->id = arena_dup(&c->own, str_from(id));
    }
    if (!daytona_name_good(c, str_from(q->id)))
        return false;
    p = background_find(c->sandbox, DAYTONA_PTY, str_from(q->id));
    if (p) {
        process_unref(p);
        call_fail_with(c, 409, "CONFLICT", "terminal '%s' already exists; choose another id",
                       q->id);
        return false;
    }
    if (background_count(c->sandbox, DAYTONA_PTY) < DAYTONA_RUNNING_MAX)
        return true;
    call_fail_with(c, 429, "", "this sandbox has %d terminals, the maximum; remove some",
                   DAYTONA_RUNNING_MAX);
    return false;
}

static void create_pty(struct call *c)
{
    struct pty_request q = { 0 };

    if (daytona_read_body(c, pty_fields, COUNT_OF(pty_fields), &q) && check_new_pty(c, &q))
        start_pty(c, &q, on_pty_created);
}

/* Decodes base64url without padding; also base64. */
static int unbase64_url(struct str text, struct buf *out, struct err *e)
{
    struct buf plain AUTO(buf_done) = BUF_INIT(2 * ENVS_MAX);

    for (size_t i = 0; i < text.n; i++)
        buf_add_c(&plain, (char)(text.p[i] == '-' ? '+' : text.p[i] == '_' ? '/' : text.p[i]));
    while (plain.n % 4)
        buf_add_c(&plain, '=');
    return crypto_unbase64(buf_str(&plain), out, e);
}

/* Reads the variables, which are encoded in one of the offered subprotocols. */
static int read_envs(struct call *c, struct json_map *ret, struct err *e)
{
    struct buf text AUTO(buf_done) = BUF_INIT(ENVS_MAX);
    struct str rest = call_header(c, "Sec-WebSocket-Protocol"), word;
    int r = 0;

    while (r >= 0 && rest.n) {
        rest = str_cut(rest, ',', &word);
        word = str_trim(word);
        if (!str_starts(word, STR(ENVS)))
            continue;
        word = (struct str){ word.p + strlen(ENVS), word.n - strlen(ENVS) };
        buf_clear(&text);
        r = unbase64_url(word, &text, e);
        if (r >= 0)
            r = daytona_read_map(c, buf_str(&text), PROCESS_ENV_MAX, ret, e);
    }
    return r < 0 ? err_wrap(e, r, "reading the terminal's variables") : 0;
}

/* Returns false after it has answered the call. */
static bool read_pty_query(struct call *c, struct pty_request *q)
{
    struct str id = { NULL, 0 }, cwd = { NULL, 0 };
    uint64_t cols = 0, rows = 0;
    struct err e;

    if (call_query(c, "id", &id) < 0 || call_query(c, "cwd", &cwd) < 0 ||
        call_query_number(c, "cols", SIZE_MAX_, &cols) < 0 ||
        call_query_number(c, "rows", SIZE_MAX_, &rows) < 0)
        return false;
    *q = (struct pty_request){ .id = arena_dup(&c->own, id),
                               .cwd = arena_dup(&c->own, cwd),
                               .cols = (uint16_t)cols,
                               .rows = (uint16_t)rows };
    if (read_envs(c, &q->env, &e) >= 0)
        return true;
    call_fail(c, &e);
    return false;
}

static void create_connect(struct call *c)
{
    struct pty_request q;

    if (daytona_wants_socket(c) && read_pty_query(c, &q) && check_new_pty(c, &q))
        start_pty(c, &q, on_pty_created_to_connect);
}

/* --- existing terminals --- */

/* Returns a reference, or NULL after it has answered the call. */
static struct process *find_pty(struct call *c)
{
    struct process *p = background_find(c->sandbox, DAYTONA_PTY, c->params[1]);

    if (!p)
        call_fail_missing(c, "terminal", c->params[1]);
    return p;
}

static void connect_pty(struct call *c)
{
    struct process *process;
    struct pty *p;

    if (!daytona_wants_socket(c) || !(process = find_pty(c)))
        return;
    p = background_new(c, sizeof *p, INPUT_MAX, NULL);
    p->terminal.process = process;
    serve_pty_socket(p, true);
}

struct pty_shown {
    const struct process *process;
    bool may_exec;       /* of the caller, in the sandbox */
    uint16_t rows, cols; /* 0: the size at creation */
};

static void write_pty(struct json_writer *w, const void *what)
{
    const struct pty_shown *s = what;
    struct process_view v;

    process_view(s->process, &v);
    json_begin_object(w);
    json_field_text(w, "id", background_name(&v, DAYTONA_PTY));
    json_field_bool(w, "active", !v.ended);
    json_field_int(w, "cols", s->cols ? s->cols : v.request->cols);
    json_field_int(w, "rows", s->rows ? s->rows : v.request->rows);
    json_field_text(w, "cwd", v.request->cwd ? v.request->cwd : "/");
    json_field_bool(w, "lazyStart", false);
    time_write(w, "createdAt", v.started_ns);
    json_key(w, STR("envs"));
    guard_write_env(w, &v.request->env, s->may_exec);
    json_end_object(w);
}

static void show_pty(struct call *c)
{
    struct process *p = find_pty(c);

    if (!p)
        return;
    call_answer(c, 200, write_pty,
                &(struct pty_shown){ .process = p, .may_exec = guard_may_exec(c, c->sandbox) });
    process_unref(p);
}

struct pty_list {
    struct json_writer *writer;
    bool may_exec;
};

static void write_listed_pty(void *user, struct process *p)
{
    const struct pty_list *l = user;
    struct process_view v;

    process_view(p, &v);
    if (background_name(&v, DAYTONA_PTY))
        write_pty(l->writer, &(struct pty_shown){ .process = p, .may_exec = l->may_exec });
}

static void write_pty_list(struct json_writer *w, const void *what)
{
    const struct call *c = what;
    struct pty_list l = { w, guard_may_exec(c, c->sandbox) };

    json_begin_object(w);
    json_field_begin_array(w, "sessions");
    process_each(c->sandbox, write_listed_pty, &l);
    json_end_array(w);
    json_end_object(w);
}

static void list_ptys(struct call *c)
{
    call_answer(c, 200, write_pty_list, c);
}

static void remove_pty(struct call *c)
{
    struct process *p = find_pty(c);

    if (p)
        background_remove(c, p);
}

static const struct json_field size_fields[] = {
    { "cols", JSON_KIND_UINT, AT(cols), .required = true, .min = 1, .max = SIZE_MAX_ },
    { "rows", JSON_KIND_UINT, AT(rows), .required = true, .min = 1, .max = SIZE_MAX_ },
};

static void resize_pty(struct call *c)
{
    struct pty_request q = { 0 };
    struct process *p;
    struct err e;

    if (!daytona_read_body(c, size_fields, COUNT_OF(size_fields), &q) || !(p = find_pty(c)))
        return;
    if (process_resize(p, q.rows, q.cols, &e) < 0)
        call_fail(c, &e);
    else
        call_answer(
            c, 200, write_pty,
            &(struct pty_shown){ .process = p, .may_exec = true, .rows = q.rows, .cols = q.cols });
    process_unref(p);
}

#define PTY                               DAYTONA_INSIDE "/process/pty"
#define ROW(method, path, flags, handler) DAYTONA_ROUTE(method, VERB_EXEC, PTY path, flags, handler)

const struct route routes_daytona_pty[] = {
    ROW(H1_GET, "/create-connect", ROUTE_LONG, create_connect),
    ROW(H1_POST, "", ROUTE_JSON, create_pty),
    ROW(H1_GET, "", 0, list_ptys),
    ROW(H1_GET, "/{pty}/connect", ROUTE_LONG, connect_pty),
    ROW(H1_GET, "/{pty}", 0, show_pty),
    ROW(H1_DELETE, "/{pty}", 0, remove_pty),
    ROW(H1_POST, "/{pty}/resize", ROUTE_JSON, resize_pty),
    { .path = NULL },
};
