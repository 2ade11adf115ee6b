/* What a caller asks for when it starts a process, and the table that checks it. */
#ifndef MODEL_PROCESS_H
#define MODEL_PROCESS_H

#include "json/bind.h"
#include "model/request.h"

enum {
    PROCESS_ARGS_MAX = 4096,
    PROCESS_ENV_MAX = 1024,
    PROCESS_TEXT_MAX = 2 << 20, /* bytes of all arguments and variables */
};

/* Programs of our own that serve clients inside. */
enum process_helper {
    PROCESS_OF_CLIENT, /* none: a client's own program */
    PROCESS_KERNEL,    /* runs pieces of code */
    PROCESS_SESSION,   /* a shell that runs commands one after the other */
    PROCESS_SHELL,     /* a shell for people, on a terminal */
    PROCESS_HELPER_COUNT_
};
extern const char *const process_helper_names[]; /* ended by NULL */

struct process_request {
    struct json_strs argv;
    struct json_map env;
    const char *cwd, *user;
    const char *tag; /* NULL: none */
    bool stdin_, tty, background;
    bool bare; /* without the variables that its sandbox was created with; no member of requests */
    enum process_helper helper; /* likewise */
    uint16_t rows, cols;
    int64_t timeout_ns, grace_ns;
};

/* The last two are a run's alone, and not counted. */
extern const struct json_field process_request_fields[];
extern const size_t process_request_field_count;

int process_request_read(const struct json *v, struct process_request *ret, struct arena *a,
                         struct err *e);

/* What the table cannot check, for who fills one in by other means. */
int process_request_check(const struct process_request *q, struct err *e);

/* A program in a sandbox of its own. */
struct run_request {
    struct process_request process; /* first: its fields are among ours */
    struct egress_request egress;
    const char *image; /* its root file system; NULL: the host's system directories */
};

extern const size_t run_request_field_count; /* of process_request_fields */

int run_request_read(const struct json *v, struct run_request *ret, struct arena *a, struct err *e);

#endif
