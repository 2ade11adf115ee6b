/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys.h"

#include "harness/tap.h"

static void check_decoded(const char *bytes, const int *want, size_t n)
{
    struct str rest = str_from(bytes);

    for (size_t i = 0; i < n; i++) {
        CHECK(rest.n > 0);
        CHECK_INT(keys_next(&rest), want[i]);
    }
    CHECK_INT(rest.n, 0);
}

TEST(keys_are_bytes_or_sequences)
{
    check_decoded("jq\x03", (int[]){ 'j', 'q', 3 }, 3);
    check_decoded("\t\r\n", (int[]){ KEY_TAB, KEY_ENTER, KEY_ENTER }, 3);
    check_decoded("\033[A\033[Bx", (int[]){ KEY_UP, KEY_DOWN, 'x' }, 3);
    check_decoded("\033OA", (int[]){ KEY_UP }, 1);
    check_decoded("\033", (int[]){ KEY_ESCAPE }, 1);
    check_decoded("\033x", (int[]){ KEY_ESCAPE, 'x' }, 2);
}

TEST(unknown_and_cut_sequences_are_no_keys)
{
    check_decoded("\033[15~y", (int[]){ KEY_NONE, 'y' }, 2);
    check_decoded("\033[1;5Ay", (int[]){ KEY_UP, 'y' }, 2);
    check_decoded("\033[", (int[]){ KEY_NONE }, 1);
    check_decoded("\033[1;", (int[]){ KEY_NONE }, 1);
}
