/* SPDX-License-Identifier: Apache-2.0 */
/* The position of a value in a document, and messages with that position. Private to the module.
 *
 * A place is a chain of stack frames, one for each level, and becomes text ("ports[1].number") only
 * in an error message. */
#ifndef LIB_JSON_PLACE_H
#define LIB_JSON_PLACE_H

#include "base/err.h"
#include "lib/json/value.h"

struct json_place {
    const struct json_place *up; /* NULL: the document itself */
    struct str name;             /* of a member; p is NULL for an item … */
    size_t index;                /* … which has this */
};

static inline struct json_place json_place_member(const struct json_place *up, struct str name)
{
    return (struct json_place){ .up = up, .name = name };
}

static inline struct json_place json_place_item(const struct json_place *up, size_t index)
{
    return (struct json_place){ .up = up, .index = index };
}

/* "line 3: ports[1].number: …", -ERR_INVALID; v gives the line, if it has one. */
int json_place_fail(const struct json_place *at, const struct json *v, struct err *e,
                    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* "… expected WANTED, not the string 'x'" */
int json_place_expected(const struct json_place *at, const struct json *v, const char *wanted,
                        struct err *e);

/* Adds a word to the list "a, b, c" in out; words that do not fit become "…". */
void json_place_add_word(char *out, size_t cap, const char *word);

#endif
