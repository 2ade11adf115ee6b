/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/secrets/keyring.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

TEST(a_sealed_text_opens_at_its_place_only)
{
    AUTO(keyring_freep_) struct keyring *k = NULL, *other = NULL;
    AUTO(buf_done) struct buf sealed = BUF_INIT(4096), plain = BUF_INIT(4096);
    struct err e;

    CHECK(keyring_new(&k, &e) >= 0 && keyring_new(&other, &e) >= 0);
    CHECK(keyring_seal(k, STR("sandbox a"), STR("hunter2"), &sealed, &e) >= 0);
    CHECK(sealed_is(buf_str(&sealed)) && sealed_key(buf_str(&sealed)) == 1);
    CHECK(!memmem(sealed.p, sealed.n, "hunter2", 7));
    CHECK(keyring_unseal(k, STR("sandbox a"), buf_str(&sealed), &plain, &e) >= 0);
    CHECK_STR(buf_str(&plain), "hunter2");
    CHECK_INT(keyring_unseal(k, STR("sandbox b"), buf_str(&sealed), &plain, &e), -ERR_DENIED);
    CHECK_INT(keyring_unseal(other, STR("sandbox a"), buf_str(&sealed), &plain, &e), -ERR_DENIED);
    sealed.p[sealed.n - 5] ^= 1;
    CHECK_INT(keyring_unseal(k, STR("sandbox a"), buf_str(&sealed), &plain, &e), -ERR_DENIED);
}

TEST(a_file_is_made_once_and_rotated)
{
    char path[] = "/tmp/keyring-XXXXXX";
    AUTO(keyring_freep_) struct keyring *k = NULL, *again = NULL, *last = NULL;
    AUTO(buf_done) struct buf sealed = BUF_INIT(4096), plain = BUF_INIT(4096);
    AUTO_CLOSE int dir = -1;
    struct stat st;
    struct err e;

    CHECK(mkdtemp(path));
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(keyring_open(dir, "key", &k, &e) >= 0);
    CHECK(fstatat(dir, "key", &st, 0) == 0 && (st.st_mode & 07777) == 0600);
    CHECK(keyring_seal(k, STR("x"), STR("old"), &sealed, &e) >= 0);
    CHECK(keyring_rotate(k, &e) >= 0);
    CHECK_INT(keyring_active(k), 2);
    /* A process that starts now has both keys; after the end of the rotation, the new one. */
    CHECK(keyring_open(dir, "key", &again, &e) >= 0);
    CHECK(keyring_active(again) == 2 && keyring_has_old(again));
    CHECK(keyring_unseal(again, STR("x"), buf_str(&sealed), &plain, &e) >= 0);
    CHECK(keyring_retire(k, &e) >= 0);
    CHECK(keyring_open(dir, "key", &last, &e) >= 0);
    CHECK(keyring_active(last) == 2 && !keyring_has_old(last));
    CHECK_INT(keyring_unseal(last, STR("x"), buf_str(&sealed), &plain, &e), -ERR_DENIED);
    fchmodat(dir, "key", 0644, 0);
    keyring_free(take_ptr(last));
    last = NULL;
    CHECK_INT(keyring_open(dir, "key", &last, &e), -ERR_DENIED);
    unlinkat(dir, "key", 0);
    rmdir(path);
}

/* The key of a file's first line behind its title, which is the active one. */
static struct str active_key(const struct keyring *k, struct buf *text)
{
    struct str line;

    text->n = 0;
    CHECK(keyring_write(k, text) >= 0);
    (void)str_cut(str_cut(buf_str(text), '\n', &line), '\n', &line);
    return str_cut(line, ' ', &line);
}

/* A copy of the old key opens nothing that is sealed after a rotation. */
TEST(a_rotation_draws_another_key)
{
    AUTO(keyring_freep_) struct keyring *k = NULL;
    AUTO(buf_done) struct buf before = BUF_INIT(4096), after = BUF_INIT(4096);
    char path[] = "/tmp/keyring-XXXXXX";
    AUTO_CLOSE int dir = -1;
    struct str old, new;
    struct err e;

    CHECK(mkdtemp(path));
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(keyring_open(dir, "key", &k, &e) >= 0);
    old = active_key(k, &before);
    CHECK(keyring_rotate(k, &e) >= 0);
    new = active_key(k, &after);
    CHECK(old.n == 64 && new.n == 64 && !str_eq(old, new));
    unlinkat(dir, "key", 0);
    rmdir(path);
}

#define ZERO_KEY                                                                                   \
    "sandboxer-keys 1\n0 "                                                                         \
    "0000000000000000000000000000000000000000000000000000000000000000\n"

TEST(broken_files_are_refused)
{
    static const char *const bad[] = {
        "", "sandboxer-keys 2\n", "sandboxer-keys 1\n", "sandboxer-keys 1\n1 00\n", ZERO_KEY,
    };
    struct keyring *k = NULL;

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_INT(keyring_parse(str_from(bad[i]), &k, NULL), -ERR_INVALID);
}
