/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the lines of a TOML document one by one: tables, and keys with the places of their values.
 * The syntax of values is checked as far as their ends depend on it. */
#ifndef CLI_CLIENTS_TOML_SCAN_H
#define CLI_CLIENTS_TOML_SCAN_H

#include "base/err.h"
#include "base/str.h"

enum { TOML_PARTS_MAX = 32, TOML_DEPTH_MAX = 64 };

enum toml_kind { TOML_END, TOML_TABLE, TOML_TABLES /* [[…]] */, TOML_PAIR };

struct toml_item {
    enum toml_kind kind;
    struct str parts[TOML_PARTS_MAX]; /* of the key, as they are written: quotes included */
    size_t n;
    size_t at, end;             /* of the item, without blanks and comments around it */
    size_t value_at, value_end; /* TOML_PAIR */
    size_t next;                /* the beginning of the next line */
};

struct toml_scan {
    struct str text; /* a NUL follows it */
    size_t at;
};

/* Checks the text as a whole (UTF-8, no NUL) and begins at its first line. */
int toml_scan_begin(struct toml_scan *s, struct str text, struct err *e);

/* The next item. -ERR_INVALID, with the line, for text that is not TOML. */
int toml_scan_next(struct toml_scan *s, struct toml_item *ret, struct err *e);

/* Whether a part of a key has this name. */
bool toml_part_is(struct str part, const char *name);

#endif
