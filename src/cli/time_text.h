/* Points in time and spans, as the interface writes them and as people read them. */
#ifndef CLI_WHEN_H
#define CLI_WHEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* "2026-01-02T03:04:05.678Z" as wall clock nanoseconds. False for anything else: other offsets than
 * Z, days that no month has, years before 1970 or after 2261. */
bool when_parse(struct str s, int64_t *ret_ns);

enum { WHEN_TEXT = 24 };

/* The two largest units that say something: "0s", "42s", "3m", "1h58m", "2d4h". */
void when_span(int64_t ns, char out[static WHEN_TEXT]);

void when_ago(int64_t then, int64_t now, char out[static WHEN_TEXT]);   /* "3m ago", "now" */
void when_until(int64_t then, int64_t now, char out[static WHEN_TEXT]); /* "in 1h58m", "due" */

#endif
