/* What the files of E2B's interface share. */
#ifndef API_E2B_INSIDE_H
#define API_E2B_INSIDE_H

#include "api/e2b/e2b.h"
#include "api/e2b/envelope.h"
#include "api/inside.h"
#include "api/route.h"

enum {
    E2B_TOKEN_TEXT = 65, /* with its NUL … */
    E2B_HELD_TEXT =
        E2B_TOKEN_TEXT + ID_RANDOM_CHARS, /* … and the same of one that names a holder */
    E2B_ENVD_PORT = 49983,
    E2B_CODE_PORT = 49999,
    E2B_USER_MAX = 64,
    E2B_TIMEOUT_V1_S = 15, /* where a client names none */
    E2B_TIMEOUT_V2_S = 300,
    E2B_TIMEOUT_MAX_S = 31536000,
};

/* What our answers to clients that ask are those of: they leave out what older ones could not. */
#define E2B_ENVD_VERSION "0.6.13"

/* --- faces.c: who asks, and how it is told what went wrong --- */
extern const struct route_face e2b_face; /* the control plane: by a key */
extern const struct route_face envd_face, envd_files_face,
    port_face; /* by a sandbox's token; for files, a signature will do; for ports, theirs */
extern const struct route_face rpc_face, rpc_stream_face; /* the same in Connect's words */

/* Tokens of sandboxes name their holder: the key that asked for them. Whoever shows one acts as
 * that key, in that sandbox, for as long as the key is good: its verbs, labels, limits and the
 * policy for tools hold. `what` says what it is good for. */
void e2b_held_token(const struct api *a, const char *what, const char *holder,
                    char ret[static E2B_HELD_TEXT]);
/* The holder; NULL: it is no such token, or its key is good for nothing any more. */
const struct token_record *e2b_holder(const struct api *a, const char *what, struct str given);

/* The token that opens one sandbox's envd; and the one for its other ports, which clients send
 * there. For the holder of the call's key. */
void e2b_token(const struct call *c, const char *id, char ret[static E2B_HELD_TEXT]);
void e2b_traffic_token(const struct call *c, const char *id, char ret[static E2B_HELD_TEXT]);
const struct token_record *e2b_traffic_holder(const struct api *a, const char *id,
                                              struct str given);
/* One that names nobody, computed in the same way. */
void e2b_make_token(const struct api *a, const char *what, char ret[static E2B_TOKEN_TEXT]);

/* A link that was signed with such a token does not say whose: the key that made the sandbox is
 * tried, and then others of its owner. NULL: none fits. */
typedef bool e2b_link_fn(void *user, const char *holder);
const struct token_record *e2b_link_holder(const struct call *c, e2b_link_fn *fits, void *user);
enum { E2B_LINK_HOLDERS = 64 }; /* how many others: whoever sends a link need not be known */

/* The holder acts in the call's sandbox alone. False: it is answered. */
bool e2b_enter(struct call *c, const struct token_record *holder);
/* Whether who asks may have it: it is good for programs and files. */
bool e2b_may_enter(const struct call *c);

/* The one for a file that a build of a template needs; its face takes no other. */
void e2b_upload_token(const struct api *a, const char *build, const char *hash,
                      char ret[static E2B_TOKEN_TEXT]);
extern const struct route_face e2b_upload_face;

void watchers_close(struct api *a); /* watch.c: the kept ones */

/* --- read.c --- */
/* As json_bind(), but members that the table does not know are passed over: clients are newer than
 * we are. */
int e2b_bind(struct call *c, const struct json *v, const struct json_field *fields, size_t n,
             void *out, struct err *e);
/* The user that a request names, or "user". NULL: it is answered. */
const char *e2b_rpc_user(struct call *c);
const char *e2b_file_user(struct call *c);
/* Whether a path (of the call's one user) can be told from /: it is, or the user's home is known.
 * Else that is asked of the sandbox, and the route's handler called again when it is known; or it
 * is answered. */
bool e2b_at_home(struct call *c, const char *user, struct str path);
const char *e2b_home(struct call *c, const char *user); /* a guess, if it was not asked */
const char *e2b_workdir(struct call *c);                /* of the template; NULL: none */
/* A path as its clients write it: from /, or from the user's home. NULL: it is answered. */
const char *e2b_path(struct call *c, const char *user, struct str path);
/* The same, which does not answer: NULL if it is too long, or has a NUL. */
const char *e2b_absolute(struct call *c, const char *user, struct str path);

/* --- stream.c: what a streaming call of Connect is answered with --- */
/* The one message of its request, bound. False: it is answered. */
bool stream_request(struct call *c, const struct json_field *fields, size_t n, void *out);
bool stream_begin(struct call *c, http_exchange_fn *on_drain); /* False: it is answered */
/* As http_write(); at a failure the client is cut off. */
int stream_send(struct call *c, call_write_fn *write, const void *what);
void stream_end(struct call *c);
void stream_end_with(struct call *c, const char *code, const char *message);
/* Signs of life, as often as the client asks, while nothing else is sent. */
struct stream_ping {
    struct call *call;
    call_write_fn *write;                   /* one */
    void (*on_lost)(struct stream_ping *p); /* the client was cut off */
    struct loop_timer timer;
};
void stream_ping_later(struct stream_ping *p); /* from now on; again, after something was sent */
void stream_ping_stop(struct stream_ping *p);
/* How long it may take, in nanoseconds; 0: for ever. False: it is answered. */
bool stream_timeout(struct call *c, int64_t *ret);

/* An empty object: it is done. */
void rpc_answer_empty(struct call *c);
void rpc_fail(struct call *c, int status, const char *message);

/* --- the tables --- */
extern const struct route routes_e2b[], routes_e2b_create[], routes_e2b_list[], routes_e2b_logs[],
    routes_e2b_metrics[], routes_e2b_snapshots[], routes_e2b_templates[];
extern const struct route routes_e2b_code[];
extern const struct route routes_envd[], routes_envd_compose[], routes_envd_files[],
    routes_envd_process[], routes_envd_filesystem[], routes_envd_watch[];

#endif
