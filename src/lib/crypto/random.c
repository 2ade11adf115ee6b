/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/random.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "lib/crypto/secret.h"

int crypto_random(void *out, size_t n, struct err *e)
{
    char *p = out;

    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "reading random bytes");
        p += got;
        n -= (size_t)got;
    }
    return 0;
}

int crypto_random_text(const char *prefix, enum crypto_digits digits,
                       char ret[static CRYPTO_TEXT_MAX], struct err *e)
{
    static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    unsigned char random[CRYPTO_TEXT_CHARS];
    int n, r = crypto_random(random, sizeof random, e);

    if (r < 0)
        return r;
    n = snprintf(ret, CRYPTO_TEXT_MAX - CRYPTO_TEXT_CHARS, "%s", prefix);
    for (size_t i = 0; i < CRYPTO_TEXT_CHARS; i++)
        ret[(size_t)n + i] = alphabet[random[i] & (digits - 1u)];
    ret[(size_t)n + CRYPTO_TEXT_CHARS] = 0;
    crypto_wipe(random, sizeof random);
    return 0;
}
