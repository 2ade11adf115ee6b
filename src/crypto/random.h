/* Random bytes from the kernel, fit for keys. They do not pass through a generator of this process,
 * so neither a fork nor a machine resumed from a snapshot repeats them. */
#ifndef CRYPTO_RANDOM_H
#define CRYPTO_RANDOM_H

#include <stddef.h>

#include "base/err.h"

/* Waits, early in a machine's life, until the kernel has gathered enough. On failure nothing in out
 * may be used. */
int crypto_random(void *out, size_t n, struct err *e);

#endif
