/* SPDX-License-Identifier: Apache-2.0 */
/* Errors in the formats of E2B's services. */
#include "edge/e2b/internal.h"

/* envd reports an unknown user as unauthenticated (401). */
static int envd_status(const struct call *c, int status)
{
    return c->no_user && status == 404 ? 401 : status;
}

/* Writes {"code": STATUS, "message": …}: clients read the code from the body. */
void e2b_fail(struct call *c, const struct err *e, int status, const char *code)
{
    int answered = envd_status(c, status);
    struct buf text AUTO(buf_done) = BUF_INIT(16 << 10);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_field_int(&w, "code", answered);
    json_field_text(&w, "message", e->msg);
    json_field_text(&w, "error_code", answered == status ? code : "unauthenticated");
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    call_answer_bytes(c, answered, "application/json", buf_str(&text));
}

/* The answer of E2B's edge proxy for any path of a sandbox that does not exist. */
void e2b_fail_gone(struct call *c, struct str id)
{
    struct buf text AUTO(buf_done) = BUF_INIT(4096);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_field_lossy(&w, "sandboxId", id.n <= 64 ? id : STR(""));
    json_field_text(&w, "message", "The sandbox was not found");
    json_field_int(&w, "code", 502);
    json_end_object(&w);
    json_writer_finish(&w, NULL);
    call_answer_bytes(c, 502, "application/json", buf_str(&text));
}

/* --- Connect --- */

static const struct {
    const char *code;
    int status, answered; /* HTTP status of the error, and of Connect's answer */
} rpc_codes[] = {
    { "invalid_argument", 400, 400 },    { "unauthenticated", 401, 401 },
    { "permission_denied", 403, 403 },   { "not_found", 404, 404 },
    { "failed_precondition", 409, 400 }, { "resource_exhausted", 413, 429 },
    { "resource_exhausted", 429, 429 },  { "unimplemented", 501, 501 },
    { "unavailable", 503, 503 },         { "deadline_exceeded", 504, 504 },
};

static const char *rpc_code(int status, int *ret)
{
    for (size_t i = 0; i < COUNT_OF(rpc_codes); i++)
        if (rpc_codes[i].status == status) {
            *ret = rpc_codes[i].answered;
            return rpc_codes[i].code;
        }
    *ret = 500;
    return "internal";
}

struct rpc_problem {
    const char *code, *message;
};

static void write_rpc_problem(struct json_writer *w, const void *what)
{
    const struct rpc_problem *p = what;

    json_begin_object(w);
    json_field_text(w, "code", p->code);
    json_field_text(w, "message", p->message);
    json_end_object(w);
}

/* A streaming call that failed before it began is answered with a stream that has only its end. */
void rpc_fail_call(struct call *c, const struct err *e, int status, const char *code)
{
    struct rpc_problem p = { .message = e->msg };
    int answered;

    p.code = rpc_code(envd_status(c, status), &answered);
    if (!(c->route->flags & ROUTE_TEXT))
        call_answer(c, answered, write_rpc_problem, &p);
    else if (stream_begin(c, NULL))
        stream_end_with(c, p.code, e->msg);
}
