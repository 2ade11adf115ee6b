/* YAML text into the tree of json/value.h: the part of YAML 1.2 that means the same to everybody.
 *
 * One document. Scalars as scalar.h says: yes, no, on and off are strings. Refused, with line and
 * column: anchors and aliases, tags, directives, merge keys, duplicate keys, keys that are not
 * strings, a second document, a byte order mark, bytes that are not UTF-8, more depth or bytes than
 * the limits (-ERR_TOO_BIG, as is a tree the arena has no room for). A text without a document is
 * null. Every value has its place, whatever the limits say. */
#ifndef YAML_READER_H
#define YAML_READER_H

#include "base/arena.h"
#include "base/err.h"
#include "json/value.h"

/* The tree borrows nothing from text: all of it is on the arena. What a failed call used of the
 * arena stays used. */
int yaml_read(struct str text, struct json_limits limits, struct arena *a, const struct json **ret,
              struct err *e);

#endif
