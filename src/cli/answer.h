/* What a verb prints of an answer: for people by its columns, for programs the tree itself (-o), or
 * the ids alone (-q). Each returns an exit status. */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "cli/call.h"
#include "cli/table.h"

/* How a kind of thing is shown. */
struct kind {
    const char *rows; /* the list's member in an answer */
    const char *id;   /* the member that -q prints */
    const struct column *columns;
    size_t n;
};

/* The rows of a list: the named member, or the tree where it is a list itself. */
const struct json *answer_rows(const struct json *tree, const struct kind *k);

int answer_list(const struct call *c, const struct json *tree, const struct kind *k);
int answer_record(const struct call *c, const struct json *v, const struct kind *k);

/* For verbs that just do something: a line for people, the tree with -o, nothing with -q. */
int answer_done(const struct call *c, const struct json *tree, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* For how long the sandbox that was asked stood still, if it did: "stood still for 3.2 ms", or "".
 */
enum { ANSWER_PAUSE_MAX = 64 };
void answer_pause(const struct json *tree, char out[static ANSWER_PAUSE_MAX]);

/* A whole number of the answer; 0 if it is not there. */
uint64_t answer_number(const struct call *c, const char *path);

/* A verb that has layers read again: asks, and says how many of them are what they were. */
int answer_verified(struct call *c, const char *what);

/* What was printed has reached stdout: else EXIT_OURS, said. */
int answer_flush(const struct call *c);

/* A verb that is one request: its path, with the first argument in it if `before` ends with '/',
 * its body, and what is shown of the answer. */
struct simple {
    const char *method;
    const char *before, *after; /* of the argument in the path */
    void *options; /* the verb's own, which begin with a struct common; NULL: it has none */
    /* The members of the body; NULL: there is none. Not 0: what to exit with, said. */
    int (*body)(const struct verb *v, const void *options, char **argv, struct json_writer *w);
    const struct kind *kind;
    bool list;         /* it answers with rows */
    const char *done;  /* "removed": for people, a line "ARGUMENT removed" instead of a record */
    const char *doing; /* shown while it lasts */
    /* Prints the answer in another way, for people: an exit status, or -1 for the usual one. NULL:
     * always that. */
    int (*print)(const struct call *c, const void *options, const struct json *v);
};
int answer_simple(const struct verb *v, int argc, char **argv, const struct simple *s);

/* The kinds that several verbs show. */
extern const struct kind kind_sandbox, kind_sandbox_whole, kind_event, kind_process, kind_stale,
    kind_snapshot, kind_image;

#endif
