/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/network.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "harness/tap.h"

enum { HOLDERS = 2, EXES = 3 };

/* An answer of PID 1's: each holder's program and its one ancestor; paths by number. */
static const struct control_who_is *make(const uint32_t (*holders)[2], uint32_t n,
                                         const char *const paths[static EXES])
{
    static union {
        struct control_who_is is;
        char bytes[4096];
    } m;
    char *at = m.bytes + sizeof m.is;

    memset(&m, 0, sizeof m);
    m.is.n_holders = n;
    m.is.holder_size = sizeof(struct control_holder);
    m.is.n_exes = EXES;
    m.is.exe_size = sizeof(struct control_exe);
    for (uint32_t i = 0; i < n; i++) {
        struct control_holder h = { .pid = 7 + (int)i, .exe = holders[i][0], .n_ancestors = 1 };

        h.ancestors[0] = holders[i][1];
        memcpy(at, &h, sizeof h);
        at += sizeof h;
    }
    at += EXES * sizeof(struct control_exe);
    for (size_t i = 0; i < EXES; i++) {
        size_t size = strlen(paths[i]) + 1;

        memcpy(at, paths[i], size);
        at += size;
        m.is.text_size += (uint32_t)size;
    }
    control_fill(&m.is.head, CONTROL_WHO_IS, 1, (size_t)(at - m.bytes));
    CHECK(control_check(&m, (size_t)(at - m.bytes), NULL) >= 0);
    return &m.is;
}

static const char *const paths[] = { "/usr/bin/curl", "/bin/sh", "/usr/bin/wget" };

TEST(one_program_is_known)
{
    struct wire_who_is is;

    network_who_is(make((const uint32_t[][2]){ { 0, 1 } }, 1, paths), &is);
    CHECK(is.known == 1 && is.pid == 7 && is.n_ancestors == 1);
    CHECK_STR(str_from(is.binary), "/usr/bin/curl");
    CHECK_STR(str_from(is.ancestors[0]), "/bin/sh");
    wire_fill(&is.head, WIRE_WHO_IS, 1, sizeof is);
    CHECK(wire_check(&is, sizeof is, NULL) >= 0);
}

TEST(nobody_and_different_programs_are_not)
{
    struct wire_who_is is;

    network_who_is(make(NULL, 0, paths), &is);
    CHECK(is.known == 0);
    network_who_is(make((const uint32_t[][2]){ { 0, 1 }, { 2, 1 } }, 2, paths), &is);
    CHECK(is.known == 0);
}

TEST(only_ancestors_that_all_have_count)
{
    struct wire_who_is is;

    network_who_is(make((const uint32_t[][2]){ { 0, 1 }, { 0, 2 } }, 2, paths), &is);
    CHECK(is.known == 1 && is.n_ancestors == 0);
    network_who_is(make((const uint32_t[][2]){ { 0, 1 }, { 0, 1 } }, 2, paths), &is);
    CHECK(is.known == 1 && is.n_ancestors == 1);
}

TEST(a_program_without_a_name_is_not_known)
{
    char longest[WIRE_PATH_MAX + 2];
    struct wire_who_is is;

    network_who_is(
        make((const uint32_t[][2]){ { 0, 1 } }, 1, (const char *const[]){ "", "/bin/sh", "" }),
        &is);
    CHECK(is.known == 0);
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    network_who_is(
        make((const uint32_t[][2]){ { 0, 1 } }, 1, (const char *const[]){ longest, "/bin/sh", "" }),
        &is);
    CHECK(is.known == 0);
    network_who_is(
        make((const uint32_t[][2]){ { 0, 1 } }, 1, (const char *const[]){ "/a", longest, "" }),
        &is);
    CHECK(is.known == 1 && is.n_ancestors == 0);
}
