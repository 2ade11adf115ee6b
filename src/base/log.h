/* SPDX-License-Identifier: Apache-2.0 */
/* Structured log lines on stderr: a stable event name and key/value pairs.
 *
 *     LOG(INFO, "sandbox.ready", LOG_S("id", id), LOG_I("us", took));
 *
 * Event names are listed in docs/events.md. Values that come from outside are escaped, so that no
 * sandbox writes control characters to an operator's terminal. A line has at most 4096 bytes, a
 * value 1023: longer values are cut, fields that do not fit are counted in lost_fields. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_PLAIN, LOG_JSON };

struct log_field {
    const char *key;
    bool is_number;
    struct str text;
    int64_t number;
};

#define LOG_S(k, v)   ((struct log_field){ .key = (k), .text = str_from(v) })
#define LOG_STR(k, v) ((struct log_field){ .key = (k), .text = (v) })
#define LOG_I(k, v)   ((struct log_field){ .key = (k), .is_number = true, .number = (v) })

#define LOG(level, event, ...)                                                                     \
    log_write_(LOG_##level, (event), (const struct log_field[]){ { .key = NULL }, __VA_ARGS__ },   \
               sizeof((const struct log_field[]){ { .key = NULL }, __VA_ARGS__ }) /                \
                   sizeof(struct log_field))

void log_setup(enum log_level most, enum log_format format);
void log_write_(enum log_level level, const char *event, const struct log_field *fields, size_t n);

/* Copies s to out with everything a terminal could act on written as \xNN; always ends in NUL. */
void log_printable(struct str s, char *out, size_t cap);

#endif
