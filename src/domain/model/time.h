/* SPDX-License-Identifier: Apache-2.0 */
/* Time as text. */
#ifndef DOMAIN_MODEL_TIME_H
#define DOMAIN_MODEL_TIME_H

#include <stdint.h>

enum { TIME_TEXT = 32 };

/* RFC 3339 in UTC, with milliseconds: "2026-01-02T03:04:05.678Z". */
void time_text(int64_t wall_ns, char out[static TIME_TEXT]);

#endif
