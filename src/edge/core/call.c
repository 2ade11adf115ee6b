/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/rfc3339.h"
#include "base/units.h"
#include "edge/core/guard.h"
#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "trust/verdict.h"

enum { FILE_PIECE = 256 << 10 };

struct call *call_ref(struct call *c)
{
    c->refs++;
    return c;
}

struct call_ending_ {
    struct call_ending_ *older;
    void (*on_end)(void *state);
    void *state;
};

static void add_call_ending(struct call *c, void (*on_end)(void *state), void *state)
{
    struct call_ending_ *x = call_alloc(c, 1, sizeof *x);

    *x = (struct call_ending_){ c->endings_, on_end, state };
    c->endings_ = x;
}

static void release_owned_buf(void *b)
{
    buf_done(b);
}

static void release_owned_arena(void *a)
{
    arena_done(a);
}

static void release_owned_fd(void *fd)
{
    drop_fd(fd);
}

void call_own_buf(struct call *c, struct buf *b, size_t max)
{
    buf_init(b, max);
    add_call_ending(c, release_owned_buf, b);
}

void call_own_arena(struct call *c, struct arena *a, size_t max)
{
    arena_init(a, max);
    add_call_ending(c, release_owned_arena, a);
}

void call_own_fd(struct call *c, int *fd)
{
    *fd = -1;
    add_call_ending(c, release_owned_fd, fd);
}

void *call_alloc(struct call *c, size_t n, size_t size)
{
    void *p = arena_array(&c->own, n, size);

    if (!p)
        abort();
    return p;
}

void *call_state(struct call *c, size_t size, void (*on_end)(void *state))
{
    c->state = call_alloc(c, 1, size);
    if (on_end)
        add_call_ending(c, on_end, c->state);
    return c->state;
}

static void call_free(struct loop_later *l)
{
    struct call *c = container_of(l, struct call, later);
    struct api *a = c->api;

    for (struct call_ending_ *x = c->endings_; x; x = x->older)
        x->on_end(x->state);
    link_leave(&c->listening);
    quota_drop(&c->in_flight);
    /* Operations that control completes while it closes still reach calls that outlive the api. */
    if (--a->calls == 0 && a->over)
        api_release(a);
    if (c->one_shot)
        sandbox_destroy(c->sandbox, &c->caller.actor, "its program ended", DESTROY_NO_SYNC, NULL);
    if (c->sandbox)
        sandbox_unref(c->sandbox);
    find_op_done(&c->find);
    guard_done(c);
    arena_done(&c->arena);
    arena_done(&c->own);
    free(c);
}

/* Frees the call later: a function on the stack may still check whether its operation was
 * cancelled. */
void call_unref(struct call *c)
{
    if (--c->refs == 0)
        loop_later(c->loop, &c->later, call_free, NULL);
}

/* --- answers --- */

/* Ends the exchange; pending operations find no client to answer. */
struct http_exchange *call_take_exchange(struct call *c)
{
    struct http_exchange *x = take_ptr(c->x);

    meters_ended(c, CALL_STREAMED);
    call_unref(c); /* the reference of the exchange */
    return x;
}

const char *call_client(const struct call *c)
{
    const struct dialect *d = c->dialect;

    if (!d)
        return NULL;
    if (d->native && c->x && str_starts(call_header(c, "User-Agent"), STR("sandboxer/")))
        return "cli";
    return d->client ? d->client : d->name;
}

bool call_wants_head(const struct call *c)
{
    return http_request(c->x)->method == H1_HEAD;
}

bool call_end_head(struct call *c)
{
    if (!call_wants_head(c))
        return false;
    http_end(call_take_exchange(c));
    return true;
}

bool call_begin_lines(struct call *c, void (*on_drain)(struct http_exchange *x))
{
    static const struct h1_field fields[] = { { STR("Content-Type"), STR("application/x-ndjson") },
                                              { STR("Cache-Control"), STR("no-store") } };
    struct err e;

    if (http_begin(c->x, 200, fields, COUNT_OF(fields), HTTP_UNKNOWN, &e) < 0) {
        call_fail(c, &e);
        return false;
    }
    if (call_end_head(c))
        return false;
    http_on_drain(c->x, on_drain);
    return true;
}

