/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP request: its caller, its parameters and its answer.
 *
 * A call is reference-counted: the exchange holds a reference until the call is answered or the
 * client disconnects, and every pending operation holds one until it completes. `x` is NULL as soon
 * as there is no client to answer. */
#ifndef EDGE_CORE_CALL_H
#define EDGE_CORE_CALL_H

#include "control/control.h"
#include "edge/core/domain.h"
#include "lib/http/server.h"
#include "lib/http/url.h"
#include "lib/json/writer.h"

enum { CALL_ARENA_MAX = 16 << 20, CALL_ANSWER_MAX = 32 << 20 };
enum { CALL_BODY_MAX = 256 << 10 }; /* body limit of routes without ROUTE_CONTENT */
enum { ROUTE_PARAMS = 3 };

struct api;
struct dialect;
struct guard;
struct guard_row;
struct route;
struct verdict;
struct workspace_op;

/* Response header: the id of the audit event with the verdict on the request. */
#define CALL_AUDIT "Sandboxer-Audit"
/* Response header of a destroy: the snapshot that holds changes which could not be synced back. */
#define CALL_KEPT "Sandboxer-Kept-Snapshot"

/* The reason that ends a long call whose token ends. */
#define CALL_TOKEN_ENDED "the token was revoked or has expired"

struct call {
    struct api *api;
    struct http_exchange *x;
    unsigned refs;
    int64_t began_ns;
    bool counted; /* in the metrics */
    struct loop *loop;
    struct loop_later later; /* frees the call; the api may be freed before */
    struct arena arena;      /* for the request's data; limited */
    /* for the daemon's own small allocations; unlimited, so that a full `arena` can be reported */
    struct arena own;
    struct caller caller;
    const struct dialect *dialect;     /* NULL until the request is matched */
    const struct route *route;         /* the same; also NULL: there is none */
    const struct guard_row *guard_row; /* of the route, for the tool policy; NULL: refused */
    void *dialect_state;               /* the dialect's own, on the arena; NULL at first */
    struct str query;                  /* encoded */
    struct domain_port port;           /* the sandbox port that Host names */
    struct str params[ROUTE_PARAMS];   /* the path's variable segments */
    struct str body;                   /* raw body of a route that takes JSON */
    const struct json *json;           /* the parsed body */
    struct find_op find;               /* lookup of a route with ROUTE_SANDBOX */
    struct sandbox *sandbox;           /* its result if live; referenced */
    struct link listening;             /* of a ROUTE_LONG call: link in api.listening */
    struct quota_hold in_flight;       /* counts in requests_in_flight; may be empty */
    /* the sandbox was made for this call and is destroyed with it */
    bool one_shot;
    struct guard *guard;             /* state of the policy check; NULL: the caller is not a peer */
    void *guarded;                   /* of a handler that requests a verdict itself; on the arena */
    bool approved;                   /* a replay of a call that a master approved */
    char approved_for[ID_MAX];       /* the peer that requested it */
    bool body_taken;                 /* a streaming route whose body was collected */
    bool no_user;                    /* the requested user does not exist inside */
    char audit[ID_MAX];              /* id of the audit event of its refusal; "": not refused */
    char passed[ID_MAX];             /* audit id of the verdict that allowed it */
    void *state;                     /* the handler's own: the newest call_state() */
    struct call_ending_ *endings_;   /* of its states, newest first */
    void (*on_gone)(struct call *c); /* the client disconnected before the answer; may be NULL */
    /* the api closes: in place of on_gone, and also of a call that goes on without its client; may
     * be NULL */
    void (*on_close)(struct call *c);
};

struct call *call_ref(struct call *c);
void call_unref(struct call *c);

/* --- the handler's state ---
 *
 * A state lives exactly as long as its call and is never freed by its handler: a pending operation
 * that holds a reference to the call may use the state in its callback, also after the client
 * disconnected. Then `x` is NULL, and answers do nothing.
 *
 * When the client disconnects before the answer, the call's `on_gone` stops what produces output
 * for it and cancels what has no other purpose; it releases only the references to the call that
 * cancelled operations held. It is not called after an answer.
 *
 * When the last reference is released, `on_end` of each state releases what the state owns
 * (descriptors, buffers, watchers, other references), the newest state first, while api and sandbox
 * of the call are still valid. The memory follows with the call. */

/* Allocates a zeroed state and makes it the call's; earlier ones remain valid. on_end may be
 * NULL. */
void *call_state(struct call *c, size_t size, void (*on_end)(void *state))
    __attribute__((returns_nonnull));
/* Zeroed memory with the same lifetime, for sizes that the daemon bounds. */
void *call_alloc(struct call *c, size_t n, size_t size) __attribute__((returns_nonnull));
/* Initializes a member of a state that is released with the call, as if by its on_end. */
void call_own_buf(struct call *c, struct buf *b, size_t max);
void call_own_arena(struct call *c, struct arena *a, size_t max);
void call_own_fd(struct call *c, int *fd); /* sets it to -1 */

/* --- answers: each ends the exchange; without a client they do nothing --- */

