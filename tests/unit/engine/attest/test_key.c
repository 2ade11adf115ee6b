/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/envelope.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/tar/remove.h"

static char path[] = "/tmp/key-XXXXXX";

static void end(void)
{
    AUTO_CLOSE int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);

    tree_remove(tmp, path + 5, NULL);
}

TEST(a_key_is_made_once_and_kept_from_others)
{
    unsigned char first[CRYPTO_SIGN_KEY_SIZE], again[CRYPTO_SIGN_KEY_SIZE],
        public_key[CRYPTO_SIGN_KEY_SIZE];
    AUTO_CLOSE int dir = -1;
    struct stat st;

    CHECK(mkdtemp(path) != NULL);
    atexit(end);
    dir = open(path, O_RDONLY | O_DIRECTORY);
    CHECK_INT(attest_key_open(dir, first, NULL), 0);
    CHECK_INT(attest_key_open(dir, again, NULL), 0);
    CHECK(memcmp(first, again, sizeof first) == 0);
    CHECK_INT(fstatat(dir, ATTEST_KEY_FILE, &st, 0), 0);
    CHECK_INT(st.st_mode & 07777, 0600);
    CHECK_INT(attest_public_read(dir, ATTEST_PUBLIC_FILE, again, NULL), 0);
    crypto_sign_public(first, public_key);
    CHECK(memcmp(public_key, again, sizeof again) == 0);
    CHECK_INT(fchmodat(dir, ATTEST_KEY_FILE, 0644, 0), 0);
    CHECK_INT(attest_key_open(dir, again, NULL), -(int)ERR_DENIED);
    CHECK_INT(unlinkat(dir, ATTEST_KEY_FILE, 0), 0);
    CHECK_INT(symlinkat(ATTEST_PUBLIC_FILE, dir, ATTEST_KEY_FILE), 0);
    CHECK(attest_key_open(dir, again, NULL) < 0);
}
