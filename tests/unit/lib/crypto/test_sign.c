/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/sign.h"

#include "base/own.h"
#include "lib/crypto/encode.h"
#include "harness/tap.h"

static void unhex(const char *text, unsigned char *out, size_t n)
{
    AUTO(buf_done) struct buf bytes = BUF_INIT(128);

    CHECK_INT(crypto_unhex(str_from(text), &bytes, NULL), 0);
    CHECK_INT(bytes.n, n);
    memcpy(out, bytes.p, n);
}

/* RFC 8032, section 7.1, test 2. */
TEST(a_known_signature)
{
    unsigned char key[CRYPTO_SIGN_KEY_SIZE], want_public[CRYPTO_SIGN_KEY_SIZE],
        got_public[CRYPTO_SIGN_KEY_SIZE];
    unsigned char want[CRYPTO_SIGNATURE_SIZE], got[CRYPTO_SIGNATURE_SIZE];

    unhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", key, sizeof key);
    unhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", want_public,
          sizeof want_public);
    unhex("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613"
          "d0f11d8c387b2eae"
          "b4302aeeb00d291612bb0c00",
          want, sizeof want);
    crypto_sign_public(key, got_public);
    CHECK(memcmp(got_public, want_public, sizeof got_public) == 0);
    crypto_sign(key, STR("\x72"), got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    CHECK(crypto_signed_by(got_public, STR("\x72"), got));
    CHECK(!crypto_signed_by(got_public, STR("\x73"), got));
    got[3] ^= 1;
    CHECK(!crypto_signed_by(got_public, STR("\x72"), got));
}

TEST(any_bytes_as_a_key_verify_nothing)
{
    unsigned char key[CRYPTO_SIGN_KEY_SIZE], signature[CRYPTO_SIGNATURE_SIZE] = { 0 };

    memset(key, 0xff, sizeof key);
    CHECK(!crypto_signed_by(key, STR("x"), signature));
}
