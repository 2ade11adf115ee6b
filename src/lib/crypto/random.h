/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes from the kernel, fit for keys. They do not pass through a generator of this process,
 * so neither a fork nor a machine resumed from a snapshot repeats them. */
#ifndef LIB_CRYPTO_RANDOM_H
#define LIB_CRYPTO_RANDOM_H

#include <stddef.h>

#include "base/err.h"

/* Waits, early in a machine's life, until the kernel has gathered enough. On failure nothing in out
 * may be used. */
int crypto_random(void *out, size_t n, struct err *e);

/* A secret for people to copy: the prefix and 40 random digits, hexadecimal or, with five bits
 * each, letters and digits that are not mistaken for each other. */
enum { CRYPTO_TEXT_CHARS = 40, CRYPTO_TEXT_MAX = 64 };
enum crypto_digits { CRYPTO_HEX = 16, CRYPTO_BASE32 = 32 };
int crypto_random_text(const char *prefix, enum crypto_digits digits,
                       char ret[static CRYPTO_TEXT_MAX], struct err *e);

#endif
