/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ssh/kit.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

TEST(a_kit_is_whole_and_sealed)
{
    struct ssh_kit *k = NULL;
    const int *files;
    struct err e = { 0 };
    size_t n = 0;

    if (ssh_kit_make(&k, &e) == -(int)ERR_UNSUPPORTED)
        SKIP("%s", e.msg);
    CHECK_STR(str_from(e.msg), "");
    CHECK(k != NULL);
    files = ssh_kit_files(k, &n);
    CHECK(n > SSH_KIT_LIBRARIES && n <= SSH_KIT_FILES_MAX);
    for (size_t i = 0; i < n; i++) {
        char magic[4] = "";

        CHECK(fcntl(files[i], F_GET_SEALS) & F_SEAL_WRITE);
        CHECK_INT(pread(files[i], magic, sizeof magic, 0), sizeof magic);
        CHECK(memcmp(magic,
                     "\x7f"
                     "ELF",
                     sizeof magic) == 0);
    }
    CHECK(ssh_kit_fresh(k));
    ssh_kit_free(k);
    ssh_kit_free(NULL);
}
