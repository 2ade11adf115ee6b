/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/signature.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "lib/crypto/secret.h"

enum { SIGNED_MAX = 16 << 10 };

bool signature_make(const struct signed_link *l, struct str token, char ret[static SIGNATURE_TEXT])
{
    AUTO(buf_done) struct buf text = BUF_INIT(SIGNED_MAX), encoded = BUF_INIT(SIGNATURE_TEXT);
    const struct str parts[] = { l->path, str_from(l->operation), l->user, token, l->expires };
    unsigned char digest[CRYPTO_SHA256_SIZE];

    for (size_t i = 0; i < (l->expires.p ? 5 : 4); i++)
        if ((i && buf_add_c(&text, ':') < 0) || buf_add(&text, parts[i]) < 0)
            return false;
    crypto_sha256(buf_str(&text), digest);
    if (crypto_base64((struct str){ (const char *)digest, sizeof digest }, &encoded) < 0)
        return false;
    while (encoded.n && encoded.p[encoded.n - 1] == '=')
        encoded.n--;
    snprintf(ret, SIGNATURE_TEXT, "v1_%.*s", (int)encoded.n, encoded.p);
    return true;
}

bool signature_good(const struct signed_link *l, struct str token, struct str signature)
{
    char right[SIGNATURE_TEXT];

    return signature_make(l, token, right) && crypto_equal(str_from(right), signature);
}

bool signature_well_formed(struct str signature)
{
    if (signature.n != SIGNATURE_TEXT - 2 || !str_starts(signature, STR("v1_")))
        return false;
    for (size_t i = 3; i < signature.n; i++) {
        char x = signature.p[i];

        if (!((x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || (x >= '0' && x <= '9') ||
              x == '+' || x == '/'))
            return false;
    }
    return true;
}

bool signature_expired(const struct signed_link *l, int64_t wall_ns)
{
    int64_t at;

    if (!l->expires.p)
        return false;
    return !str_to_i64(l->expires, &at) || at < wall_ns / NS_PER_S;
}
