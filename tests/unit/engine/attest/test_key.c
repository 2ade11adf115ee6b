#include "seal/key.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "tree/remove.h"

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
    CHECK_INT(seal_key_open(dir, first, NULL), 0);
    CHECK_INT(seal_key_open(dir, again, NULL), 0);
    CHECK(memcmp(first, again, sizeof first) == 0);
    CHECK_INT(fstatat(dir, SEAL_KEY_FILE, &st, 0), 0);
    CHECK_INT(st.st_mode & 07777, 0600);
    CHECK_INT(seal_public_read(dir, SEAL_PUBLIC_FILE, again, NULL), 0);
    crypto_sign_public(first, public_key);
    CHECK(memcmp(public_key, again, sizeof again) == 0);
    CHECK_INT(fchmodat(dir, SEAL_KEY_FILE, 0644, 0), 0);
    CHECK_INT(seal_key_open(dir, again, NULL), -(int)ERR_DENIED);
    CHECK_INT(unlinkat(dir, SEAL_KEY_FILE, 0), 0);
    CHECK_INT(symlinkat(SEAL_PUBLIC_FILE, dir, SEAL_KEY_FILE), 0);
    CHECK(seal_key_open(dir, again, NULL) < 0);
}
