#include "cli/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "cli/progress.h"
#include "http/url.h"
#include "json/reader.h"

enum {
    BODY_MAX = 16 << 20,
    PROBLEM_MAX = 64 << 10,
    DETAIL_MAX = 600,
    DEPTH = 64,
    HTTP_ERROR = 400
};

void call_init(struct call *c, const struct verb *v, const struct common *common,
               const char *method)
{
    *c = (struct call){ .verb = v,
                        .common = common,
                        .method = method,
                        .target = BUF_INIT(H1_TARGET_MAX),
                        .body = BUF_INIT(BODY_MAX),
                        .contact = { .fd = -1 },
                        .handed = -1,
                        .arena = ARENA_INIT((size_t)8 * CALL_ANSWER_MAX) };
    http_client_init(&c->client, -1, 0);
}

void call_done(struct call *c)
{
    progress_end();
    buf_done(&c->target);
    buf_done(&c->body);
    http_client_done(&c->client);
    contact_done(&c->contact);
    drop_fd(&c->handed);
    arena_done(&c->arena);
}

static void note(struct call *c, int r)
{
    if (r < 0 && c->failed >= 0)
        c->failed = r;
}

void call_path(struct call *c, const char *fmt, ...)
{
    struct str rest = str_from(fmt), piece;
    va_list ap;

    va_start(ap, fmt);
    for (bool first = true; rest.p; first = false) {
        rest = str_cut(rest, '%', &piece);
        if (!first) { /* piece starts with the 's' of "%s" */
            note(c, url_encode(&c->target, str_from(va_arg(ap, const char *))));
            piece = (struct str){ piece.p + 1, piece.n - 1 };
        }
        note(c, buf_add(&c->target, piece));
    }
    va_end(ap);
}

void call_query(struct call *c, const char *name, const char *value)
{
    if (!value)
        return;
    note(c, buf_addf(&c->target, "%c%s=", c->has_query ? '&' : '?', name));
    note(c, url_encode(&c->target, str_from(value)));
    c->has_query = true;
}

void call_field(struct call *c, const char *name, const char *value)
{
    if (!value)
        return;
    if (c->n_fields == CALL_FIELDS_MAX)
        note(c, -ERR_BUG);
    else if (!h1_is_value(str_from(value)))
        note(c, -ERR_INVALID);
    else
        c->fields[c->n_fields++] = (struct h1_field){ str_from(name), str_from(value) };
}

struct json_writer *call_json(struct call *c)
{
    json_writer_init(&c->json, &c->body, JSON_COMPACT);
    c->has_json = true;
    return &c->json;
}

int call_failed(const struct call *c, const struct err *e)
{
    progress_end();
    say("%s: %s", c->verb->name, e->msg);
    return EXIT_OURS;
}

static int connect_to(struct call *c, struct err *e)
{
    int r = contact_open(&c->contact, c->common->server, c->start, e);

    if (r >= 0)
        http_client_init(&c->client, c->contact.fd, c->patience);
    return r;
}

/* What was put together so far can be sent: 0, or the status for a misuse. */
static int check(struct call *c)
{
    struct err e = { 0 };

    if (c->has_json) {
        c->has_json = false;
        if (json_writer_finish(&c->json, &e) < 0)
            return verb_misused(c->verb, "%s", e.msg);
        call_field(c, "Content-Type", "application/json");
    }
    if (c->failed == -ERR_BUG)
        return verb_misused(c->verb, "too many header fields");
    if (c->failed < 0)
        return verb_misused(c->verb, "a value is too long, or holds what cannot be sent");
    return 0;
}

int call_connect(struct call *c)
{
    struct err e;
    int status = check(c);

    if (status)
        return status;
    return connect_to(c, &e) < 0 ? call_failed(c, &e) : 0;
}

bool call_reaches(struct call *c)
{
    return !c->failed && connect_to(c, NULL) >= 0 && !c->contact.place.tcp;
}

/* A daemon that is reached over TCP may be anywhere, and has no user of this machine before it. */
static int check_host_dir(const struct call *c)
{
    struct err e;

    if (!c->host_dir || !c->contact.place.tcp)
        return 0;
    (void)err_set(&e, ERR_UNSUPPORTED,
                  "cannot use %.100s as a workspace: the daemon at %.80s is remote (SANDBOXER_URL, "
                  "--server); copy files with 'sandboxer cp' instead",
                  c->host_dir, c->contact.place.authority);
    call_failed(c, &e);
    return EXIT_USAGE;
}

int call_request(struct call *c, struct http_client_request *ret)
{
    int status = check_host_dir(c);

    if (status)
        return status;
    if (c->contact.authorization[0])
        call_field(c, "Authorization", c->contact.authorization);
    if (c->contact.peer[0])
        call_field(c, "Sandboxer-Peer", c->contact.peer);
    call_field(c, "Sandboxer-Ids", "short");
    status = check(c);
    if (status)
        return status;
    *ret = (struct http_client_request){ .method = str_from(c->method),
                                         .target = buf_str(&c->target),
                                         .host = str_from(c->contact.place.authority),
                                         .fields = c->fields,
                                         .n = c->n_fields,
                                         .body = buf_str(&c->body),
                                         .fd = c->handed < 0 ? NULL : &c->handed,
                                         .more = c->more,
                                         .user = c->more_user };
    return 0;
}

