/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answer of a request: columns for people, the JSON tree for programs (-o), or ids alone
 * (-q). Each function returns an exit status. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "cli/api_call.h"
#include "cli/table.h"

/* How a kind of thing is shown. */
struct answer_kind {
    const char *rows; /* the list's member in an answer */
    const char *id;   /* the member that -q prints */
    const struct column *columns;
    size_t n;
};

/* The rows of a list: the named member, or the tree where it is a list itself. */
const struct json *answer_rows(const struct json *tree, const struct answer_kind *k);

int answer_list(const struct api_call *c, const struct json *tree, const struct answer_kind *k);
int answer_record(const struct api_call *c, const struct json *v, const struct answer_kind *k);

/* For verbs that just do something: a line for people, the tree with -o, nothing with -q. */
int answer_done(const struct api_call *c, const struct json *tree, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* How long the sandbox was frozen for the request: "stood still for 3.2 ms", or "" if it was
 * not. */
enum { ANSWER_PAUSE_MAX = 64 };
void answer_pause(const struct json *tree, char out[static ANSWER_PAUSE_MAX]);

/* A whole number of the answer; 0 if it is not there. */
uint64_t answer_number(const struct api_call *c, const char *path);

/* Runs a request that verifies layers again, and prints the number of unchanged layers. */
int answer_verified(struct api_call *c, const char *what);

/* Flushes stdout. EXIT_TOOL_FAILED, after a message, if the output could not be written. */
int answer_flush(const struct api_call *c);

/* A verb that is one request: its path, with the first argument in it if `before` ends with '/',
 * its body, and what is shown of the answer. */
struct simple {
    const char *method;
    const char *before, *after; /* of the argument in the path */
    void *options; /* the verb's own, which begin with a struct common; NULL: it has none */
    /* Writes the members of the request's body; NULL: the request has no body. A result other than
     * 0 is the exit status, after a message. */
    int (*body)(const struct verb *v, const void *options, char **argv, struct json_writer *w);
    const struct answer_kind *kind;
    bool list;         /* it answers with rows */
    const char *done;  /* "removed": for people, a line "ARGUMENT removed" instead of a record */
    const char *doing; /* shown while it lasts */
    /* Prints the answer in another way, for people: an exit status, or -1 for the usual one. NULL:
     * always that. */
    int (*print)(const struct api_call *c, const void *options, const struct json *v);
};
int answer_simple(const struct verb *v, int argc, char **argv, const struct simple *s);

/* The kinds that several verbs show. */
extern const struct answer_kind kind_sandbox, kind_sandbox_whole, kind_event, kind_process,
    kind_stale, kind_snapshot, kind_image;

#endif
