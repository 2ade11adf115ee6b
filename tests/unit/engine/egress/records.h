/* SPDX-License-Identifier: Apache-2.0 */
/* An audit record as a test reads it back: every line must be JSON, and show nothing raw. */
#ifndef TESTS_EGRESS_RECORDS_H
#define TESTS_EGRESS_RECORDS_H

#include "lib/json/value.h"

enum { RECORDS_MAX = 4096 };

struct records {
    int fd; /* the audit writes to a duplicate */
    size_t n;
    const struct json *line[RECORDS_MAX];
    struct str text[RECORDS_MAX];
};

int records_open(struct records *r); /* a descriptor for audit_new() */
void records_read(struct records *r);
void records_take(struct records *r, struct str bytes); /* adds the lines in it */

/* "metadata.uid" of a line; NULL if it is not there. */
const struct json *record_at(const struct json *line, const char *path);
const char *record_text(const struct json *line, const char *path); /* "" if absent */
int64_t record_int(const struct json *line, const char *path);      /* -1 if absent */

/* Number of events that the lines count, of those with this status_code (NULL: all). */
uint64_t records_count(const struct records *r, const char *code);
size_t records_lines(const struct records *r, const char *code);

#endif
