/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/daytona/file_link.h"

#include "base/buf.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "lib/crypto/secret.h"

enum { LINK_MAX = 16 << 10 };

bool file_link_good(const struct file_link *l, struct str key, int64_t now_s)
{
    struct buf text AUTO(buf_done) = BUF_INIT(LINK_MAX), code AUTO(buf_done) = BUF_INIT(128);
    unsigned char digest[CRYPTO_SHA256_SIZE];
    int64_t until;

    if (!str_to_i64(l->expires, &until) || until < 0 || (until && until < now_s) ||
        !str_starts(l->signature, STR("v1_")))
        return false;
    if (buf_addf(&text, "v1:files:%s:", l->method) < 0 || buf_add(&text, l->path) < 0 ||
        buf_add_c(&text, ':') < 0 || buf_add(&text, l->expires) < 0)
        return false;
    crypto_hmac_sha256(key, buf_str(&text), digest);
    crypto_base64url((struct str){ (const char *)digest, sizeof digest }, &code);
    return crypto_equal(buf_str(&code), (struct str){ l->signature.p + 3, l->signature.n - 3 });
}
