/* SPDX-License-Identifier: Apache-2.0 */
/* A second opinion on JSON text: jansson's. Its names and ours collide, so this header shows
 * neither. */
#ifndef TESTS_JSON_ORACLE_H
#define TESTS_JSON_ORACLE_H

#include <stdio.h>

#include "base/str.h"

enum verdict {
    VERDICT_GOOD,
    VERDICT_BAD,
    VERDICT_BIG_NUMBER, /* refused for a number that jansson cannot hold */
    VERDICT_NUL_KEY,    /* refused for a NUL in a key, which jansson cannot hold either */
};

/* The dump both sides write, one token a value, so that equal trees have equal dumps. */
#define DUMP_NULL     "null "
#define DUMP_BOOL     "%d? "
#define DUMP_INT      "%lld "
#define DUMP_DOUBLE   "%a "
#define DUMP_OPEN     "%c%zu "
#define DUMP_STR_BYTE "%02x"
#define DUMP_STR_END  "$ "

void dump_str(FILE *out, struct str s);

/* Writes the dump of a good text to out. */
enum verdict oracle_read(struct str text, FILE *out);

#endif
