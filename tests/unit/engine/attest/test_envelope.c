/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/envelope.h"

#include "base/own.h"
#include "harness/tap.h"

static const unsigned char private_key[CRYPTO_SIGN_KEY_SIZE] = "a key that is known to everybody";

static void make(struct buf *out, const char *text)
{
    CHECK_INT(attest_envelope_write(private_key, str_from(text), out, NULL), 0);
}

TEST(a_text_comes_back_as_it_was)
{
    AUTO(buf_done) struct buf envelope = BUF_INIT(4096), text = BUF_INIT(4096);
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];

    crypto_sign_public(private_key, key);
    make(&envelope, "{\"a\": 1}");
    CHECK_INT(attest_envelope_read(key, buf_str(&envelope), &text, NULL), 0);
    CHECK_STR(buf_str(&text), "{\"a\": 1}");
}

TEST(another_key_did_not_sign_it)
{
    AUTO(buf_done) struct buf envelope = BUF_INIT(4096), text = BUF_INIT(4096);
    unsigned char key[CRYPTO_SIGN_KEY_SIZE], other[CRYPTO_SIGN_KEY_SIZE] = { 1 };

    crypto_sign_public(other, key);
    make(&envelope, "x");
    CHECK_INT(attest_envelope_read(key, buf_str(&envelope), &text, NULL), -(int)ERR_DENIED);
    CHECK_INT(text.n, 0);
}

/* No byte can be another one: the envelope is refused, or what it says is the same. */
TEST(every_changed_byte_is_noticed)
{
    AUTO(buf_done) struct buf envelope = BUF_INIT(4096), text = BUF_INIT(4096);
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];

    crypto_sign_public(private_key, key);
    make(&envelope, "{\"files\": []}");
    for (size_t i = 0; i < envelope.n; i++) {
        envelope.p[i] ^= 1;
        buf_clear(&text);
        if (attest_envelope_read(key, buf_str(&envelope), &text, NULL) == 0)
            CHECK_STR(buf_str(&text), "{\"files\": []}");
        envelope.p[i] ^= 1;
    }
}

TEST(what_is_no_envelope_is_invalid)
{
    static const char *const texts[] = {
        "", "{}", "[]", "{\"payload\":\"\",\"payloadType\":\"x\",\"signatures\":[]}"
    };
    unsigned char key[CRYPTO_SIGN_KEY_SIZE] = { 0 };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        AUTO(buf_done) struct buf text = BUF_INIT(64);

        CHECK_INT(attest_envelope_read(key, str_from(texts[i]), &text, NULL), -(int)ERR_INVALID);
    }
}
