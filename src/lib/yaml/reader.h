/* SPDX-License-Identifier: Apache-2.0 */
/* YAML text into the tree of lib/json/value.h: the subset of YAML 1.2 that all readers agree on.
 *
 * One document. Scalars as scalar.h says: yes, no, on and off are strings. Refused, with line and
 * column: anchors and aliases, tags, directives, merge keys, duplicate keys, keys that are not
 * strings, a second document, a byte order mark, bytes that are not UTF-8, more depth or bytes than
 * the limits (-ERR_TOO_BIG, as is a tree the arena has no room for). A text without a document is
 * null. Every value has its place. */
#ifndef LIB_YAML_READER_H
#define LIB_YAML_READER_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/value.h"

/* The tree borrows nothing from text: all of it is on the arena. Memory that a failed call took
 * from the arena stays allocated. */
int yaml_read(struct str text, struct json_limits limits, struct arena *a, const struct json **ret,
              struct err *e);

#endif
