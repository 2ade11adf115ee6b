/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

enum { MEMORY = 1 << 20 };

static int output(const char *json, struct buf *bytes)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(str_from(json), (struct json_limits){ MEMORY, 64, false }, &a, &v, &e), e);
    return output_line(v, bytes, &e);
}

TEST(output_out_of_lines)
{
    AUTO(buf_done) struct buf bytes = BUF_INIT(64);

    CHECK_INT(output("{\"stream\":\"stdout\",\"line\":\"a\"}", &bytes), 1);
    CHECK_INT(output("{\"stream\":\"stderr\",\"line_b64\":\"/w==\"}", &bytes), 2);
    CHECK_STR(buf_str(&bytes), "a\n\xff\n");
    CHECK_INT(output("{\"stream\":\"exited\"}", &bytes), 0);
    CHECK_INT(output("{\"stream\":\"stdout\",\"line_b64\":\"!\"}", &bytes), -ERR_UPSTREAM);
}

TEST(output_for_a_terminal_has_lines_and_tabs_only)
{
    AUTO(buf_done) struct buf out = BUF_INIT(8192);
    char much[3000];

    CHECK_INT(output_clean(STR("a\tb\n\033[31mc\r\n"), &out), 0);
    CHECK_STR(buf_str(&out), "a\tb\n\\x1b[31mc\\x0d\n");
    buf_clear(&out);
    memset(much, 'x', sizeof much);
    CHECK_INT(output_clean((struct str){ much, sizeof much }, &out), 0);
    CHECK_INT(out.n, sizeof much);
}
