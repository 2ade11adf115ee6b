/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shell_words.h"

#include "base/own.h"
#include "harness/tap.h"

TEST(programs_that_wait_for_a_person)
{
    static const struct {
        const char *words[4];
        bool waits;
    } rows[] = {
        { { "bash" }, true },
        { { "/bin/sh" }, true },
        { { "/usr/bin/bash", "-l" }, true },
        { { "zsh", "-i", "--login" }, true },
        { { "python3" }, true },
        { { "bash", "-c", "true" }, false },
        { { "bash", "build.sh" }, false },
        { { "python3", "-m", "http.server" }, false },
        { { "make" }, false },
        { { "/bin/" }, false },
        { { "" }, false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CHECK_INT(shell_is_interactive((char *const *)(const void *)rows[i].words), rows[i].waits);
}
