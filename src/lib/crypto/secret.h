/* Comparing and forgetting bytes that nobody must guess. crypto/random.h makes them. */
#ifndef CRYPTO_SECRET_H
#define CRYPTO_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* In a time that depends on the lengths only, so a wrong guess does not tell how wrong it was. */
bool crypto_equal(struct str a, struct str b);

/* Overwrites, and the compiler cannot leave it out. */
void crypto_wipe(void *p, size_t n);

#endif