/* The words of a problem: "sbx_…: step mounts: no such directory (invalid)". */
static void describe(struct str id, struct str step, struct str detail, struct str code, char *out,
                     size_t cap)
{
    AUTO(buf_done) struct buf text = BUF_INIT(PROBLEM_MAX);

    if (id.n && step.n)
        buf_addf(&text, STR_FMT ": ", STR_ARG(id));
    if (step.n)
        buf_addf(&text, "step " STR_FMT ": ", STR_ARG(step));
    buf_addf(&text, "%.*s (" STR_FMT ")", detail.n < DETAIL_MAX ? (int)detail.n : DETAIL_MAX,
             detail.p, STR_ARG(code));
    snprintf(out, cap, "%s", text.p ? text.p : "");
}

int problem_describe(const struct verb *v, const struct json *problem, int http_status, char *out,
                     size_t cap)
{
    struct str code = show_string(problem, "code"), step = show_string(problem, "step");
    struct str detail = show_string(problem, "detail");
    char number[16];

    if (!detail.n)
        detail = show_string(problem, "title");
    if (!detail.n)
        detail = str_from(h1_reason(http_status));
    if (!code.n) {
        snprintf(number, sizeof number, "HTTP %d", http_status);
        code = str_from(number);
    }
    describe(show_string(problem, "sandbox_id"), step, detail, code, out, cap);
    return v->flags & VERB_COMMAND ? status_of_command(code, step) : status_of_problem(code);
}

int call_read_json(struct call *c, struct str text, const struct json **ret, struct err *e)
{
    struct json_limits limits = { .bytes = CALL_ANSWER_MAX, .depth = DEPTH };

    return err_wrap(e, json_read(text, limits, &c->arena, ret, e), "the daemon's answer");
}

static int read_body(struct call *c, struct buf *out, struct err *e)
{
    struct str piece;
    int r;

    while ((r = http_client_read(&c->client, &piece, e)) > 0)
        if (buf_add(out, piece) < 0)
            return err_set(e, ERR_TOO_BIG, "the daemon's answer is longer than %zu bytes",
                           out->max);
    return r;
}

int call_problem(struct call *c)
{
    AUTO(buf_done) struct buf text = BUF_INIT(PROBLEM_MAX);
    const struct json *problem = NULL;
    struct str later = h1_value(&c->head->head, STR("Retry-After"));
    char words[768];
    int http_status = c->head->status, status;

    if (read_body(c, &text, NULL) < 0 || call_read_json(c, buf_str(&text), &problem, NULL) < 0)
        problem = NULL;
    c->problem = problem;
    progress_end();
    status = problem_describe(c->verb, problem, http_status, words, sizeof words);
    if (http_status == 401 && c->contact.place.tcp && !c->contact.authorization[0])
        say("%s: the daemon at %s needs a token: set SANDBOXER_TOKEN to one that 'sandboxer token "
            "create' made there (unauthenticated)",
            c->verb->name, c->contact.place.authority);
    else if (status == EXIT_BUSY && later.n && later.n < 12)
        say("%s: %s; try again in " STR_FMT " s", c->verb->name, words, STR_ARG(later));
    else
        say("%s: %s", c->verb->name, words);
    return status;
}

static void hear_progress(void *user, const struct h1_response *head)
{
    uint64_t bytes = 0, total = 0;

    (void)user;
    str_to_u64(h1_value(&head->head, STR("Progress-Bytes")), &bytes);
    str_to_u64(h1_value(&head->head, STR("Progress-Total")), &total);
    progress_news(h1_value(&head->head, STR("Progress-Step")), bytes, total);
}

/* The daemon tells how far it is to those who show it. */
static void ask_progress(struct call *c)
{
    bool lines = c->lines && !c->common->quiet && common_format(c->common) == FORMAT_TEXT;

    if (!c->doing || !(lines || progress_wanted()))
        return;
    call_field(c, "Prefer", "progress");
    c->client.interim = hear_progress;
    progress_begin(c->doing);
    if (lines)
        progress_lines(c->doing);
}

int call_open(struct call *c)
{
    struct http_client_request q;
    struct err e;
    int status = call_connect(c);

    if (status)
        return status;
    ask_progress(c);
    status = call_request(c, &q);
    if (status)
        return status;
    if (http_client_send(&c->client, &q, &e) < 0 || http_client_head(&c->client, &c->head, &e) < 0)
        return call_failed(c, &e);
    return c->head->status >= HTTP_ERROR ? call_problem(c) : 0;
}

int call_next(struct call *c, struct str *ret, int *ret_status)
{
    struct err e;
    int r = http_client_read(&c->client, ret, &e);

    if (r >= 0)
        return r;
    (void)err_wrap(&e, r, "the connection to the daemon was lost; what came is not all");
    *ret_status = call_failed(c, &e);
    return -1;
}

/* The whole body as JSON. */
int call_read_answer(struct call *c, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(CALL_ANSWER_MAX);
    int r = read_body(c, &text, e);

    return r < 0 || text.n == 0 ? r : call_read_json(c, buf_str(&text), &c->answer, e);
}

int call_run(struct call *c)
{
    struct err e;
    int status = call_open(c);

    if (status)
        return status;
    if (call_read_answer(c, &e) < 0)
        return call_failed(c, &e);
    progress_end();
    return 0;
}

bool call_answers(struct call *c, struct err *e)
{
    struct http_client_request q;

    if (connect_to(c, e) < 0 || call_request(c, &q) != 0 ||
        http_client_send(&c->client, &q, e) < 0 || http_client_head(&c->client, &c->head, e) < 0)
        return false;
    if (c->head->status >= HTTP_ERROR) {
        (void)err_set(e, ERR_UPSTREAM, "the daemon answers %d (%s)", c->head->status,
                      h1_reason(c->head->status));
        return false;
    }
    return call_read_answer(c, e) >= 0 && c->answer;
}
