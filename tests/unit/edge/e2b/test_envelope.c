/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/envelope.h"
#include "harness/tap.h"

TEST(a_message_is_the_whole_body)
{
    struct str got;
    struct err e;

    CHECK_OK(envelope_read((struct str){ "\0\0\0\0\2{}", 7 }, &got, &e), e);
    CHECK(str_eq(got, STR("{}")));
    CHECK_OK(envelope_read((struct str){ "\0\0\0\0\0", 5 }, &got, &e), e);
    CHECK_INT(got.n, 0);
}

TEST(what_is_none_is_refused)
{
    static const struct str rows[] = {
        { "", 0 },
        { "\0\0\0\0", 4 },
        { "\0\0\0\0\3{}", 7 },         /* too long for its body */
        { "\0\0\0\0\1{}", 7 },         /* too short */
        { "\0\x40\0\0\0{}", 7 },       /* a gigabyte is declared */
        { "\0\xff\xff\xff\xff{}", 7 }, /* and the most there is */
        { "\1\0\0\0\2{}", 7 },         /* compressed */
        { "\2\0\0\0\2{}", 7 },         /* an end */
        { "\x80\0\0\0\2{}", 7 },
    };
    struct str got;
    struct err e;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_INT(envelope_read(rows[i], &got, &e), -(int)ERR_INVALID);
}

TEST(a_head_is_read_back)
{
    char text[ENVELOPE_HEAD + 3] = "12345abc";
    struct str got;
    struct err e;

    envelope_head(ENVELOPE_MESSAGE, 3, text);
    CHECK_OK(envelope_read((struct str){ text, sizeof text }, &got, &e), e);
    CHECK(str_eq(got, STR("abc")));
}
