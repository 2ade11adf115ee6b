/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as JSON writes them. */
#ifndef LIB_JSON_NUMBER_H
#define LIB_JSON_NUMBER_H

#include "lib/json/value.h"

/* Reads the number at p, in text that ends in NUL, as RFC 8259 defines it. Sets type and value of
 * *v and returns the first byte behind the number; NULL and a reason in *why if the text is not a
 * number or cannot be represented: whole numbers are exact or refused, the others are the nearest
 * double or, where that is infinite, refused. "-0" is the whole number 0.
 *
 * Like all of the module it expects the decimal point of the C locale, in which every process
 * starts. */
const char *json_number(const char *p, struct json *v, const char **why);

enum { JSON_DOUBLE_TEXT = 32 };

/* The shortest text that reads back as the same double; always with a point or an exponent, so that
 * it does not read back as a whole number. d must be finite. */
void json_double_text(double d, char out[static JSON_DOUBLE_TEXT]);

#endif
