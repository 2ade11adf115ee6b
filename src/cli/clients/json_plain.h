/* SPDX-License-Identifier: Apache-2.0 */
/* Checks JSON with comments, as editors write it, and makes plain JSON of it without moving a byte:
 * a position in the plain text is the same position in the original. */
#ifndef CLI_CLIENTS_JSON_PLAIN_H
#define CLI_CLIENTS_JSON_PLAIN_H

#include "base/buf.h"
#include "base/err.h"

/* Extensions of RFC 8259 that a program accepts. */
struct json_dialect {
    bool comments;
    bool trailing_commas;
};

enum { JSON_PLAIN_DEPTH = 128 };

/* The sign of a trailing comma in the plain text; comments, and a byte order mark, are blanks. */
#define JSON_PLAIN_COMMA '\t'

/* Copies the text to `plain`. -ERR_INVALID, with the line, for text that is not JSON of this
 * dialect. Strings are checked, but neither lone surrogates nor members with the same name are
 * errors. */
int json_plain(struct str text, struct json_dialect d, struct buf *plain, struct err *e);

/* The line of a position, from 1. */
size_t json_plain_line(struct str text, size_t at);

#endif
