/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/random.h"

#include <string.h>

#include "harness/tap.h"

TEST(two_keys_differ)
{
    unsigned char a[32] = { 0 }, b[32] = { 0 }, zero[32] = { 0 };
    struct err e;

    CHECK_OK(crypto_random(a, sizeof a, &e), e);
    CHECK_OK(crypto_random(b, sizeof b, &e), e);
    CHECK(memcmp(a, b, sizeof a) != 0);
    CHECK(memcmp(a, zero, sizeof a) != 0);
}

/* The kernel may give less than asked for when it is asked for much. */
TEST(much_is_filled_to_the_end)
{
    static unsigned char much[1 << 20];
    size_t zeros = 0;
    struct err e;

    CHECK_OK(crypto_random(much, sizeof much, &e), e);
    for (size_t i = 0; i < sizeof much; i++)
        zeros += much[i] == 0;
    CHECK(zeros > 3000 && zeros < 5200); /* 4096 expected, 17 standard deviations each way */
    CHECK(memcmp(much + sizeof much - 16, (char[16]){ 0 }, 16) != 0);
}

TEST(nothing_is_nothing)
{
    CHECK_INT(crypto_random(NULL, 0, NULL), 0);
}

TEST(texts_are_long_and_plain)
{
    char a[CRYPTO_TEXT_MAX], b[CRYPTO_TEXT_MAX];
    struct err e;

    CHECK_OK(crypto_random_text("abc_", CRYPTO_BASE32, a, &e), e);
    CHECK_OK(crypto_random_text("abc_", CRYPTO_BASE32, b, &e), e);
    CHECK(strcmp(a, b) != 0);
    CHECK_INT(strlen(a), 4 + CRYPTO_TEXT_CHARS);
    CHECK(strncmp(a, "abc_", 4) == 0);
    CHECK_INT(strspn(a + 4, "0123456789abcdefghjkmnpqrstvwxyz"), CRYPTO_TEXT_CHARS);
}