typedef void call_write_fn(struct json_writer *w, const void *what);
void call_answer(struct call *c, int status, call_write_fn *write, const void *what);
/* The same with a Location header. */
void call_answer_at(struct call *c, int status, const char *location, call_write_fn *write,
                    const void *what);
void call_answer_bytes(struct call *c, int status, const char *type, struct str body);
/* Finishes a writer and answers 200 with its text; e: answers with this error instead. */
void call_answer_written(struct call *c, struct json_writer *w, const struct buf *text,
                         const struct err *e);
/* JSON with one additional response header. */
void call_answer_with(struct call *c, int status, const char *name, const char *value,
                      struct str json);
void call_answer_empty(struct call *c); /* 204 */
/* The whole file, which the call owns, with these headers. */
void call_answer_file(struct call *c, int fd, const struct h1_field *fields, size_t n);
/* application/problem+json for an error. */
void call_fail(struct call *c, const struct err *e);
bool call_fail_with(struct call *c, int status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5))); /* false */
/* 404: "there is no KIND 'ID'"; the id is that of the request. */
bool call_fail_missing(struct call *c, const char *kind, struct str id); /* false */
/* The same for a failed sandbox: with its id and the failed step. */
void call_fail_sandbox(struct call *c, const struct err *e, const char *id, const char *step);
/* The same with the outcome of a sync that left changes behind. */
void call_fail_unsynced(struct call *c, const struct err *e, const struct workspace_op *op);

/* For streaming handlers: call it just before http_end(), http_fail() or http_cut() on the exchange
 * that it returns, or after a WebSocket on it has closed. The call is freed later if this was its
 * last reference. */
struct http_exchange *call_take_exchange(struct call *c);
/* The interface that the client uses, for the record of its programs: static. The command line names
 * itself in User-Agent, which any client can. */
const char *call_client(const struct call *c);
bool call_wants_head(const struct call *c); /* a HEAD request: the answer has no body */
/* For streaming handlers, after http_begin(): ends the exchange of a HEAD request and returns
 * true. */
bool call_end_head(struct call *c);

/* Begins an answer of JSON lines (NDJSON) that the handler continues, also in on_drain. False: the
 * call is answered. */
bool call_begin_lines(struct call *c, void (*on_drain)(struct http_exchange *x));

/* Sends progress as an interim response to clients that sent `Prefer: progress`. */
void call_progress(struct call *c, const char *step, uint64_t bytes);
void call_progress_of(struct call *c, const char *step, uint64_t bytes, uint64_t total);

/* --- the request --- */

/* Reads the JSON body, by the fields of the route, into a zeroed struct. False: the call is
 * answered. */
bool call_read(struct call *c, void *ret);
/* The id of the request's sandbox, live or destroyed; NULL: it has none. */
const char *call_sandbox_id(const struct call *c);

/* A query parameter: 1, or 0 if absent; an invalid one is answered and returns -1. */
int call_query(struct call *c, const char *name, struct str *ret);
int call_query_bool(struct call *c, const char *name, bool *ret);
int call_query_number(struct call *c, const char *name, uint64_t max, uint64_t *ret);
/* A time, or how long ago: ns of the wall clock, at least 1. */
int call_query_time(struct call *c, const char *name, int64_t *ret);
/* A request header; p == NULL if absent. */
struct str call_header(const struct call *c, const char *name);
/* "https" or "http": how the client connected, to the daemon or to a proxy in front of it. */
const char *call_scheme(const struct call *c);
bool call_accepts(const struct call *c, const char *type); /* Accept lists the type */
bool call_prefers(const struct call *c, const char *what); /* Prefer lists it */

/* The HTTP status and the stable name of an error code. ERR_SYS is a failed system call of the
 * daemon, a 500; errors of system calls inside a sandbox have other codes (backends/fault.h). */
int problem_status(enum err_code code);
const char *problem_code(enum err_code code);
/* A problem object; pointers that are NULL are left out. */
struct call_problem {
    int status;
    const struct err *err;
    const char *code; /* NULL: that of the error, with its status */
    const char *sandbox_id, *step, *audit_id;
    const struct verdict *verdict; /* that refused the call */
    const struct workspace_op *op; /* the sync that left changes behind */
};
/* Writes its members. */
void problem_write_members(struct json_writer *w, const struct call_problem *p);

/* Writes an object with "event": "error" and the members of a problem: the last message to a client
 * whose token ended. A call_write_fn of nothing. */
void problem_write_token_ended(struct json_writer *w, const void *nothing);

/* Authenticates the caller. False: the call is answered. */
bool call_authenticate(struct call *c);
/* Answers that the caller is not authenticated (401), and returns false. */
bool call_refuse(struct call *c, const char *why);
/* The token in Authorization; p == NULL: none. */
struct str call_bearer(const struct call *c);
/* Parts of authentication, for dialects: by a token; whether the caller may use the route. */
bool call_by_token(struct call *c, struct str secret);
struct token_record;
bool call_by_record(struct call *c, const struct token_record *t); /* a valid token */
bool call_may_use(struct call *c);
/* Records a refusal as an event and stores its audit id in the call, for the answer. */
void call_record_refusal(struct call *c, const char *type, const char *reason);

#endif
