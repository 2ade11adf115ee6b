/* One request on its way through the interface: who asks, what for, and the answer.
 *
 * A call is counted: the exchange holds it until it is answered or the client is gone, and every
 * operation under way holds it until it is told. `x` is NULL from the moment there is nobody to
 * answer. */
#ifndef API_CALL_H
#define API_CALL_H

#include "api/api.h"
#include "api/domain.h"
#include "http/url.h"
#include "json/writer.h"

enum { CALL_ARENA_MAX = 16 << 20, CALL_ANSWER_MAX = 32 << 20 };
enum { CALL_BODY_MAX = 256 << 10 }; /* of a route without ROUTE_CONTENT */
enum { ROUTE_PARAMS = 3 };

struct route;
struct guard;

/* A field of an answer: the id under which the verdict on its request is on record. */
#define CALL_AUDIT "Sandboxer-Audit"
/* The snapshot of changes that a destroy could not bring back, in its answer. */
#define CALL_KEPT "Sandboxer-Kept-Snapshot"

/* Why a call ends that lasts longer than its token. */
#define CALL_TOKEN_ENDED "the token was revoked or has expired"

struct call {
    struct api *api;
    struct http_exchange *x;
    unsigned refs;
    int64_t began_ns;
    bool counted; /* in the metrics */
    struct loop *loop;
    struct loop_later later; /* frees it; the api may be gone by then */
    struct arena arena;      /* as large as the request may make it */
    struct arena own; /* … however large that is, there is room for what we need ourselves */
    struct caller caller;
    const struct route *route;
    struct url_path path;            /* decoded */
    struct str query;                /* encoded */
    struct domain_port port;         /* of a sandbox, that its Host names */
    struct str params[ROUTE_PARAMS]; /* the path's variable segments */
    struct str body;                 /* as it came, where the route takes JSON */
    const struct json *json;         /* the same, read */
    struct find_op find;             /* of a route with ROUTE_SANDBOX … */
    struct sandbox *sandbox;         /* … the live one, referenced */
    struct link listening;           /* of a long one: in the api's list */
    struct quota_hold in_flight;     /* one of requests_in_flight, or none */
    bool one_shot;                   /* … made for this call, and destroyed with it */
    struct guard *guard;             /* of a peer; NULL: it is none's */
    void *guarded;                   /* of a handler that asks the policy: on the arena */
    bool approved;                   /* it waited for a master, and is made again … */
    char approved_for[ID_MAX];       /* … for the peer that asked */
    bool body_taken;                 /* of a route that streams: body is all of it */
    bool no_user;                    /* what it started inside was for a user that is not there */
    const char *home;                /* of its user inside, if it was looked up */
    char audit[ID_MAX];              /* under which its refusal is on record; "": it is none */
    char passed[ID_MAX];             /* of the verdict that let it pass */
    void *state;                     /* the handler's own, freed by on_end */
    void (*on_gone)(struct call *c); /* the client left before it was answered; may be NULL */
    void (*on_end)(struct call *c);  /* just before the call is freed; may be NULL */
};

struct call *call_ref(struct call *c);
void call_unref(struct call *c);

/* --- answers: each ends the exchange; without a client they do nothing --- */

typedef void call_write_fn(struct json_writer *w, const void *what);
void call_answer(struct call *c, int status, call_write_fn *write, const void *what);
/* The same with a Location. */
void call_answer_at(struct call *c, int status, const char *location, call_write_fn *write,
                    const void *what);
void call_answer_bytes(struct call *c, int status, const char *type, struct str body);
/* JSON with one more field in its head. */
void call_answer_with(struct call *c, int status, const char *name, const char *value,
                      struct str json);
void call_answer_empty(struct call *c); /* 204 */
/* application/problem+json for an error. */
void call_fail(struct call *c, const struct err *e);
void call_fail_with(struct call *c, int status, const char *code, const char *detail);
/* Of a sandbox that failed: with its id and step. */
void call_fail_sandbox(struct call *c, const struct err *e, const char *id, const char *step);
/* … with more members of the problem. */
void call_fail_also(struct call *c, const struct err *e, call_write_fn *write, const void *what);

/* For a handler that streams: call it just before http_end(), http_fail() or http_cut() on the
 * exchange it returns. */
struct http_exchange *call_take_exchange(struct call *c);
bool call_wants_head(const struct call *c); /* and no body: nothing is waited for */
/* For the same, once the head is begun: true, and the exchange is over, if that is all. */
bool call_end_head(struct call *c);

/* How far it is, to a client that prefers to know: a head before the answer's. */
void call_progress(struct call *c, const char *step, uint64_t bytes);
void call_progress_of(struct call *c, const char *step, uint64_t bytes, uint64_t total);

/* --- what was asked --- */

/* A parameter of the query: 1, or 0 if it is not there; a bad one is answered, and -1. */
int call_query(struct call *c, const char *name, struct str *ret);
int call_query_bool(struct call *c, const char *name, bool *ret);
int call_query_number(struct call *c, const char *name, uint64_t max, uint64_t *ret);
/* A field of the head; empty with p == NULL if it is not there. */
struct str call_header(const struct call *c, const char *name);
/* "https" or "http": how the client came, to us or to whoever stands in front of us. */
const char *call_scheme(const struct call *c);
bool call_accepts(const struct call *c, const char *type); /* Accept names it */
bool call_prefers(const struct call *c, const char *what); /* Prefer does */

/* What an error is to a client: its status, and its stable name. A failed system call is ours, and
 * a 500; what the system said inside a sandbox has become another error by now
 * (extensions/fault.h). */
int problem_status(enum err_code code);
const char *problem_code(enum err_code code);
/* Members of an object; id and step may be NULL. */
void problem_fields(struct json_writer *w, const struct err *e, int status, const char *code,
                    const char *id, const char *step);

/* An object with "event": "error" and the fields of a problem: the last word to a client whose
 * token has ended. */
void problem_write_token_ended(struct json_writer *w);

/* Who asks. False: it is answered. */
bool call_authenticate(struct call *c);
/* The parts of it, for faces: the holder of this token; whether they may use the route. */
bool call_by_token(struct call *c, struct str secret);
struct token_record;
bool call_by_record(struct call *c, const struct token_record *t); /* that is good */
bool call_may_use(struct call *c);
/* It is refused: becomes an event, and the answer says under which id. */
void call_put_on_record(struct call *c, const char *type, const char *reason);

#endif
