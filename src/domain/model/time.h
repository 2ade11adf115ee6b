/* Moments as people and programs write them. */
#ifndef MODEL_TIME_H
#define MODEL_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { TIME_TEXT = 32 };

/* RFC 3339 in UTC, with milliseconds: "2026-01-02T03:04:05.678Z". */
void time_text(int64_t wall_ns, char out[static TIME_TEXT]);
/* The same back: in UTC ("Z"), with up to nine digits behind the seconds or none. */
bool time_read(struct str text, int64_t *ret_wall_ns);

#endif
