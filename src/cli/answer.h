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
#define KIND(rows, id, columns)                                                                    \
    {                                                                                              \
        rows, id, columns, COUNT_OF(columns)                                                       \
    }

/* A line of stdout, free of anything a terminal could act on. */
void answer_print_text(struct str s);

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

/* Flushes stdout. EXIT_TOOL_FAILED, after a message, if the output could not be written. */
int answer_flush(const struct api_call *c);

/* The titles of a stream of rows; with -o nothing. */
void answer_titles(const struct api_call *c, const struct answer_kind *k);
/* A row of a stream, or with -o its document. */
int answer_row(const struct api_call *c, const struct json *row, const struct answer_kind *k,
               struct err *e);

/* Prints one document of a stream, for people. */
typedef int answer_row_fn(const void *user, const struct json *row, struct err *e);
answer_row_fn answer_print_row; /* as a row of a table; user is a struct answer_kind */

#define ANSWER_SSE STR("data: ") /* the prefix of server-sent events */

/* Sends a request whose answer may have no end and has a JSON document a line. Of each line that
 * begins with `prefix` the rest is printed as it comes, with -o as it is. A status. */
int answer_stream(struct api_call *c, struct str prefix, answer_row_fn *print, const void *user);

/* The kinds that several verbs show. */
extern const struct answer_kind kind_sandbox, kind_sandbox_changed, kind_sandbox_stats, kind_event,
    kind_process, kind_stale, kind_snapshot, kind_image, kind_workspace_change;

#endif
