/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/aead.h"

#include "base/own.h"
#include "harness/tap.h"

TEST(a_text_opens_with_its_key_and_its_name_only)
{
    unsigned char key[CRYPTO_AEAD_KEY] = { 1 }, other[CRYPTO_AEAD_KEY] = { 2 };
    static const char *const texts[] = { "", "a", "a text that is longer than one block of it" };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        AUTO(buf_done) struct buf s = BUF_INIT(256), twice = BUF_INIT(256), p = BUF_INIT(256);

        CHECK(crypto_aead_seal(key, STR("n"), str_from(texts[i]), &s, NULL) >= 0);
        CHECK(crypto_aead_seal(key, STR("n"), str_from(texts[i]), &twice, NULL) >= 0);
        CHECK(!str_eq(buf_str(&s), buf_str(&twice)));
        CHECK_INT(s.n, strlen(texts[i]) + CRYPTO_AEAD_MORE);
        CHECK_INT(crypto_aead_open(other, STR("n"), buf_str(&s), &p, NULL), -ERR_DENIED);
        CHECK_INT(crypto_aead_open(key, STR("m"), buf_str(&s), &p, NULL), -ERR_DENIED);
        CHECK_INT(crypto_aead_open(key, STR("n"), (struct str){ s.p, s.n - 1 }, &p, NULL),
                  -ERR_DENIED);
        CHECK(crypto_aead_open(key, STR("n"), buf_str(&s), &p, NULL) >= 0);
        CHECK_STR(buf_str(&p), texts[i]);
    }
}
