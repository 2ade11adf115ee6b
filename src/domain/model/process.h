/* SPDX-License-Identifier: Apache-2.0 */
/* The request to start a process, and the table that validates it. */
#ifndef DOMAIN_MODEL_PROCESS_H
#define DOMAIN_MODEL_PROCESS_H

#include "lib/json/bind.h"
#include "domain/model/request.h"

enum {
    PROCESS_ARGS_MAX = 4096,
    PROCESS_ENV_MAX = 1024,
    PROCESS_TEXT_MAX = 2 << 20, /* bytes of all arguments and variables */
};

/* Helper programs of the daemon inside a sandbox. */
enum process_helper {
    PROCESS_OF_CLIENT, /* not a helper: a client's own program */
    PROCESS_KERNEL,    /* runs pieces of code */
    PROCESS_SESSION,   /* a shell that runs commands one after the other */
    PROCESS_SHELL,     /* an interactive shell on a terminal */
    PROCESS_HELPER_COUNT_
};
extern const char *const process_helper_names[]; /* ended by NULL */

/* The start of a program, as the API and the command line know it. The control plane makes a
 * process_start (lib/ipc/start.h) of it. */
struct process_request {
    struct json_strs argv;
    struct json_map env;
    const char *cwd, *user;
    const char *tag; /* or NULL */
    bool stdin_, tty, background;
    bool bare; /* without the variables of its sandbox; set by the daemon, not a JSON member */
    enum process_helper helper; /* likewise */
    uint16_t rows, cols;
    int64_t timeout_ns, grace_ns;
};

/* The values of absent members. */
extern const struct run_request run_request_default;

/* Ends with the fields that only run_request has, and that the count does not include. */
extern const struct json_field process_request_fields[];
extern const size_t process_request_field_count;

int process_request_read(const struct json *v, struct process_request *ret, struct arena *a,
                         struct err *e);

/* Checks the rules that the table cannot express. process_request_read() includes it. */
int process_request_check(const struct process_request *q, struct err *e);

/* Writes variables as "NAME=VALUE" on the arena, ended by NULL. NULL: the arena is full. */
const char **process_variables(const struct json_map *env, struct arena *a);

/* The request to run a program in a sandbox of its own. */
struct run_request {
    struct process_request process; /* first, because both share the table */
    struct egress_request egress;
    const char *image;          /* its root file system; NULL: the host's system directories */
    struct json_objects mounts; /* struct request_mount */
    struct request_settings settings; /* user and workdir are the program's */
};

extern const size_t run_request_field_count; /* all of process_request_fields */

int run_request_read(const struct json *v, struct run_request *ret, struct arena *a, struct err *e);

#endif