/* Sends until the client is full. The state is the descriptor. */
static void send_file_bytes(struct http_exchange *x)
{
    static char piece[FILE_PIECE];
    struct call *c = http_state(x);
    const int *fd = c->state;
    int r = 0;

    while (r == 0) {
        ssize_t n = read(*fd, piece, sizeof piece);

        if (n <= 0) { /* http_end() cuts if the file is shorter than announced */
            http_end(call_take_exchange(c));
            return;
        }
        r = http_write(x, (struct str){ piece, (size_t)n }, NULL);
    }
    if (r < 0)
        http_cut(call_take_exchange(c));
}

void call_answer_file(struct call *c, int fd, const struct h1_field *fields, size_t n)
{
    struct stat st;
    struct err e;
    int r = fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0
                ? err_sys(&e, "reading the file")
                : http_begin(c->x, 200, fields, n, st.st_size, &e);

    if (r < 0) {
        call_fail(c, &e);
    } else if (!call_end_head(c)) {
        *(int *)call_state(c, sizeof fd, NULL) = fd;
        http_on_drain(c->x, send_file_bytes);
        send_file_bytes(c->x);
    }
}

#define FIELD(name, value) ((struct h1_field){ STR(name), str_from(value) })

enum { FIELDS_MAX = 4 };

static void send_response(struct call *c, int status, const struct h1_field *fields, size_t n,
                          struct str body)
{
    struct h1_field all[FIELDS_MAX + 1];
    struct err e;

    call_ref(c);
    for (size_t i = 0; i < n && i < FIELDS_MAX; i++)
        all[i] = fields[i];
    if (c->sandbox && sandbox_kept_snapshot(c->sandbox)[0])
        all[n++] = FIELD(CALL_KEPT, sandbox_kept_snapshot(c->sandbox));
    meters_ended(c, (enum call_outcome)(status / 100 - 2));
    if (http_respond(c->x, status, all, n, body, &e) < 0)
        http_fail(c->x, 500, str_from(e.msg));
    call_take_exchange(c);
    call_unref(c);
}

static void send_call_answer(struct call *c, int status, const char *type, const char *location,
                             struct str body)
{
    struct h1_field fields[FIELDS_MAX] = { FIELD("Content-Type", type),
                                           FIELD("Cache-Control", "no-store") };
    size_t n = 2;

    if (location)
        fields[n++] = FIELD("Location", location);
    if (status == 503 || status == 429)
        fields[n++] = FIELD("Retry-After", "1");
    if (status == 401)
        fields[n++] = FIELD("WWW-Authenticate", "Bearer");
    if (c->audit[0])
        http_also(c->x, FIELD(CALL_AUDIT, c->audit));
    send_response(c, status, fields, n, body);
}

void call_answer_with(struct call *c, int status, const char *name, const char *value,
                      struct str json)
{
    const struct h1_field fields[] = { FIELD("Content-Type", "application/json"),
                                       FIELD("Cache-Control", "no-store"),
                                       { str_from(name), str_from(value) } };

    if (c->x)
        send_response(c, status, fields, COUNT_OF(fields), json);
}

void call_answer_bytes(struct call *c, int status, const char *type, struct str body)
{
    if (c->x)
        send_call_answer(c, status, type, NULL, body);
}

void call_answer_written(struct call *c, struct json_writer *w, const struct buf *text,
                         const struct err *e)
{
    struct err why;

    if (!e && json_writer_finish(w, &why) < 0)
        e = &why;
    if (e)
        call_fail(c, e);
    else
        call_answer_bytes(c, 200, "application/json", buf_str(text));
}

void call_answer_empty(struct call *c)
{
    static const struct h1_field fields[] = { { { "Cache-Control", 13 }, { "no-store", 8 } } };

    if (c->x)
        send_response(c, 204, fields, COUNT_OF(fields), STR(""));
}

void call_answer_at(struct call *c, int status, const char *location, call_write_fn *write,
                    const void *what)
{
    struct buf text AUTO(buf_done) = BUF_INIT(CALL_ANSWER_MAX);
    struct json_writer w;
    struct err e;

    if (!c->x)
        return;
    json_writer_init(&w, &text, JSON_COMPACT);
    write(&w, what);
    if (json_writer_finish(&w, &e) < 0)
        call_fail(c, &e);
    else if (buf_add_c(&text, '\n') < 0)
        call_fail_with(c, 500, "internal",
                       "the answer is longer than %d bytes; request less at once", CALL_ANSWER_MAX);
    else
        send_call_answer(c, status, "application/json", location, buf_str(&text));
}

