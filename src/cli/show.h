/* Values of an answer as people read them. Each adds text to out; v is NULL where the answer has no
 * such value, and adding nothing means there is nothing to say ("-" in a table). */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <stdint.h>

#include "base/buf.h"
#include "json/value.h"

typedef void show_fn(const struct json *v, int64_t now, struct buf *out);

show_fn show_text;    /* strings, numbers and booleans as they are; lists and objects in short */
show_fn show_age;     /* a time: "3m ago" */
show_fn show_until;   /* a time: "in 1h58m" */
show_fn show_seconds; /* a number: "2h" */
show_fn show_bytes;   /* a number: "1.5G" */
show_fn show_command; /* a list of words, quoted as a shell would need it */
show_fn
    show_outcome; /* a process: "running", "exit 1", "signal KILL", "timed out", "out of memory" */
/* Whether the end of a process says that it, or a shell's last command, was killed for memory. */
bool show_is_oom(const struct json *end);

/* The value at "a.b.c" in v; an empty path is v itself. NULL if there is none, or it is null. */
const struct json *show_at(const struct json *v, const char *path);

/* The string there; p == NULL if there is none. */
struct str show_string(const struct json *v, const char *path);

#endif
