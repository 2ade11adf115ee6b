/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "cli/progress.h"
#include "lib/http/url.h"
#include "lib/json/reader.h"

enum {
    BODY_MAX = 16 << 20,
    PROBLEM_MAX = 64 << 10,
    DETAIL_MAX = 600,
    DEPTH = 64,
    HTTP_ERROR = 400
};

void api_call_init(struct api_call *c, const struct verb *v, const struct common *common,
                   const char *method)
{
    *c = (struct api_call){ .verb = v,
                            .common = common,
                            .method = method,
                            .target = BUF_INIT(H1_TARGET_MAX),
                            .body = BUF_INIT(BODY_MAX),
                            .contact = { .fd = -1 },
                            .handed = -1,
                            .arena = ARENA_INIT((size_t)8 * API_CALL_ANSWER_MAX) };
    http_client_init(&c->client, -1, 0);
}

void api_call_done(struct api_call *c)
{
    progress_end();
    buf_done(&c->target);
    buf_done(&c->body);
    http_client_done(&c->client);
    contact_done(&c->contact);
    drop_fd(&c->handed);
    handover_done(&c->handover);
    arena_done(&c->arena);
}

static void record_call_failure(struct api_call *c, int r)
{
    if (r < 0 && c->failed >= 0)
        c->failed = r;
}

void api_call_path(struct api_call *c, const char *fmt, ...)
{
    struct str rest = str_from(fmt), piece;
    va_list ap;

    va_start(ap, fmt);
    for (bool first = true; rest.p; first = false) {
        rest = str_cut(rest, '%', &piece);
        if (!first) { /* piece starts with the 's' of "%s" */
            record_call_failure(c, url_encode(&c->target, str_from(va_arg(ap, const char *))));
            piece = (struct str){ piece.p + 1, piece.n - 1 };
        }
        record_call_failure(c, buf_add(&c->target, piece));
    }
    va_end(ap);
}

void api_call_query(struct api_call *c, const char *name, const char *value)
{
    if (!value)
        return;
    record_call_failure(c, buf_addf(&c->target, "%c%s=", c->has_query ? '&' : '?', name));
    record_call_failure(c, url_encode(&c->target, str_from(value)));
    c->has_query = true;
}

void api_call_field(struct api_call *c, const char *name, const char *value)
{
    if (!value)
        return;
    if (c->n_fields == API_CALL_FIELDS_MAX)
        record_call_failure(c, -ERR_BUG);
    else if (!h1_is_value(str_from(value)))
        record_call_failure(c, -ERR_INVALID);
    else
        c->fields[c->n_fields++] = (struct h1_field){ str_from(name), str_from(value) };
}

struct json_writer *api_call_json(struct api_call *c)
{
    json_writer_init(&c->json, &c->body, JSON_COMPACT);
    c->has_json = true;
    return &c->json;
}

int api_call_failed(const struct api_call *c, const struct err *e)
{
    return verb_failed(c->verb, "%s", e->msg);
}

/* The packet holds all files: it is made anew with each. */
static int hand_over(struct api_call *c, const char *path, int *fd, const struct handover_file *f)
{
    struct err e;

    if (handover_add(&c->handover, fd, f, &e) < 0)
        return verb_misused(c->verb, "--mount: %s", e.msg);
    drop_fd(&c->handed);
    c->host_file = path;
    return handover_make(&c->handover, &c->handed, &e) < 0 ? api_call_failed(c, &e) : 0;
}

static int fail_host_file(const struct api_call *c, const char *path, const char *as, int error)
{
    cli_report("%s: cannot use %s as a %s: %s", c->verb->name, path, as, strerror(error));
    return error == ENOENT                     ? EXIT_MISSING
           : error == EACCES || error == EPERM ? EXIT_DENIED
                                               : EXIT_USAGE;
}

int api_call_pass_dir(struct api_call *c, const char *path, bool writable)
{
    AUTO_CLOSE int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct handover_file f = { .use = HANDOVER_WORKSPACE, .writable = writable };

    return dir < 0 ? fail_host_file(c, path, "workspace", errno) : hand_over(c, path, &dir, &f);
}

int api_call_pass_mount(struct api_call *c, const char *path, const char *target, bool writable)
{
    AUTO_CLOSE int fd = open(path, O_PATH | O_CLOEXEC);
    struct handover_file f = { .use = HANDOVER_MOUNT, .writable = writable };
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return fail_host_file(c, path, "mount", errno);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return verb_misused(c->verb,
                            "cannot use %s as a mount: it is neither a directory nor a regular "
                            "file",
                            path);
    snprintf(f.target, sizeof f.target, "%s", target);
    return hand_over(c, path, &fd, &f);
}

