/* SPDX-License-Identifier: Apache-2.0 */
/* Private declarations of E2B's API. */
#ifndef EDGE_E2B_INTERNAL_H
#define EDGE_E2B_INTERNAL_H

#include "edge/e2b/e2b.h"
#include "edge/e2b/envelope.h"
#include "edge/core/internal.h"
#include "edge/core/sandbox_token.h"
#include "edge/core/egress_settings.h"

enum {
    E2B_ENVD_PORT = 49983,
    E2B_CODE_PORT = 49999,
    E2B_USER_MAX = 64,
    E2B_TIMEOUT_V1_S = 15, /* default timeout */
    E2B_TIMEOUT_V2_S = 300,
    E2B_TIMEOUT_MAX_S = 31536000,
};

/* The envd version that is reported to clients, which use only features that it has. */
#define E2B_ENVD_VERSION "0.6.13"

/* --- dialect.c --- */
/* The state of the dialect in an api; NULL: not open. */
struct e2b_state {
    struct list watchers, builds;
    bool builds_closed; /* build records are final; the next start reads them */
};
struct e2b_state *e2b_state_of(struct api *a);
extern const struct guard_row e2b_guard_rows[];

/* Whether the caller may get a sandbox's token, which allows to run programs and access files. */
bool e2b_may_enter(const struct call *c);

/* The token in the upload link of a build's file; e2b_upload_dialect accepts no other. */
void e2b_upload_token(const struct api *a, const char *build, const char *hash,
                      char ret[static SANDBOX_TOKEN_CODE_TEXT]);

/* --- errors.c --- */
/* {"code": STATUS, "message": …} */
void e2b_fail(struct call *c, const struct err *e, int status, const char *code);
/* The same without a name for programs, as envd answers about files. */
void envd_fail(struct call *c, const struct err *e, int status, const char *code);
/* The same in Connect's format. */
void rpc_fail_call(struct call *c, const struct err *e, int status, const char *code);
struct rpc_problem {
    const char *code, *message;
};
void rpc_write_problem(struct json_writer *w, const void *problem);
/* The answer for any path of a sandbox that does not exist. */
void e2b_fail_gone(struct call *c, struct str id);
void e2b_fail_closed(struct call *c, uint16_t port, const struct err *e); /* for a closed port */

void watchers_close(struct api *a); /* watch.c: drops all watchers */

/* --- read.c --- */
/* Like json_bind(), but ignores unknown members, because clients may be newer. */
int e2b_bind(struct call *c, const struct json *v, const struct json_field *fields, size_t n,
             void *out, struct err *e);
/* The same for the body. Returns false after it has answered the call. */
bool e2b_read_body(struct call *c, const struct json_field *fields, size_t n, void *out);
/* The user in the request, or the default one. NULL after it has answered the call. */
const char *e2b_rpc_user(struct call *c);
const char *e2b_file_user(struct call *c);
/* Returns true if the path is absolute or the home directory of the call's user is known. Otherwise
 * queries the sandbox for it and returns false; the route's handler is called again with the
 * answer, or the call is failed. */
bool e2b_ensure_home(struct call *c, const char *user, struct str path);
const char *e2b_home(struct call *c, const char *user); /* a default, if it was not queried */
const char *e2b_workdir(struct call *c);                /* of the template, or NULL */
/* Makes a client's path absolute; relative paths start in the user's home. NULL after it has
 * answered the call. */
const char *e2b_path(struct call *c, const char *user, struct str path);
/* The same without an answer: NULL if the path is too long or contains NUL. */
const char *e2b_absolute(struct call *c, const char *user, struct str path);

/* The timeout of a sandbox that the request does not set, by the version in the path. */
static inline int64_t e2b_usual_timeout_s(const struct call *c)
{
    return str_starts(str_from(c->route->path), STR("/v2/")) ? E2B_TIMEOUT_V2_S : E2B_TIMEOUT_V1_S;
}

/* --- list.c --- */
/* Answers with a page of a list. next: the cursor of the next page; NULL: this is the last. */
void e2b_answer_page(struct call *c, call_write_fn *write, const void *what, const char *next);

/* --- stream.c: streaming calls of Connect --- */
/* Binds the message of the request. Returns false after it has answered the call. */
bool stream_request(struct call *c, const struct json_field *fields, size_t n, void *out);
bool stream_begin(struct call *c, http_exchange_fn *on_drain); /* false after an answer */
/* Like http_write(); closes the connection on failure. */
int stream_send(struct call *c, call_write_fn *write, const void *what);
void stream_end(struct call *c);
void stream_end_with(struct call *c, const char *code, const char *message);
/* Keep-alive messages at the client's interval, while nothing else is sent. */
struct stream_ping {
    struct call *call;
    call_write_fn *write;                   /* writes the message */
    void (*on_lost)(struct stream_ping *p); /* the connection was closed */
    struct loop_timer timer;
};
void stream_ping_later(struct stream_ping *p); /* (re)starts the interval */
void stream_ping_stop(struct stream_ping *p);
/* Reads the call's timeout in nanoseconds, 0 for none. Returns false after it has answered the
 * call. */
bool stream_timeout(struct call *c, int64_t *ret);

/* Answers with an empty object. */
void rpc_answer_empty(struct call *c);
void rpc_fail(struct call *c, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* --- sandbox_json.c: sandboxes as JSON --- */
struct e2b_shown {
    const struct call *call; /* of the client */
    const struct sandbox_record *record;
    int64_t expires_ns;
};

struct e2b_shown e2b_show(const struct call *c); /* for the call's sandbox */

/* The answer to create and connect: ids and tokens for access. */
void e2b_write_made(struct json_writer *w, const void *shown);
/* A row of a list. */
void e2b_write_listed(struct json_writer *w, const void *shown);
/* All members; the call must have a live sandbox. */
void e2b_write_info(struct json_writer *w, const void *shown);

/* The size of a sandbox by its profile; one processor if the profile no longer exists. */
struct e2b_size {
    uint32_t processors, memory_mb, disk_mb;
};
struct e2b_size e2b_size(const struct call *c, const struct sandbox_record *r);
struct e2b_size e2b_profile_size(const struct profile *p);
void e2b_write_size(struct json_writer *w, const struct e2b_size *s);

/* Whether the call's sandbox exists for clients (it is not being destroyed); e2b_is_running(): and
 * is not paused. Both return false after they have answered the call. */
bool e2b_is_there(struct call *c);
bool e2b_is_running(struct call *c);

/* --- network.c: network settings --- */
struct e2b_network {
    struct egress_settings egress;
    const struct json *rules, *proxy, *mask, *https_ports;
    bool public_traffic;
};

enum { E2B_NETWORK_FIELD_COUNT = 8 };
extern const struct json_field e2b_network_fields[E2B_NETWORK_FIELD_COUNT];

/* Rejects settings that are not supported. */
int e2b_network_check(const struct e2b_network *n, struct err *e);
/* Writes the policy in force of a sandbox, as members of an object. */
void e2b_network_write(struct json_writer *w, const struct sandbox *s);

/* --- route tables --- */
extern const struct route routes_e2b[], routes_e2b_create[], routes_e2b_list[], routes_e2b_logs[],
    routes_e2b_metrics[], routes_e2b_snapshots[], routes_e2b_templates[], routes_e2b_upload[],
    routes_e2b_code[];
extern const struct route routes_envd_compose[], routes_envd_files[], routes_envd_process[],
    routes_envd_filesystem[], routes_envd_watch[];

#endif
