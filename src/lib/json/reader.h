/* SPDX-License-Identifier: Apache-2.0 */
/* JSON text into a tree: RFC 8259 and nothing else.
 *
 * Refused, with line, byte offset and reason: duplicate keys, bytes that are not UTF-8, escapes of
 * lone surrogates, control characters in strings, a byte order mark, anything behind the value, a
 * whole number outside int64_t and uint64_t, a number beyond a double, more depth or bytes than the
 * limits (-ERR_TOO_BIG, as is a tree the arena has no room for). */
#ifndef LIB_JSON_READER_H
#define LIB_JSON_READER_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/value.h"

/* The tree borrows nothing from text: all of it is on the arena. Memory that a failed call took
 * from the arena stays allocated. */
int json_read(struct str text, struct json_limits limits, struct arena *a, const struct json **ret,
              struct err *e);

#endif
