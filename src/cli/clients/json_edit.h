/* SPDX-License-Identifier: Apache-2.0 */
/* Changes a member of a JSON document as text. Everything else keeps its bytes: order, comments,
 * indentation, line ends, a byte order mark. */
#ifndef CLI_CLIENTS_JSON_EDIT_H
#define CLI_CLIENTS_JSON_EDIT_H

#include "base/arena.h"
#include "cli/clients/json_plain.h"
#include "lib/json/value.h"

enum { JSON_EDIT_MAX = 16 << 20, JSON_EDIT_PATH_MAX = 4 };

/* Names of members from the root: 1 to JSON_EDIT_PATH_MAX. */
struct json_path {
    const char *names[JSON_EDIT_PATH_MAX];
    size_t n;
};

/* A NUL follows the text, as in a buffer. All return -ERR_INVALID, with the line, where the text is
 * not JSON of the dialect, where a name of the path has something else than an object in front of
 * the last one, or is there twice; then `out` is as it was. */

/* Appends the text with this value at the path to `out`, which has room for JSON_EDIT_MAX. Objects
 * that are missing are made. 1, or 0 if it has this value already: the same text. */
int json_edit_set(struct str text, struct json_dialect d, const struct json_path *path,
                  const struct json *value, struct buf *out, struct err *e);

/* The same without the member. 0: it is not there. */
int json_edit_remove(struct str text, struct json_dialect d, const struct json_path *path,
                     struct buf *out, struct err *e);

/* Reads the member: 1, or 0 if it is not there. */
int json_edit_get(struct str text, struct json_dialect d, const struct json_path *path,
                  struct arena *a, const struct json **ret, struct err *e);

#endif
