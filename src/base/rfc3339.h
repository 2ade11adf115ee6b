/* SPDX-License-Identifier: Apache-2.0 */
/* Moments as documents have them: RFC 3339. */
#ifndef BASE_RFC3339_H
#define BASE_RFC3339_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* "2026-01-02T03:04:05Z", "2026-01-02T04:04:05.5+01:00": ns of the wall clock. From 1970 to 2261;
 * leap seconds are invalid. */
bool rfc3339_parse(struct str s, int64_t *ret);

enum { TIME_TEXT = 32 };

/* In UTC, with milliseconds: "2026-01-02T03:04:05.678Z". */
void time_text(int64_t wall_ns, char out[static TIME_TEXT]);

#endif
