/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/hash.h"

#include <pthread.h>

#include "base/own.h"
#include "lib/crypto/encode.h"
#include "harness/tap.h"

static void check_hex(const unsigned char *bytes, size_t n, const char *want)
{
    AUTO(buf_done) struct buf text = BUF_INIT(128);

    CHECK_INT(crypto_hex((struct str){ (const char *)bytes, n }, &text), 0);
    CHECK_STR(buf_str(&text), want);
}

#define EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define ABC_SHA256   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

TEST(sha256_of_known_texts)
{
    unsigned char out[CRYPTO_SHA256_SIZE];

    crypto_sha256((struct str){ NULL, 0 }, out);
    check_hex(out, sizeof out, EMPTY_SHA256);
    crypto_sha256(STR("abc"), out);
    check_hex(out, sizeof out, ABC_SHA256);
}

TEST(sha256_in_pieces_is_sha256_of_the_whole)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    unsigned char out[CRYPTO_SHA256_SIZE];

    crypto_sha256_end(&h, out);
    check_hex(out, sizeof out, EMPTY_SHA256);

    crypto_sha256_add(&h, STR("a"));
    crypto_sha256_add(&h, (struct str){ NULL, 0 });
    crypto_sha256_add(&h, STR("bc"));
    crypto_sha256_end(&h, out);
    check_hex(out, sizeof out, ABC_SHA256);
}

TEST(sha256_can_be_left_in_the_middle)
{
    AUTO(crypto_sha256_done) struct crypto_sha256 h = { 0 };
    unsigned char out[CRYPTO_SHA256_SIZE];

    crypto_sha256_add(&h, STR("forgotten"));
    crypto_sha256_done(&h);
    crypto_sha256_add(&h, STR("abc"));
    crypto_sha256_end(&h, out);
    check_hex(out, sizeof out, ABC_SHA256);
    crypto_sha256_add(&h, STR("cleaned up at the end of the scope"));
}

/* RFC 4231, cases 2 and 6: a short key, and one longer than a block. */
TEST(hmac_of_known_texts)
{
    unsigned char out[CRYPTO_SHA256_SIZE];
    char key[131];

    crypto_hmac_sha256(STR("Jefe"), STR("what do ya want for nothing?"), out);
    check_hex(out, sizeof out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    crypto_hmac_sha256((struct str){ key, sizeof key },
                       STR("Test Using Larger Than Block-Size Key - Hash Key First"), out);
    check_hex(out, sizeof out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    crypto_hmac_sha256((struct str){ NULL, 0 }, (struct str){ NULL, 0 }, out);
    check_hex(out, sizeof out, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void *hash_often(void *result)
{
    for (int i = 0; i < 1000; i++)
        crypto_sha256(STR("abc"), result);
    return NULL;
}

TEST(threads_hash_at_the_same_time)
{
    unsigned char out[4][CRYPTO_SHA256_SIZE];
    pthread_t threads[4];

    for (size_t i = 0; i < COUNT_OF(threads); i++)
        CHECK_INT(pthread_create(&threads[i], NULL, hash_often, out[i]), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        CHECK_INT(pthread_join(threads[i], NULL), 0);
        check_hex(out[i], sizeof out[i], ABC_SHA256);
    }
}
