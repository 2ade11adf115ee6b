/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers as decimal digits. printf takes a third of the time of an answer that has many of
 * them. */
#ifndef BASE_DIGITS_H
#define BASE_DIGITS_H

#include <stddef.h>
#include <stdint.h>

enum { DIGITS_TEXT = 21 };

/* Writes the digits and a NUL, and returns the number of digits. */
size_t digits_text(uint64_t value, char out[static DIGITS_TEXT]);

/* Writes the last n digits of the value, with zeros before it, and no NUL. Returns out + n. */
char *digits_fill(char *out, size_t n, unsigned value);

#endif
