/* SPDX-License-Identifier: Apache-2.0 */
/* Formats times and durations for people. base/rfc3339.h parses the times of answers. */
#ifndef CLI_TIME_TEXT_H
#define CLI_TIME_TEXT_H

#include <stdint.h>

enum { WHEN_TEXT = 24 };

/* The two largest nonzero units: "0s", "42s", "3m", "1h58m", "2d4h". */
void when_span(int64_t ns, char out[static WHEN_TEXT]);

void when_ago(int64_t then, int64_t now, char out[static WHEN_TEXT]);   /* "3m ago", "now" */
void when_until(int64_t then, int64_t now, char out[static WHEN_TEXT]); /* "in 1h58m", "due" */

#endif
