/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that are one request to the daemon: a row says where arguments and options go, and how the
 * answer is printed. Options name their query parameter or body member themselves.
 *
 *     const struct verb verb_hosts_remove = {
 *         .name = "hosts remove",
 *         REQUEST("DELETE", "/v1/hosts/%s", .done = "removed"),
 *         …
 *     };
 */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include "cli/answer.h"

enum request_body {
    BODY_NONE,
    BODY_JSON, /* an object with the members of the row and of the options */
    /* The file that the last argument names; "-" is stdin: */
    BODY_YAML, /* … a text, which is read before anything is sent */
    BODY_ZSTD, /* … as it is, read while it is sent */
    BODY_TAR,  /* … an archive or a directory, as a plain tar stream */
};

struct verb_request {
    const char *method;
    const char *path;       /* each %s is the next argument */
    const char *query;      /* the query parameter for the argument behind those; NULL: none */
    const char *members[2]; /* BODY_JSON: members for the arguments behind that */
    enum request_body body;
    /* Checks and completes the options, and adds to the request what the row cannot say; with
     * BODY_JSON the object at c->json is open. A result other than 0 is the exit status, after a
     * message. */
    int (*prepare)(struct api_call *c, void *options, char **argv);
    const char *doing; /* shown while it lasts */
    bool lines;        /* … also without a terminal */

    const struct answer_kind *kind;
    bool list;        /* it answers with rows */
    bool stream;      /* … without an end, a JSON document a line, printed as they come */
    const char *done; /* "removed": prints "ARGUMENT removed" instead of a record */
    /* Prints the answer for people, also with -q, in place of the above. A status. */
    int (*print)(const struct api_call *c, const void *options, char **argv);
    /* Called after printing: the exit status. */
    int (*finish)(const struct api_call *c, char **argv);
};

/* The options of a verb with one of its own, which only its request reads. */
struct one_option {
    struct common common;
    union {
        bool flag;
        const char *text;
        struct option_list list;
    };
};

#define REQUEST_AS(flags_, ...)                                                                    \
    .flags = (flags_), .request = &(const struct verb_request)                                     \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define REQUEST(...) REQUEST_AS(VERB_ASKS, __VA_ARGS__)

/* Runs the request of c->verb; a verb.run. */
int request_run(struct api_call *c, void *options, int argc, char **argv);

/* Printers for answers about layers that were hashed again … */
int request_print_verified(const struct api_call *c, const void *options, char **argv);
/* … and about a file that was validated; request_finish_validated() is 1 if it is invalid. */
int request_print_validated(const struct api_call *c, const void *options, char **argv);
int request_finish_validated(const struct api_call *c, char **argv);

#endif
