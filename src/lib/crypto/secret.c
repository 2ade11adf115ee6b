/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/secret.h"

#include <openssl/crypto.h>

bool crypto_equal(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || CRYPTO_memcmp(a.p, b.p, a.n) == 0);
}

void crypto_wipe(void *p, size_t n)
{
    if (n > 0)
        explicit_bzero(p, n);
}
