/* SPDX-License-Identifier: Apache-2.0 */
/* Private declarations of Daytona's API. */
#ifndef EDGE_DAYTONA_INTERNAL_H
#define EDGE_DAYTONA_INTERNAL_H

#include "edge/daytona/daytona.h"
#include "edge/core/json_members.h"
#include "edge/core/exec.h"
#include "edge/core/internal.h"
#include "edge/core/egress_settings.h"
#include "edge/core/background.h"

/* Reserved label, not shown to clients as a label. */
#define DAYTONA_NAME "daytona/name"

#define DAYTONA_USER "user"
#define DAYTONA_HOME "/home/user"

enum {
    DAYTONA_LIVE = ROUTE_SANDBOX | ROUTE_LIVE,
    DAYTONA_SCRIPT_ARGS = 1024, /* of a script that serves a request */
};

#define DAYTONA          "/daytona"
#define DAYTONA_TOOLBOX  DAYTONA "/toolbox"
#define DAYTONA_ONE      DAYTONA "/sandbox/{id}"
#define DAYTONA_INSIDE   DAYTONA_TOOLBOX "/{id}"
#define DAYTONA_ANY_PORT DAYTONA "/preview/(a port of a sandbox)"
/* A route of a live sandbox. */
#define DAYTONA_ROUTE(method, verb, path, flags, handler)                                          \
    {                                                                                              \
        method, verb, path, DAYTONA_LIVE | (flags), .handle = handler                              \
    }

/* --- dialect.c --- */
extern const struct guard_row daytona_guard_rows[];

/* Finds the sandbox of the path, if it is usable, for callers that a token or signature of the
 * sandbox authorizes. */
bool daytona_find_usable(struct call *c);
/* The key that signs links to files of the call's sandbox; `ret` has SANDBOX_TOKEN_TEXT bytes. */
void daytona_signing_key(const struct call *c, char *ret);

/* Binds the body; ignores unknown members. Returns false after it has answered the call. */
bool daytona_read_body(struct call *c, const struct json_field *fields, size_t n, void *out);
/* Answers 200 with an empty object. */
void daytona_answer_done(struct call *c);
/* The daemon's address as the client used it: "http://127.0.0.1:8700". */
bool daytona_base_url(const struct call *c, char *ret, size_t cap);

/* --- preview.c: requests to servers in sandboxes --- */
dialect_claims_fn preview_claims;
bool preview_authenticate(struct call *c); /* returns false after it has answered the call */
extern const struct route preview_any_port;

/* --- process.c --- */
/* Makes a client's path absolute; relative paths start in the home directory. NULL after it has
 * answered the call. */
const char *daytona_path(struct call *c, struct str path);
/* The same without an answer: NULL if the path is too long or contains NUL. */
const char *daytona_absolute(struct call *c, struct str path);
/* The same for a path in the query. */
const char *daytona_query_path(struct call *c, const char *name);
/* Runs `script` with `args` as $1, $2, …; its output goes to the encoder. */
void daytona_run_script(struct call *c, const char *cwd, const char *script, struct json_strs args,
                        const struct json_map *env, const struct exec_encoder *encoder);
/* For encoders that collect up to DAYTONA_OUTPUT_MAX bytes of output and answer at the end. */
enum { DAYTONA_OUTPUT_MAX = 16 << 20 };
bool daytona_begin_output(struct exec *x);
bool daytona_collect_output(struct exec *x, int channel, struct str data);
void daytona_not_started(struct exec *x, const struct err *e);
/* Exit code in shell convention: 128+N if killed by signal N. */
int daytona_exit_code(const struct backend_end *end);

/* --- sandbox_json.c: sandboxes as JSON --- */
struct daytona_shown {
    const struct call *call;
    const struct sandbox_record *record;
    struct sandbox *sandbox; /* NULL: ended */
    int64_t expires_ns;
};
void daytona_write_sandbox(struct json_writer *w, const void *shown);
/* Answers 200 with the current state of the call's sandbox. */
void daytona_answer_sandbox(struct call *c);
/* The same at the end of an operation; drops the call's reference. */
void daytona_settle_sandbox(struct sandbox_op *op, int r, const struct err *e);
const char *daytona_state(const struct sandbox_record *r, const struct sandbox *s);

enum { DAYTONA_URL = 160 };
/* The address of the toolbox. False: it is unknown. */
bool daytona_toolbox_url(const struct call *c, char ret[static DAYTONA_URL]);

/* --- labels.c --- */
/* Converts labels of a request, and adds the name as a reserved label. */
int daytona_make_labels(struct call *c, const struct json_map *given, const char *name,
                        struct json_map *ret, struct err *e);
void daytona_labels_write(struct json_writer *w, const struct json_map *labels);
const char *daytona_sandbox_name(const struct sandbox_record *r); /* or its id */
/* Parses a JSON object with at most `most` strings; on the call's arena. */
int daytona_read_map(struct call *c, struct str text, int64_t most, struct json_map *ret,
                     struct err *e);

/* --- network.c: network settings, which block everything except the listed hosts --- */
struct daytona_network {
    bool block_all;
    const char *addresses, *domains; /* comma-separated */
};

enum { DAYTONA_LIST_MAX = 16 << 10 };

#define DAYTONA_NETWORK_FIELDS(type, member)                                                       \
    { "networkBlockAll", JSON_KIND_BOOL, JSON_AT(type, member.block_all) },                        \
        { "networkAllowList", JSON_KIND_STR, JSON_AT(type, member.addresses),                      \
          .max = DAYTONA_LIST_MAX },                                                               \
    {                                                                                              \
        "domainAllowList", JSON_KIND_STR, JSON_AT(type, member.domains), .max = DAYTONA_LIST_MAX   \
    }

/* Fills a request for a new sandbox, whose profile must be set. */
int daytona_network_fill(struct call *c, const struct daytona_network *n,
                         struct create_request *ret, struct err *e);
/* Converts the settings; lists are on the call's arena. */
int daytona_network_read(struct call *c, const struct daytona_network *n,
                         struct egress_settings *ret, struct err *e);

/* --- sessions.c: shells, and other background processes with names --- */
/* Kinds of background processes. */
#define DAYTONA_SESSION "daytona.session:"
#define DAYTONA_PTY     "daytona.pty:"

enum { DAYTONA_TAG_MAX = 64, DAYTONA_RUNNING_MAX = 64 };

/* Checks a name given by a client. Returns false after it has answered the call. */
bool daytona_name_good(struct call *c, struct str name);
/* Answers 201 with the name of a new session or terminal. */
void daytona_answer_created(struct call *c, const char *name);
/* Whether the client asks for a WebSocket. Returns false after it has answered the call. */
bool daytona_wants_socket(struct call *c);

/* --- route tables --- */
extern const struct route routes_daytona_create[], routes_daytona_list[],
    routes_daytona_sandboxes[], routes_daytona_snapshots[], routes_daytona_preview[],
    routes_daytona_info[], routes_toolbox_info[];
extern const struct route routes_daytona_process[], routes_daytona_files[],
    routes_daytona_download[], routes_daytona_file_search[], routes_daytona_file_tools[],
    routes_daytona_git[], routes_daytona_sessions[], routes_daytona_pty[],
    routes_daytona_interpreter[];

#endif
