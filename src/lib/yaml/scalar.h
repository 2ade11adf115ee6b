/* SPDX-License-Identifier: Apache-2.0 */
/* The type of a plain scalar (one without quotes).
 *
 *     null, Null, NULL, ~ and nothing     null
 *     true, True, TRUE, false, …          a boolean
 *     12, -3, +4, 0x1F, 0o755             a whole number
 *     1.5, .5, 2., 1e9                    a double
 *     anything else                       a string: yes, no, on, off, 1_000, 12:30, 1.2.3
 *
 * Refused rather than guessed: 0755, which is octal to some readers and decimal to others; infinity
 * and NaN; numbers too large to hold. Quotes make strings of all of them. */
#ifndef LIB_YAML_SCALAR_H
#define LIB_YAML_SCALAR_H

#include "lib/json/value.h"

/* Sets type and value of *v; a string borrows from text. False and a reason in *why if the scalar
 * is refused. */
bool yaml_plain(struct str text, struct json *v, const char **why);

#endif
