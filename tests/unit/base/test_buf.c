/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"

TEST(grows_and_stays_terminated)
{
    AUTO(buf_done) struct buf b = BUF_INIT(100000);

    for (int i = 0; i < 1000; i++) {
        CHECK_INT(buf_add(&b, STR("0123456789")), 0);
        CHECK_INT(b.p[b.n], 0);
    }
    CHECK_INT(b.n, 10000);
    CHECK(memcmp(b.p + 9990, "0123456789", 10) == 0);
}

TEST(refuses_to_pass_its_ceiling)
{
    AUTO(buf_done) struct buf b = BUF_INIT(4);
    char *at;

    CHECK_INT(buf_add(&b, STR("12345")), -ERR_TOO_BIG);
    CHECK_INT(b.n, 0);
    CHECK_INT(buf_add(&b, STR("1234")), 0);
    CHECK_INT(buf_add_c(&b, '5'), -ERR_TOO_BIG);
    CHECK_INT(buf_addf(&b, "%d", 5), -ERR_TOO_BIG);
    CHECK_INT(buf_room(&b, 1, &at), -ERR_TOO_BIG);
    CHECK_INT(buf_add(&b, STR("")), 0);
    CHECK_STR(buf_str(&b), "1234");
}

TEST(sizes_that_would_wrap_around)
{
    AUTO(buf_done) struct buf small = BUF_INIT(10);
    AUTO(buf_done) struct buf endless = BUF_INIT(SIZE_MAX);
    char *at = NULL;

    CHECK_INT(buf_add(&small, STR("abc")), 0);
    CHECK_INT(buf_room(&small, SIZE_MAX, &at), -ERR_TOO_BIG);
    CHECK_INT(buf_room(&small, SIZE_MAX - 2, &at), -ERR_TOO_BIG);
    CHECK_INT(buf_room(&endless, SIZE_MAX, &at), -ERR_TOO_BIG);
    CHECK_INT(buf_add(&endless, STR("abc")), 0);
    CHECK_INT(buf_room(&endless, SIZE_MAX - 3, &at), -ERR_TOO_BIG);
    CHECK_INT(buf_room(&endless, SIZE_MAX - 2, &at), -ERR_TOO_BIG);
    CHECK(!at);
}

TEST(a_zeroed_buffer_holds_nothing)
{
    AUTO(buf_done) struct buf b = { 0 };

    CHECK_INT(buf_add_c(&b, 'x'), -ERR_TOO_BIG);
    CHECK_STR(buf_str(&b), "");
    buf_drop(&b, 3);
    buf_clear(&b);
    buf_grew(&b, 0);
}

TEST(formats)
{
    AUTO(buf_done) struct buf b = BUF_INIT(200);

    CHECK_INT(buf_addf(&b, "%s=%d;", "a", 1), 0);
    CHECK_INT(buf_addf(&b, "%100s", "x"), 0);
    CHECK_INT(b.n, 104);
    CHECK_INT(buf_addf(&b, "%s", ""), 0);
    CHECK_INT(b.n, 104);
    CHECK(str_starts(buf_str(&b), STR("a=1; ")));
}

TEST(room_is_filled_by_the_caller)
{
    AUTO(buf_done) struct buf b = BUF_INIT(100);
    char *at;

    CHECK_INT(buf_add(&b, STR("head ")), 0);
    CHECK_INT(buf_room(&b, 95, &at), 0);
    memset(at, 't', 4);
    buf_grew(&b, 4);
    CHECK_STR(buf_str(&b), "head tttt");
}

TEST(drop_and_clear)
{
    AUTO(buf_done) struct buf b = BUF_INIT(100);

    CHECK_INT(buf_add(&b, STR("abcdef")), 0);
    buf_drop(&b, 2);
    CHECK_STR(buf_str(&b), "cdef");
    CHECK_INT(b.p[b.n], 0);
    buf_drop(&b, 100);
    CHECK_STR(buf_str(&b), "");
    CHECK_INT(buf_add(&b, STR("again")), 0);
    buf_clear(&b);
    CHECK_STR(buf_str(&b), "");
}

TEST(done_keeps_the_ceiling)
{
    struct buf b;

    buf_init(&b, 3);
    CHECK_INT(buf_add(&b, STR("abc")), 0);
    buf_done(&b);
    CHECK(!b.p);
    CHECK_INT(buf_add(&b, STR("abcd")), -ERR_TOO_BIG);
    CHECK_INT(buf_add(&b, STR("abc")), 0);
    buf_done(&b);
    buf_done(&b);
}

TEST(bytes_may_be_nul)
{
    AUTO(buf_done) struct buf b = BUF_INIT(10);

    CHECK_INT(buf_add(&b, STR("a\0b")), 0);
    CHECK(str_eq(buf_str(&b), STR("a\0b")));
}
