/* SPDX-License-Identifier: Apache-2.0 */
/* Errors in the formats of E2B's services. */
#include "edge/core/answers.h"
#include "edge/e2b/internal.h"

/* envd reports an unknown user as unauthenticated (401). */
static int envd_status(const struct call *c, int status)
{
    return c->no_user && status == 404 ? 401 : status;
}

struct e2b_problem {
    int code;
    const char *message, *error_code;
};

/* Clients read the code from the body. */
static const struct json_field problem_fields[] = {
    { "code", JSON_KIND_INT, JSON_AT(struct e2b_problem, code) },
    { "message", JSON_KIND_TEXT, JSON_AT(struct e2b_problem, message), .required = true },
    { "error_code", JSON_KIND_TEXT, JSON_AT(struct e2b_problem, error_code), .optional = true },
};
static const struct json_shape e2b_problem = { NULL, JSON_FIELDS(problem_fields) };

/* As call_answer_as(), without a newline. */
static void answer_problem(struct call *c, int status, const struct json_shape *s, const void *in)
{
    struct buf text AUTO(buf_done) = BUF_INIT(16 << 10);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_shape(&w, s, in);
    json_writer_finish(&w, NULL);
    call_answer_bytes(c, status, "application/json", buf_str(&text));
}

void e2b_fail(struct call *c, const struct err *e, int status, const char *code)
{
    int answered = envd_status(c, status);

    answer_problem(
        c, answered, &e2b_problem,
        &(struct e2b_problem){ answered, e->msg, answered == status ? code : "unauthenticated" });
}

void envd_fail(struct call *c, const struct err *e, int status, const char *code)
{
    int answered = envd_status(c, status);

    answer_problem(c, answered, &e2b_problem, &(struct e2b_problem){ answered, e->msg, NULL });
}

static void write_bad_gateway(struct json_writer *w, const char *name, const void *problem)
{
    json_field_int(w, name, 502);
}

struct proxy_problem {
    struct str id;
    const char *message;
    uint16_t port; /* 0: the sandbox does not exist */
};

static const struct json_field proxy_fields[] = {
    { "sandboxId", JSON_KIND_SLICE, JSON_AT(struct proxy_problem, id), .required = true },
    { "message", JSON_KIND_TEXT, JSON_AT(struct proxy_problem, message) },
    { "port", JSON_KIND_UINT, JSON_AT(struct proxy_problem, port), .optional = true },
    { "code", JSON_KIND_INT, .write = write_bad_gateway },
};
static const struct json_shape proxy_problem = { NULL, JSON_FIELDS(proxy_fields) };

/* The answers of E2B's edge proxy. */
void e2b_fail_gone(struct call *c, struct str id)
{
    char text[ID_MAX], plain[ID_MAX];

    if (id_read("sbx_", id, text)) {
        id_show_plain(text, plain);
        id = str_from(plain);
    }
    answer_problem(
        c, 502, &proxy_problem,
        &(struct proxy_problem){ id.n <= 64 ? id : STR(""), "The sandbox was not found", 0 });
}

void e2b_fail_closed(struct call *c, uint16_t port, const struct err *e)
{
    char id[ID_MAX];

    id_show_plain(sandbox_view(c->sandbox).record->id, id);
    call_answer_as(c, 502, &proxy_problem,
                   &(struct proxy_problem){ str_from(id),
                                            "The sandbox is running but port is not open", port });
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

void rpc_write_problem(struct json_writer *w, const void *problem)
{
    const struct rpc_problem *p = problem;

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
        call_answer(c, answered, rpc_write_problem, &p);
    else if (stream_begin(c, NULL))
        stream_end_with(c, p.code, e->msg);
}
