/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON document in memory: a tree of plain values on an arena.
 *
 * Both readers (JSON text, YAML text) make it, bind.h turns it into structs at the edge. Nothing in
 * a tree is owned one by one: it lives exactly as long as its arena. */
#ifndef LIB_JSON_VALUE_H
#define LIB_JSON_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { JSON_DEPTH_MAX = 128 }; /* lists and objects inside each other; nothing goes deeper */

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_INT,  /* every whole number that fits in int64_t */
    JSON_UINT, /* only whole numbers above INT64_MAX, up to UINT64_MAX */
    JSON_DOUBLE,
    JSON_STR,
    JSON_ARRAY,
    JSON_OBJECT,
    JSON_TYPE_COUNT_,
};

struct json {
    enum json_type type : 8;
    uint16_t column; /* 1-based, where the value begins, or its key if it has one … */
    uint32_t line;   /* … and its line; 0: places were not kept */
    struct str key;  /* of a member of an object, else empty */
    union {
        bool b;
        int64_t i;
        uint64_t u;
        double d;
        struct str s; /* may hold NULs; a NUL also follows it, as it does keys */
        struct {
            const struct json *p;
            size_t n;
        } list; /* items of an array, or members of an object, in the order of the text */
    };
};

/* Limits of a reader. Every caller has to choose them. */
struct json_limits {
    size_t bytes;   /* of text */
    unsigned depth; /* at most JSON_DEPTH_MAX */
    bool places;    /* keep line and column of each value: for files that people edit */
};

/* Walks items or members; values other than arrays and objects have neither:
 *
 *     for (const struct json *item = json_first(v); item != json_end(v); item++)
 */
static inline const struct json *json_first(const struct json *v)
{
    return v->type >= JSON_ARRAY ? v->list.p : NULL;
}

static inline const struct json *json_end(const struct json *v)
{
    return v->type >= JSON_ARRAY && v->list.n ? v->list.p + v->list.n : json_first(v);
}

/* The member with this key, or NULL; NULL as well if v is no object. Looks at every member. */
const struct json *json_get(const struct json *v, struct str key);

/* Same types and values, members in the same order. Numbers must have the same type and bits: 1 is
 * not 1.0, 0.0 is not -0.0. Places do not count. */
bool json_equal(const struct json *a, const struct json *b);

/* "a whole number", "a list", …: for messages. */
const char *json_type_name(enum json_type type);

#endif
