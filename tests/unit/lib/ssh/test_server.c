/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ssh/server.h"

#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static bool has_word(const char *const *argv, const char *word)
{
    for (; *argv; argv++)
        if (strcmp(*argv, word) == 0)
            return true;
    return false;
}

static void check_keys(int fd, bool agent)
{
    char text[SSH_KEYS_MAX + 1] = "";

    CHECK(pread(fd, text, SSH_KEYS_MAX, 0) > 0);
    CHECK(str_starts(str_from(text), STR("-----BEGIN OPENSSH PRIVATE KEY-----\n")));
    CHECK(strstr(text, "\nrestrict,pty,port-forwarding") != NULL);
    CHECK((strstr(text, ",agent-forwarding ssh-ed25519 AAAA\n") != NULL) == agent);
}

/* Whatever else is forwarded: nothing towards the client unless it asked for that. */
TEST(a_server_is_told_what_it_may)
{
    static const unsigned char key[CRYPTO_SIGN_KEY_SIZE] = { 1 };
    AUTO(arena_done) struct arena a = ARENA_INIT(64 << 10);
    struct ssh_kit *k = NULL;
    struct ssh_start start;
    struct err e = { 0 };

    if (ssh_kit_make(&k, &e) == -(int)ERR_UNSUPPORTED)
        SKIP("%s", e.msg);
    for (int agent = 0; agent < 2; agent++) {
        const struct ssh_server s = {
            .kit = k, .host_key = key, .client_key = STR("ssh-ed25519 AAAA"), .agent = agent
        };

        CHECK_INT(ssh_server_fill(&s, &a, &start, &e), 0);
        CHECK_STR(str_from(start.argv[0]), "/proc/self/fd/5");
        CHECK_INT(start.files[0], start.keys);
        check_keys(start.keys, agent);
        CHECK(has_word(start.argv, "AllowTcpForwarding=local"));
        CHECK(has_word(start.argv, "-i") && has_word(start.argv, "none"));
        CHECK(has_word(start.argv, agent ? "AllowAgentForwarding=yes" : "AllowAgentForwarding=no"));
        drop_fd(&start.keys);
    }
    ssh_kit_free(k);
}