static int connect_call(struct api_call *c, struct err *e)
{
    int r = contact_open(&c->contact, c->common->server, c->start, e);

    if (r >= 0)
        http_client_init(&c->client, c->contact.fd, c->patience);
    return r;
}

/* Checks that everything prepared so far can be sent: 0, or the exit status for wrong arguments. */
static int check_call_prepared(struct api_call *c)
{
    struct err e = { 0 };

    if (c->has_json) {
        c->has_json = false;
        if (json_writer_finish(&c->json, &e) < 0)
            return verb_misused(c->verb, "%s", e.msg);
        api_call_field(c, "Content-Type", "application/json");
    }
    if (c->failed == -ERR_BUG)
        return verb_misused(c->verb, "internal error: the request has more than %zu header fields",
                            COUNT_OF(c->fields));
    if (c->failed < 0)
        return verb_misused(
            c->verb,
            "an argument contains a control character, or the arguments do not fit a request");
    return 0;
}

int api_call_connect(struct api_call *c)
{
    struct err e;
    int status = check_call_prepared(c);

    if (status)
        return status;
    return connect_call(c, &e) < 0 ? api_call_failed(c, &e) : 0;
}

bool api_call_reaches(struct api_call *c)
{
    return !c->failed && connect_call(c, NULL) >= 0 && !c->contact.place.tcp;
}

/* A daemon that is reached over TCP may be anywhere, and has no user of this machine before it. */
static int check_host_file(const struct api_call *c)
{
    if (!c->host_file || !c->contact.place.tcp)
        return 0;
    verb_failed(c->verb,
                "cannot use %.100s of this machine: the daemon at %.80s is remote (SANDBOXER_URL, "
                "--server); copy files with 'sandboxer cp' instead",
                c->host_file, c->contact.place.authority);
    return EXIT_USAGE;
}

