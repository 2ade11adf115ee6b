/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/attest/envelope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/random.h"
#include "lib/crypto/secret.h"

enum { TEXT_MAX = 64 };

/* The one line of base64 that a file holds, as bytes. */
static int read_sign_key(int file, const char *name, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE],
                         struct err *e)
{
    AUTO(buf_done) struct buf key = BUF_INIT(TEXT_MAX);
    char text[TEXT_MAX];
    ssize_t n = pread(file, text, sizeof text, 0);
    int r;

    if (n < 0)
        return err_sys(e, "reading %s", name);
    r = crypto_unbase64(str_trim((struct str){ text, (size_t)n }), &key, e);
    if (r < 0 || key.n != CRYPTO_SIGN_KEY_SIZE)
        return err_set(e, ERR_INVALID, "%s is not a key: 32 bytes in base64", name);
    memcpy(ret, key.p, CRYPTO_SIGN_KEY_SIZE);
    crypto_wipe(key.p, key.n);
    crypto_wipe(text, sizeof text);
    return 0;
}

/* A file appears whole or not at all; -ERR_CONFLICT if there is one of that name already. */
static int write_attest_key_file(int dir, const char *name, mode_t mode, struct str bytes,
                                 struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
    AUTO_CLOSE int file = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    char path[64];

    if (file < 0)
        return err_sys(e, "creating %s", name);
    if (crypto_base64(bytes, &text) < 0 || buf_add_c(&text, '\n') < 0)
        return err_set(e, ERR_BUG, "internal error: key buffer is too small");
    if (fchmod(file, mode) < 0 || write_all(file, buf_str(&text), NULL) < 0 || fsync(file) < 0)
        return err_sys(e, "writing %s", name);
    crypto_wipe(text.p, text.n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW) < 0)
        return errno == EEXIST ? err_set(e, ERR_CONFLICT, "%s already exists", name)
                               : err_sys(e, "creating %s", name);
    return fsync(dir) < 0 ? err_sys(e, "writing %s", name) : 0;
}

static int make_sign_key(int dir, struct err *e)
{
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];
    int r = crypto_random(key, sizeof key, e);

    if (r >= 0)
        r = write_attest_key_file(dir, ATTEST_KEY_FILE, 0600,
                                  (struct str){ (const char *)key, sizeof key }, e);
    crypto_wipe(key, sizeof key);
    return r == -(int)ERR_CONFLICT ? 0 : r; /* another process was faster: its key counts */
}

static int write_attest_public_key(int dir, const unsigned char *private_key, struct err *e)
{
    unsigned char key[CRYPTO_SIGN_KEY_SIZE];
    int r;

    if (faccessat(dir, ATTEST_PUBLIC_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    crypto_sign_public(private_key, key);
    r = write_attest_key_file(dir, ATTEST_PUBLIC_FILE, 0644,
                              (struct str){ (const char *)key, sizeof key }, e);
    return r == -(int)ERR_CONFLICT ? 0 : r;
}

int attest_key_open(int state_dir, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE], struct err *e)
{
    AUTO_CLOSE int file = openat(state_dir, ATTEST_KEY_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    int r = 0;

    if (file < 0 && errno == ENOENT) {
        r = make_sign_key(state_dir, e);
        file = r < 0 ? -1 : openat(state_dir, ATTEST_KEY_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (r < 0)
        return r;
    if (file < 0 || fstat(file, &st) < 0)
        return err_sys(e, "opening %s", ATTEST_KEY_FILE);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(
            e, ERR_DENIED,
            "%s belongs to user %u with mode %o; it must belong to the current user with mode 0600",
            ATTEST_KEY_FILE, st.st_uid, st.st_mode & 07777);
    r = read_sign_key(file, ATTEST_KEY_FILE, ret, e);
    return r < 0 ? r : write_attest_public_key(state_dir, ret, e);
}

int attest_public_read(int dir, const char *path, unsigned char ret[static CRYPTO_SIGN_KEY_SIZE],
                       struct err *e)
{
    AUTO_CLOSE int file = openat(dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (file < 0)
        return err_sys(e, "opening the key %s", path);
    return read_sign_key(file, path, ret, e);
}
