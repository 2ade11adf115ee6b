/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ssh/key.h"

#include "base/own.h"
#include "harness/tap.h"

/* As ssh-keygen made it. */
#define KEY "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEbIncCkR2V15K5SaifwTKyS+SEBvE3pREcjxy/FzNrZ"

static int read_key(const char *line, struct buf *ret)
{
    return ssh_public_key_read(str_from(line), ret, NULL);
}

TEST(a_key_loses_its_comment_and_nothing_else)
{
    static const char *const same[] = { KEY, KEY " me@here", KEY " a b c", "  " KEY "\n",
                                        KEY " restrict,command=\"x\"" };

    for (size_t i = 0; i < COUNT_OF(same); i++) {
        AUTO(buf_done) struct buf got = BUF_INIT(1024);

        CHECK_INT(read_key(same[i], &got), 0);
        CHECK_STR(buf_str(&got), KEY);
    }
}

TEST(what_is_no_key_is_refused)
{
    static const char *const bad[] = {
        "",
        " ",
        "ssh-ed25519",
        "ssh-ed25519 ",
        "ssh-ed25519  AAAA",
        "ssh-dss AAAAB3NzaC1kc3MAAAAA",
        "command=\"sh\" " KEY,
        "no-pty " KEY,
        "cert-authority " KEY,
        "# " KEY,
        "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIEbIncCkR2V15K5SaifwTKyS+SEBvE3pREcjxy/FzNrZ",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEbIncCkR2V15K5SaifwTKyS+SEBvE3pREcjxy/FzNr",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5//////",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEbIncCkR2V15K5SaifwTKyS+SEBvE3pREcjxy/FzNrZ\n" KEY,
        KEY "\tme",
        KEY " me\n" KEY,
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(buf_done) struct buf got = BUF_INIT(1024);

        CHECK_INT(read_key(bad[i], &got), -(int)ERR_INVALID);
        CHECK_INT(got.n, 0);
    }
}

/* What ssh-keygen -y says of the private file is what we say of the key. */
TEST(ours_are_files_of_openssh)
{
    static const unsigned char key[CRYPTO_SIGN_KEY_SIZE] = { 1, 2, 3 };
    AUTO(buf_done)
    struct buf public = BUF_INIT(1024), private = BUF_INIT(4096), again = BUF_INIT(1024);

    CHECK_INT(ssh_public_key_write(key, &public), 0);
    CHECK_INT(read_key(public.p, &again), 0);
    CHECK_STR(buf_str(&again), public.p);
    CHECK_INT(ssh_private_key_write(key, &private), 0);
    CHECK(str_starts(buf_str(&private), STR("-----BEGIN OPENSSH PRIVATE KEY-----\n")));
    CHECK(str_ends(buf_str(&private), STR("\n-----END OPENSSH PRIVATE KEY-----\n")));
}
