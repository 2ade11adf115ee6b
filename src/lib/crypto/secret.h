/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing and erasing secrets. lib/crypto/random.h makes them. */
#ifndef LIB_CRYPTO_SECRET_H
#define LIB_CRYPTO_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* The time depends on the lengths only, so it reveals nothing about the position of a
 * difference. */
bool crypto_equal(struct str a, struct str b);

/* Overwrites, and the compiler cannot leave it out. */
void crypto_wipe(void *p, size_t n);

#endif
