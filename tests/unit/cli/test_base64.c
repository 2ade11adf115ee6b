/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/base64.h"

#include "base/own.h"
#include "harness/tap.h"

static void check(const char *text, const char *want)
{
    AUTO(buf_done) struct buf out = BUF_INIT(64);

    CHECK_INT(base64_decode(str_from(text), &out), 0);
    CHECK_STR(buf_str(&out), want);
}

TEST(base64_reads)
{
    check("", "");
    check("Zg==", "f");
    check("Zm8=", "fo");
    check("Zm9v", "foo");
    check("Zm9vYmFy", "foobar");
    check("+/+/", "\xfb\xff\xbf");
}

TEST(base64_refuses)
{
    static const char *const bad[] = { "Z", "Zg", "Zg=", "Zg=a", "Z===", "Zm9-", "Zm 9", "====" };
    AUTO(buf_done) struct buf out = BUF_INIT(64);

    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (base64_decode(str_from(bad[i]), &out) != -ERR_INVALID)
            FAIL("'%s' is taken", bad[i]);
    CHECK_INT(out.n, 0);
}

TEST(base64_respects_the_ceiling)
{
    AUTO(buf_done) struct buf out = BUF_INIT(2);

    CHECK_INT(base64_decode(STR("Zm9v"), &out), -ERR_TOO_BIG);
}