void call_answer(struct call *c, int status, call_write_fn *write, const void *what)
{
    call_answer_at(c, status, NULL, write, what);
}

struct shaped_answer {
    const struct json_shape *shape;
    const void *in;
};

static void write_shaped_answer(struct json_writer *w, const void *what)
{
    const struct shaped_answer *a = what;

    json_put_shape(w, a->shape, a->in);
}

void call_answer_as(struct call *c, int status, const struct json_shape *s, const void *in)
{
    call_answer(c, status, write_shaped_answer, &(struct shaped_answer){ s, in });
}

void call_answer_route(struct call *c)
{
    call_answer_as(c, 200, c->route->with, c);
}

void call_progress_of(struct call *c, const char *step, uint64_t bytes, uint64_t total)
{
    struct h1_field fields[] = { FIELD("Progress-Step", step), FIELD("Progress-Bytes", ""),
                                 FIELD("Progress-Total", "") };
    char number[24], all[24];

    if (!c->x || !call_prefers(c, "progress"))
        return;
    snprintf(number, sizeof number, "%llu", (unsigned long long)bytes);
    snprintf(all, sizeof all, "%llu", (unsigned long long)total);
    fields[1].value = str_from(number);
    fields[2].value = str_from(all);
    /* A failure is ignored: the final answer counts. */
    (void)http_interim(c->x, fields, total ? 3 : bytes ? 2 : 1, NULL);
}

void call_progress(struct call *c, const char *step, uint64_t bytes)
{
    call_progress_of(c, step, bytes, 0);
}

/* --- problems --- */

static const struct {
    int status;
    const char *code, *title;
} problems[ERR_CODE_COUNT_] = {
    [ERR_OK] = { 500, "bug", "Internal error" },
    [ERR_INVALID] = { 400, "invalid", "Invalid request" },
    [ERR_DENIED] = { 403, "denied", "Not allowed" },
    [ERR_NOT_FOUND] = { 404, "not_found", "Not found" },
    [ERR_CONFLICT] = { 409, "conflict", "Conflict" },
    [ERR_TOO_BIG] = { 413, "too_big", "Too big" },
    [ERR_BUSY] = { 503, "busy", "Busy" },
    [ERR_UNSUPPORTED] = { 501, "unsupported", "Not supported" },
    [ERR_UPSTREAM] = { 502, "upstream", "Failed upstream" },
    [ERR_TIMEOUT] = { 504, "timeout", "Timed out" },
    [ERR_SYS] = { 500, "system", "System error" },
    [ERR_BUG] = { 500, "bug", "Internal error" },
    [ERR_QUOTA] = { 429, "quota", "Quota reached" },
    [ERR_PAUSED] = { 409, "paused", "Paused" },
    [ERR_FULL] = { 507, "storage_full", "Storage full" },
};

int problem_status(enum err_code code)
{
    return problems[code < ERR_CODE_COUNT_ ? code : ERR_BUG].status;
}

const char *problem_code(enum err_code code)
{
    return problems[code < ERR_CODE_COUNT_ ? code : ERR_BUG].code;
}

static const char *problem_title(const char *code)
{
    for (size_t i = 1; i < ERR_CODE_COUNT_; i++)
        if (strcmp(problems[i].code, code) == 0)
            return problems[i].title;
    return "Not authenticated";
}

static const char *const problem_codes[] = {
    "invalid", "unauthenticated", "denied",       "not_found", "conflict",    "paused",
    "too_big", "quota",           "storage_full", "busy",      "unsupported", "upstream",
    "timeout", "system",          "bug",          NULL,
};
static const char *const refusal_kinds[] = { "deny", "rate_limit", "require_approval", NULL };

struct problem_answer {
    const char *type, *title, *code, *error, *kind;
    struct call_problem p;
    int64_t rpc_code;
    struct sync_answer synced;
};

