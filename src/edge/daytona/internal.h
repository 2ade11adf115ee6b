/* What the files of Daytona's interface share. */
#ifndef API_DAYTONA_INSIDE_H
#define API_DAYTONA_INSIDE_H

#include "api/daytona/daytona.h"
#include "api/e2b/write.h"
#include "api/exec.h"
#include "api/inside.h"
#include "api/route.h"

#define DAYTONA          "/daytona"
#define DAYTONA_TOOLBOX  DAYTONA "/toolbox"
#define DAYTONA_ONE      DAYTONA "/sandbox/{id}"
#define DAYTONA_INSIDE   DAYTONA_TOOLBOX "/{id}"
#define DAYTONA_ANY_PORT DAYTONA "/preview/(a port of a sandbox)"

/* Labels that are ours to keep, and not shown as labels. */
#define DAYTONA_NAME "daytona/name"

#define DAYTONA_USER "user"
#define DAYTONA_HOME "/home/user"

enum {
    DAYTONA_LIVE = ROUTE_SANDBOX | ROUTE_LIVE,
    DAYTONA_SCRIPT_ARGS = 1024, /* of a program that serves a request */
};

/* --- faces.c: who asks, and how it is told what went wrong --- */
extern const struct route_face daytona_face;         /* the control plane */
extern const struct route_face toolbox_face;         /* what is inside */
extern const struct route_face daytona_preview_face; /* servers inside: by a token for ports */
extern const struct route_face toolbox_files_face;   /* files: also by a signed link */

/* What links to the files of the call's sandbox are signed with; E2B_HELD_TEXT bytes. */
void daytona_signing_key(const struct call *c, char *ret);

/* --- members of answers --- */
static inline void put_bytes(struct json_writer *w, const char *key, struct str value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, value);
}

/* --- route.c --- */
/* The body, bound; what the table does not know is passed over. False: it is answered. */
bool daytona_read(struct call *c, const struct json_field *fields, size_t n, void *out);
/* 200 with an empty object, or nothing: it is done. */
void daytona_answer_done(struct call *c);
/* "http://127.0.0.1:8700": as the client found us. */
bool daytona_base(const struct call *c, char *ret, size_t cap);

/* --- process.c --- */
/* A path as clients write it: from /, or from the home directory. NULL: it is answered. */
const char *daytona_path(struct call *c, struct str path);
/* The same, which does not answer: NULL if it is too long, or has a NUL. */
const char *daytona_absolute(struct call *c, struct str path);
/* The query's path, as above. */
const char *daytona_query_path(struct call *c, const char *name);
/* A parameter of a script: `script` runs with these as $1, $2, … Its output goes to the face. */
void daytona_script(struct call *c, const char *cwd, const char *script, struct json_strs args,
                    const struct json_map *env, const struct exec_face *face);
/* For faces that answer at the end with all that was written, DAYTONA_OUTPUT_MAX of it. */
enum { DAYTONA_OUTPUT_MAX = 16 << 20 };
bool daytona_begin(struct exec *x);
bool daytona_collect(struct exec *x, int channel, struct str data);
void daytona_not_started(struct exec *x, const struct err *e);
/* Its status as a shell has it: 128 and the signal for who was killed. */
int daytona_exit_code(const struct ext_end *end);

/* --- shown.c: a sandbox as clients see it --- */
struct daytona_shown {
    const struct call *call;
    const struct sandbox_record *record;
    struct sandbox *sandbox; /* NULL: it is over */
    int64_t expires_ns;
};
void daytona_write_sandbox(struct json_writer *w, const void *shown);
/* 200 with the call's sandbox as it is now. */
void daytona_answer_sandbox(struct call *c);
/* The same at the end of an operation on it; the call is given up. */
void daytona_settle_sandbox(struct sandbox_op *op, int r, const struct err *e);
const char *daytona_state(const struct sandbox_record *r, const struct sandbox *s);

/* --- labels.c --- */
/* Labels of a request, with those that are ours. */
int daytona_labels(struct call *c, const struct json_map *given, const char *name,
                   struct json_map *ret, struct err *e);
void daytona_labels_write(struct json_writer *w, const struct json_map *labels);
const char *daytona_name(const struct sandbox_record *r); /* or its id */
/* The text of a JSON object of texts, `most` of them; on the call's arena. */
int daytona_map(struct call *c, struct str text, int64_t most, struct json_map *ret, struct err *e);

/* --- the tables --- */
extern const struct route routes_daytona_create[], routes_daytona_list[],
    routes_daytona_sandboxes[], routes_daytona_snapshots[], routes_daytona_preview[],
    routes_daytona_info[];
extern const struct route routes_daytona_process[], routes_daytona_files[],
    routes_daytona_download[], routes_daytona_file_search[], routes_daytona_file_tools[],
    routes_daytona_git[], routes_daytona_sessions[], routes_daytona_pty[],
    routes_daytona_interpreter[];

#endif