int api_call_request(struct api_call *c, struct http_client_request *ret)
{
    int status = check_host_file(c);

    if (status)
        return status;
    if (c->contact.authorization[0])
        api_call_field(c, "Authorization", c->contact.authorization);
    if (c->contact.peer[0])
        api_call_field(c, "Sandboxer-Peer", c->contact.peer);
    api_call_field(c, "Sandboxer-Ids", "short");
    status = check_call_prepared(c);
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

int problem_describe(const struct verb *v, const struct json *problem, int http_status, char *out,
                     size_t cap)
{
    struct str code = show_string(problem, "code"), step = show_string(problem, "step");
    struct str detail = show_string(problem, "detail"), id = show_string(problem, "sandbox_id");
    AUTO(buf_done) struct buf text = BUF_INIT(PROBLEM_MAX);
    char number[16];

    if (!detail.n)
        detail = show_string(problem, "title");
    if (!detail.n)
        detail = str_from(h1_reason(http_status));
    if (!code.n) {
        snprintf(number, sizeof number, "HTTP %d", http_status);
        code = str_from(number);
    }
    if (id.n && step.n)
        buf_addf(&text, STR_FMT ": ", STR_ARG(id));
    if (step.n)
        buf_addf(&text, "step " STR_FMT ": ", STR_ARG(step));
    buf_addf(&text, "%.*s (" STR_FMT ")", detail.n < DETAIL_MAX ? (int)detail.n : DETAIL_MAX,
             detail.p, STR_ARG(code));
    snprintf(out, cap, "%s", text.p ? text.p : "");
    return v->flags & VERB_COMMAND ? status_of_command(code, step) : status_of_problem(code);
}

int api_call_read_json(struct api_call *c, struct str text, const struct json **ret, struct err *e)
{
    struct json_limits limits = { .bytes = API_CALL_ANSWER_MAX, .depth = DEPTH };

    return err_wrap(e, json_read(text, limits, &c->arena, ret, e), "the daemon's answer");
}

static int read_answer_body(struct api_call *c, struct buf *out, struct err *e)
{
    struct str piece;
    int r;

    while ((r = http_client_read(&c->client, &piece, e)) > 0)
        if (buf_add(out, piece) < 0)
            return err_set(e, ERR_TOO_BIG, "the daemon's answer is longer than %zu bytes",
                           out->max);
    return r;
}

int api_call_problem(struct api_call *c)
{
    AUTO(buf_done) struct buf text = BUF_INIT(PROBLEM_MAX);
    const struct json *problem = NULL;
    struct str later = h1_value(&c->head->head, STR("Retry-After"));
    char words[768];
    int http_status = c->head->status, status;

    if (read_answer_body(c, &text, NULL) < 0 ||
        api_call_read_json(c, buf_str(&text), &problem, NULL) < 0)
        problem = NULL;
    c->problem = problem;
    progress_end();
    status = problem_describe(c->verb, problem, http_status, words, sizeof words);
    if (http_status == 401 && c->contact.place.tcp && !c->contact.authorization[0])
        cli_report(
            "%s: the daemon at %s needs a token: set SANDBOXER_TOKEN to one that 'sandboxer token "
            "create' made there (unauthenticated)",
            c->verb->name, c->contact.place.authority);
    else if (status == EXIT_BUSY && later.n && later.n < 12)
        cli_report("%s: %s; try again in " STR_FMT " s", c->verb->name, words, STR_ARG(later));
    else
        cli_report("%s: %s", c->verb->name, words);
    return status;
}

static void on_progress_head(void *user, const struct h1_response *head)
{
    uint64_t bytes = 0, total = 0;

    str_to_u64(h1_value(&head->head, STR("Progress-Bytes")), &bytes);
    str_to_u64(h1_value(&head->head, STR("Progress-Total")), &total);
    progress_news(h1_value(&head->head, STR("Progress-Step")), bytes, total);
}

/* Asks the daemon for progress reports if this process shows them. */
static void request_progress(struct api_call *c)
{
    bool lines = c->lines && !c->common->quiet && common_format(c->common) == FORMAT_TEXT;

    if (!c->doing || !(lines || progress_is_shown()))
        return;
    api_call_field(c, "Prefer", "progress");
    c->client.interim = on_progress_head;
    progress_begin(c->doing);
    if (lines)
        progress_lines(c->doing);
}

int api_call_open(struct api_call *c)
{
    struct http_client_request q;
    struct err e;
    int status = api_call_connect(c);

    if (status)
        return status;
    request_progress(c);
    status = api_call_request(c, &q);
    if (status)
        return status;
    if (http_client_send(&c->client, &q, &e) < 0 || http_client_head(&c->client, &c->head, &e) < 0)
        return api_call_failed(c, &e);
    return c->head->status >= HTTP_ERROR ? api_call_problem(c) : 0;
}

int api_call_next(struct api_call *c, struct str *ret, int *ret_status)
{
    struct err e;
    int r = http_client_read(&c->client, ret, &e);

    if (r >= 0)
        return r;
    (void)err_wrap(&e, r, "the connection to the daemon was lost; the output is incomplete");
    *ret_status = api_call_failed(c, &e);
    return -1;
}

/* The whole body as JSON. */
int api_call_read_answer(struct api_call *c, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(API_CALL_ANSWER_MAX);
    int r = read_answer_body(c, &text, e);

    return r < 0 || text.n == 0 ? r : api_call_read_json(c, buf_str(&text), &c->answer, e);
}

int api_call_run(struct api_call *c)
{
    struct err e;
    int status = api_call_open(c);

    if (status)
        return status;
    if (api_call_read_answer(c, &e) < 0)
        return api_call_failed(c, &e);
    progress_end();
    return 0;
}

int api_call_begin(struct api_call *c, struct err *e)
{
    struct http_client_request q;
    int r = connect_call(c, e);

    if (r >= 0 && api_call_request(c, &q) != 0)
        r = err_set(e, ERR_INVALID, "the request cannot be sent");
    return r < 0 ? r : http_client_send(&c->client, &q, e);
}

static int describe_problem(struct api_call *c, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(PROBLEM_MAX);
    const struct json *problem = NULL;
    char words[768];

    if (read_answer_body(c, &text, NULL) < 0 ||
        api_call_read_json(c, buf_str(&text), &problem, NULL) < 0)
        problem = NULL;
    problem_describe(c->verb, problem, c->head->status, words, sizeof words);
    return err_set(e, ERR_UPSTREAM, "%s", words);
}

int api_call_finish(struct api_call *c, bool stream, struct err *e)
{
    int r = http_client_head(&c->client, &c->head, e);

    if (r >= 0 && c->head->status >= HTTP_ERROR)
        r = describe_problem(c, e);
    return r < 0 || stream ? r : api_call_read_answer(c, e);
}

bool api_call_answers(struct api_call *c, struct err *e)
{
    struct http_client_request q;

    if (connect_call(c, e) < 0 || api_call_request(c, &q) != 0 ||
        http_client_send(&c->client, &q, e) < 0 || http_client_head(&c->client, &c->head, e) < 0)
        return false;
    if (c->head->status >= HTTP_ERROR) {
        (void)err_set(e, ERR_UPSTREAM, "the daemon answers %d (%s)", c->head->status,
                      h1_reason(c->head->status));
        return false;
    }
    return api_call_read_answer(c, e) >= 0 && c->answer;
}