static void write_synced_member(struct json_writer *w, const char *name, const void *answer)
{
    const struct problem_answer *a = answer;
    struct json_shape one = { NULL, sync_answer_fields, 1 };

    for (size_t i = 0; a->synced.op && i < SYNCED_FIELDS; i++, one.fields++)
        if (strcmp(one.fields->name, name) == 0)
            json_put_members(w, &one, &a->synced);
}

#define AT(member) JSON_AT(struct problem_answer, member)
#define VERDICT(member)                                                                            \
    .via = offsetof(struct problem_answer, p.verdict), JSON_AT(struct verdict, member)

static const struct json_field problem_answer_fields[] = {
    { "type", JSON_KIND_TEXT, AT(type), .required = true },
    { "title", JSON_KIND_TEXT, AT(title), .required = true },
    { "status", JSON_KIND_INT, AT(p.status), .required = true },
    { "code", JSON_KIND_TEXT, AT(code), .required = true, .names = problem_codes },
    { "detail", JSON_KIND_CHARS, .via = offsetof(struct problem_answer, p.err),
      JSON_AT(struct err, msg), .required = true },
    { "errno", JSON_KIND_TEXT, AT(error) },
    { "sandbox_id", JSON_KIND_TEXT, AT(p.sandbox_id), .optional = true },
    { "step", JSON_KIND_TEXT, AT(p.step), .optional = true },
    { "kind", JSON_KIND_TEXT, AT(kind), .names = refusal_kinds },
    { "rule", JSON_KIND_CHARS, VERDICT(rule), .optional = true },
    { "request_id", JSON_KIND_CHARS, VERDICT(request_id), .optional = true },
    { "audit_id", JSON_KIND_TEXT, AT(p.audit_id), .optional = true },
    { "rpc_code", JSON_KIND_INT, AT(rpc_code), .optional = true },
    { "bytes", JSON_KIND_INT, .write = write_synced_member },
    { "counts", JSON_KIND_OBJECT, .write = write_synced_member },
    { "changes", JSON_KIND_OBJECTS, .schema = "SyncChange", .write = write_synced_member },
};
static const struct json_shape problem_answer = { "Problem", JSON_FIELDS(problem_answer_fields) };
const struct json_shape *const answers_call[] = { &problem_answer, NULL };

void problem_write_members(struct json_writer *w, const struct call_problem *p)
{
    const char *code = p->code ? p->code : problem_code(p->err->code);
    struct problem_answer a = { .type = "about:blank",
                                .title = problem_title(code),
                                .code = code,
                                .error = p->err->sys ? strerrorname_np(p->err->sys) : NULL,
                                .p = *p,
                                .synced = { .op = p->op } };

    if (!p->code)
        a.p.status = problem_status(p->err->code);
    if (p->verdict) {
        a.kind = verdict_kind_names[p->verdict->kind];
        a.rpc_code = verdict_code(p->verdict->kind);
    }
    json_put_members(w, &problem_answer, &a);
}

void problem_write_token_ended(struct json_writer *w, const void *nothing)
{
    struct err e;

    (void)err_set(&e, ERR_DENIED, "%s", CALL_TOKEN_ENDED);
    json_begin_object(w);
    json_field_text(w, "event", "error");
    problem_write_members(
        w, &(struct call_problem){ .err = &e, .status = 401, .code = "unauthenticated" });
    json_end_object(w);
}

static void send_problem(struct call *c, struct call_problem p)
{
    struct buf text AUTO(buf_done) = BUF_INIT(p.op ? CALL_ANSWER_MAX : 16 << 10);
    struct json_writer w;

    if (!c->x)
        return;
    if (!p.code) {
        p.status = problem_status(p.err->code);
        p.code = problem_code(p.err->code);
    }
    if (c->guard && p.status < 500 && !c->audit[0])
        call_record_refusal(c, "peer.refused", p.err->msg);
    if (c->dialect && c->dialect->fail) {
        c->dialect->fail(c, p.err, p.status, p.code);
        return;
    }
    p.audit_id = c->audit;
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    problem_write_members(&w, &p);
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    buf_add_c(&text, '\n');
    send_call_answer(c, p.status, "application/problem+json", NULL, buf_str(&text));
}

void call_fail_sandbox(struct call *c, const struct err *e, const char *id, const char *step)
{
    send_problem(c, (struct call_problem){ .err = e, .sandbox_id = id, .step = step });
}

