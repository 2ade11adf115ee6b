/* One request to the daemon and its answer.
 *
 *     AUTO(call_done) struct call c;
 *
 *     call_init(&c, v, &o.common, "GET");
 *     call_path(&c, "/v1/sandboxes/%s", id);
 *     status = call_run(&c);
 *     if (status == 0)
 *         status = answer_record(&c, columns, COUNT_OF(columns), "sandbox_id");
 *     return status;
 *
 * Functions that return a status return 0 or what to exit with, after saying why on stderr. */
#ifndef CLI_CALL_H
#define CLI_CALL_H

#include "base/arena.h"
#include "base/buf.h"
#include "cli/contact.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "http/client.h"
#include "json/writer.h"

enum { CALL_FIELDS_MAX = 10, CALL_ANSWER_MAX = 64 << 20 };

struct call {
    const struct verb *verb;
    const struct common *common;
    const char *method;
    const char *doing;        /* shown while it lasts; NULL: nothing is */
    bool lines;               /* … also where there is no terminal, unless it is to be quiet */
    enum contact_start start; /* CONTACT_MAY_START unless changed */
    int64_t patience;         /* nanoseconds without a sign of life; 0: without end */
    struct buf target, body;
    struct json_writer json;
    bool has_query, has_json;
    struct h1_field fields[CALL_FIELDS_MAX];
    size_t n_fields;
    http_client_more_fn *more; /* a body that is made while it is sent */
    void *more_user;
    int failed;           /* of what was prepared: -ERR_x */
    int handed;           /* goes along with the request, and is closed with the call; -1: none */
    const char *host_dir; /* the directory that `handed` stands for; NULL: none */

    struct contact contact;
    struct http_client client;
    const struct h1_response *head; /* after call_open() */
    struct arena arena;
    const struct json *answer;  /* after call_run(); NULL: an empty body */
    const struct json *problem; /* that was said; NULL: none */
};

void call_init(struct call *c, const struct verb *v, const struct common *common,
               const char *method);
void call_done(struct call *c);

/* Only %s may be in fmt; each becomes one percent-encoded piece. */
void call_path(struct call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void call_query(struct call *c, const char *name, const char *value); /* a NULL value: nothing */
void call_field(struct call *c, const char *name, const char *value); /* the same; borrowed */
struct json_writer *call_json(struct call *c); /* the body; begin and end are the caller's */

/* Sends it and reads the whole answer. */
int call_run(struct call *c);

/* The same without a word: whether there is an answer, and it is no problem. */
bool call_answers(struct call *c, struct err *e);

/* Sends it and reads the answer's head: for bodies that are no JSON, or have no end. */
int call_open(struct call *c);
/* The next piece of such a body: 1, 0 at the end, or -1 and *ret_status after saying why. */
int call_next(struct call *c, struct str *ret, int *ret_status);

/* Connects without sending, for those who speak differently; then what to send. */
int call_connect(struct call *c);
int call_request(struct call *c, struct http_client_request *ret);
/* Connects to a unix socket without a word, whoever listens. */
bool call_reaches(struct call *c);
/* The rest of an answer whose head was read, as JSON: c->answer. */
int call_read_answer(struct call *c, struct err *e);
/* The head says that it went wrong: reads the problem, says it. */
int call_problem(struct call *c);

/* Says what went wrong on our side: EXIT_OURS. */
int call_failed(const struct call *c, const struct err *e);

/* A problem (RFC 9457, or NULL where the answer holds none) in words, without the verb's name:
 * "WHAT (code)". Returns the exit status. */
int problem_describe(const struct verb *v, const struct json *problem, int http_status, char *out,
                     size_t cap);

/* JSON text within the limits for answers. */
int call_read_json(struct call *c, struct str text, const struct json **ret, struct err *e);

#endif
