/* SPDX-License-Identifier: Apache-2.0 */
/* Growing lists while a document is read. Readers push finished values; closing a list moves what
 * was pushed since its mark to the arena, in one piece.
 *
 *     size_t mark = json_build_mark(&b);
 *     … json_build_push(&b, &item) …
 *     r = json_build_close(&b, mark, &list);
 */
#ifndef LIB_JSON_BUILD_H
#define LIB_JSON_BUILD_H

#include "base/arena.h"
#include "base/buf.h"
#include "lib/json/value.h"

struct json_build {
    struct arena *arena;
    struct buf open_; /* the values of all open lists, innermost last */
};

void json_build_init(struct json_build *b, struct arena *a);
void json_build_done(struct json_build *b);

size_t json_build_mark(const struct json_build *b);

/* Both return -ERR_TOO_BIG where the arena's ceiling is passed, and set no message. */
int json_build_push(struct json_build *b, const struct json *v);
int json_build_close(struct json_build *b, size_t mark, struct json *list);

/* The second of two members of the closed object that have the same key, or NULL. Takes at most
 * n log n comparisons, for hostile keys, too. */
const struct json *json_build_twice(struct json_build *b, const struct json *object);

#endif