void call_fail_unsynced(struct call *c, const struct err *e, const struct workspace_op *op)
{
    send_problem(c, (struct call_problem){ .err = e, .op = op });
}

void call_fail(struct call *c, const struct err *e)
{
    send_problem(c, (struct call_problem){ .err = e });
}

bool call_fail_with(struct call *c, int status, const char *code, const char *fmt, ...)
{
    struct err e = { .code = ERR_INVALID };
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e.msg, sizeof e.msg, fmt, ap);
    va_end(ap);
    send_problem(c, (struct call_problem){ .err = &e, .status = status, .code = code });
    return false;
}

bool call_fail_missing(struct call *c, const char *kind, struct str id)
{
    return call_fail_with(c, 404, "not_found", "there is no %s '%.*s'", kind,
                          (int)(id.n < ID_MAX ? id.n : ID_MAX), id.n ? id.p : "");
}

/* --- the request --- */

bool call_read(struct call *c, void *ret)
{
    struct err e;
    int r = json_bind(c->json, c->route->fields, *c->route->field_count, ret, &c->arena, &e);

    if (r < 0)
        call_fail(c, &e);
    return r >= 0;
}

const char *call_sandbox_id(const struct call *c)
{
    return c->sandbox       ? sandbox_view(c->sandbox).record->id
           : c->find.record ? c->find.record->id
                            : NULL;
}

int call_query(struct call *c, const char *name, struct str *ret)
{
    struct err e;
    int r = url_query(c->query, str_from(name), &c->arena, ret, &e);

    if (r < 0)
        call_fail(c, &e);
    return r < 0 ? -1 : r;
}

static int fail_query_parameter(struct call *c, const char *name, const char *wanted)
{
    struct err e;

    (void)err_set(&e, ERR_INVALID, "%s: must be %s", name, wanted);
    call_fail(c, &e);
    return -1;
}

int call_query_bool(struct call *c, const char *name, bool *ret)
{
    struct str v;
    int r = call_query(c, name, &v);

    if (r <= 0)
        return r;
    if (!str_eq(v, STR("true")) && !str_eq(v, STR("false")))
        return fail_query_parameter(c, name, "true or false");
    *ret = v.p[0] == 't';
    return 1;
}

int call_query_number(struct call *c, const char *name, uint64_t max, uint64_t *ret)
{
    char wanted[48];
    struct str v;
    uint64_t n;
    int r = call_query(c, name, &v);

    if (r <= 0)
        return r;
    if (!str_to_u64(v, &n) || n > max) {
        snprintf(wanted, sizeof wanted, "a number up to %llu", (unsigned long long)max);
        return fail_query_parameter(c, name, wanted);
    }
    *ret = n;
    return 1;
}

int call_query_time(struct call *c, const char *name, int64_t *ret)
{
    struct str v;
    int64_t ago;
    int r = call_query(c, name, &v);

    if (r <= 0)
        return r;
    if (!rfc3339_parse(v, ret)) {
        if (units_duration(v, name, &ago, NULL) < 0)
            return fail_query_parameter(
                c, name, "a time (2026-01-02T03:04:05Z) or a duration before now (10m, 2h)");
        *ret = clock_wall() - ago;
    }
    if (*ret <= 0)
        *ret = 1;
    return 1;
}

struct str call_header(const struct call *c, const char *name)
{
    return h1_value(&http_request(c->x)->head, str_from(name));
}

const char *call_scheme(const struct call *c)
{
    return http_peer(c->x)->is_tls || str_eq(call_header(c, "X-Forwarded-Proto"), STR("https"))
               ? "https"
               : "http";
}

/* Whether a list header contains the word; its items may have parameters. */
static bool header_lists(const struct call *c, const char *field, const char *word)
{
    struct str rest = call_header(c, field), part;

    while (rest.p) {
        rest = str_cut(rest, ',', &part);
        str_cut(part, ';', &part);
        if (h1_same(str_trim(part), str_from(word)))
            return true;
    }
    return false;
}

bool call_accepts(const struct call *c, const char *type)
{
    return header_lists(c, "Accept", type);
}

bool call_prefers(const struct call *c, const char *what)
{
    return header_lists(c, "Prefer", what);
}
