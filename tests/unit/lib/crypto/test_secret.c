/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/secret.h"

#include "harness/tap.h"

TEST(equal_is_equal_to_the_last_byte)
{
    CHECK(crypto_equal(STR("secret"), STR("secret")));
    CHECK(!crypto_equal(STR("secret"), STR("secreT")));
    CHECK(!crypto_equal(STR("Secret"), STR("secret")));
    CHECK(!crypto_equal(STR("secret"), STR("secrets")));
    CHECK(!crypto_equal(STR("a\0b"), STR("a\0c")));
    CHECK(!crypto_equal(STR(""), STR("a")));
    CHECK(crypto_equal(STR(""), (struct str){ NULL, 0 }));
}

TEST(wiped_is_zero_and_no_more_than_asked)
{
    char key[8] = "1234567";

    crypto_wipe(key, 4);
    CHECK(memcmp(key,
                 "\0\0\0\0"
                 "567",
                 sizeof key) == 0);
    crypto_wipe(NULL, 0);
}
