/* SPDX-License-Identifier: Apache-2.0 */
/* Formats values of an answer for people. Each function appends text to `out`; v is NULL where the
 * answer has no such value, and an empty text is shown as "-" in a table. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <stdint.h>

#include "base/buf.h"
#include "lib/json/value.h"

typedef void show_fn(const struct json *v, int64_t now, struct buf *out);

show_fn show_text;    /* strings, numbers and booleans as they are; lists and objects in short */
show_fn show_age;     /* a time: "3m ago" */
show_fn show_until;   /* a time: "in 1h58m" */
show_fn show_since;   /* a time: "3m" */
show_fn show_moment;  /* a time, or milliseconds since 1970: "2026-01-02T03:04:05Z" */
show_fn show_seconds; /* a number: "2h" */
show_fn show_bytes;   /* a number: "1.5G" */
show_fn show_command; /* a list of words, quoted as a shell would need it */
show_fn
    show_outcome; /* a process: "running", "exit 1", "signal KILL", "timed out", "out of memory" */
/* Whether the process, or a shell's last command, was killed by the memory limit. */
bool show_is_oom(const struct json *end);

/* The value at "a.b.c" in v; an empty path is v itself. NULL if it is absent or null. */
const struct json *show_at(const struct json *v, const char *path);

/* The string at the path; p == NULL if it is absent. */
struct str show_string(const struct json *v, const char *path);
/* The whole number at the path, … */
int64_t show_int(const struct json *v, const char *path, int64_t otherwise);
unsigned long long show_count(const struct json *v, const char *path); /* … or 0 if it is below */
bool show_true(const struct json *v, const char *path); /* whether true is at the path */

#endif
