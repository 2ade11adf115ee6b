/* SPDX-License-Identifier: Apache-2.0 */
/* One request to the daemon and its answer.
 *
 *     AUTO(api_call_done) struct api_call c;
 *
 *     api_call_init(&c, v, &o.common, "GET");
 *     api_call_path(&c, "/v1/sandboxes/%s", id);
 *     status = api_call_run(&c);
 *     if (status == 0)
 *         status = answer_record(&c, columns, COUNT_OF(columns), "sandbox_id");
 *     return status;
 *
 * Functions that return a status return 0 or the exit status, after a message on stderr. */
#ifndef CLI_API_CALL_H
#define CLI_API_CALL_H

#include "base/arena.h"
#include "base/buf.h"
#include "cli/connect.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "lib/http/client.h"
#include "lib/ipc/handover.h"
#include "lib/json/writer.h"

enum { API_CALL_FIELDS_MAX = 10, API_CALL_ANSWER_MAX = 64 << 20 };

struct api_call {
    const struct verb *verb;
    const struct common *common;
    const char *method;
    const char *doing;        /* shown while it lasts; NULL: nothing is */
    bool lines;               /* … also without a terminal, unless quiet */
    enum contact_start start; /* CONTACT_MAY_START unless changed */
    int64_t patience;         /* nanoseconds without a sign of life; 0: without end */
    struct buf target, body;
    struct json_writer json;
    bool has_query, has_json;
    struct h1_field fields[API_CALL_FIELDS_MAX];
    size_t n_fields;
    http_client_more_fn *more; /* a body that is made while it is sent */
    void *more_user;
    int failed; /* of what was prepared: -ERR_x */
    struct handover handover;
    int handed;            /* has these; goes along with the request; -1: none */
    const char *host_file; /* the last of these files; NULL: none */

    struct contact contact;
    struct http_client client;
    const struct h1_response *head; /* after api_call_open() */
    struct arena arena;
    const struct json *answer;  /* after api_call_run(); NULL: an empty body */
    const struct json *problem; /* the problem that was printed; NULL: none */
};

void api_call_init(struct api_call *c, const struct verb *v, const struct common *common,
                   const char *method);
void api_call_done(struct api_call *c);

/* Only %s may be in fmt; each becomes one percent-encoded piece. */
void api_call_path(struct api_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void api_call_query(struct api_call *c, const char *name,
                    const char *value); /* a NULL value: nothing */
void api_call_field(struct api_call *c, const char *name,
                    const char *value); /* the same; borrowed */
struct json_writer *
api_call_json(struct api_call *c); /* the body; begin and end are the caller's */
/* Sends a directory of this machine along, opened with the rights of this process: the workspace,
 * before all mounts. A status. */
int api_call_pass_dir(struct api_call *c, const char *path, bool writable);
/* The same with a directory or regular file that a sandbox shows at `target`. */
int api_call_pass_mount(struct api_call *c, const char *path, const char *target, bool writable);

/* Sends it and reads the whole answer. */
int api_call_run(struct api_call *c);

/* The same without messages: true if the daemon answers without a problem. */
bool api_call_answers(struct api_call *c, struct err *e);

/* The same in two steps, for callers that poll c->contact.fd between them: send it; and once that is
 * readable, read the answer, of a stream its head alone. A problem becomes an error. */
int api_call_begin(struct api_call *c, struct err *e);
int api_call_finish(struct api_call *c, bool stream, struct err *e);

/* Sends the request and reads the answer's head: for bodies that are not JSON, or endless. */
int api_call_open(struct api_call *c);
/* The next piece of such a body: 1, 0 at the end, or -1 and *ret_status after a message. */
int api_call_next(struct api_call *c, struct str *ret, int *ret_status);

/* Connects without sending, for those who speak differently; then what to send. */
int api_call_connect(struct api_call *c);
int api_call_request(struct api_call *c, struct http_client_request *ret);
/* Connects to a unix socket and sends nothing: true if a process listens there. */
bool api_call_reaches(struct api_call *c);
/* The rest of an answer whose head was read, as JSON: c->answer. */
int api_call_read_answer(struct api_call *c, struct err *e);
/* For an error status: reads and prints the problem. */
int api_call_problem(struct api_call *c);

/* Prints an error of this process: EXIT_TOOL_FAILED. */
int api_call_failed(const struct api_call *c, const struct err *e);

/* A problem (RFC 9457, or NULL where the answer holds none) in words, without the verb's name:
 * "sbx_…: step mounts: no such directory (invalid)". Returns the exit status. */
int problem_describe(const struct verb *v, const struct json *problem, int http_status, char *out,
                     size_t cap);

/* JSON text within the limits for answers. */
int api_call_read_json(struct api_call *c, struct str text, const struct json **ret, struct err *e);

#endif
