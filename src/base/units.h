/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities as people write them. Each reads the whole of s or fails with a message that says what
 * would be right; `what` names the value in that message ("--memory"). */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

int units_bytes(struct str s, const char *what, uint64_t *ret, struct err *e); /* 64M, 1.5G, 4096 */
int units_duration(struct str s, const char *what, int64_t *ret,
                   struct err *e); /* 2s, 1h30m, 250ms */
int units_milli(struct str s, const char *what, uint32_t *ret, struct err *e); /* 0.5 -> 500 */
int units_count(struct str s, const char *what, uint64_t min, uint64_t max, uint64_t *ret,
                struct err *e);

/* The end of a noun behind a count: printf("%zu file%s", n, units_plural(n)). */
static inline const char *units_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* "64M", "1.5G", "4096": for messages. */
void units_show_bytes(uint64_t bytes, char out[static 24]);
/* "100d", "1h30m", "90s", as exact as seconds are: for messages. */
void units_show_duration(int64_t ns, char out[static 48]);

#endif
