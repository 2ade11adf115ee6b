/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/code/code_output.h"
#include "edge/code/message.h"
#include "base/own.h"
#include "harness/tap.h"

#define ID    "run_00000000000000000000"
#define OTHER "run_11111111111111111111"

static int take(struct code_output *o, int channel, const char *text)
{
    return code_output_take(o, channel, str_from(text));
}

#define TOLD(o, text) CHECK(str_eq(buf_str(&(o).json_lines), STR(text)))

TEST(lines_of_an_execution_are_passed_on)
{
    struct code_output o;

    code_output_init(&o, ID, false);
    CHECK_INT(take(&o, 1, OTHER " {\"a\":1}\nnoise\n" ID " {\"b\""), 0);
    TOLD(o, "");
    CHECK_INT(take(&o, 2, "of nobody"), 0);
    CHECK_INT(take(&o, 1, ":2}\n" ID " end"), 0);
    TOLD(o, "{\"b\":2}\n");
    CHECK_INT(take(&o, 1, "\n" ID " {\"late\":1}\n"), 1);
    TOLD(o, "{\"b\":2}\n");
    code_output_done(&o);
}

TEST(lines_that_are_no_messages_are_dropped)
{
    static const char *const lines[] = {
        "",
        "{",
        "}",
        "{}{}",
        "[]",
        "\"a\"",
        "{\"a\":01}",
        "{a:1}",
        "{\"a\":NaN}",
        "{\"a\"}",
        "{\"a\":1,}",
        "{\"a\":[1,]}",
        "{\"a\":[1}]",
        "{\"a\":\"\x01\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":tru}",
        "end",
        "{\"a\":\"\\u12\"}",
        "{\"a\":-}",
        "{\"a\":1.}",
        "{\"a\":1e}",
    };
    struct code_output o;

    code_output_init(&o, ID, false);
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        CHECK_INT(take(&o, 1, ID " "), 0);
        CHECK_INT(take(&o, 1, lines[i]), 0);
        CHECK_INT(take(&o, 1, i == 17 ? " \n" : "\n"), 0);
    }
    CHECK(code_output_begun(&o));
    TOLD(o, "");
    CHECK_INT(take(&o, 1, ID " {\"a\" : [ {}, [], -0.5e+7, \"\\ud800\\n\", true , null ] }\n"), 0);
    TOLD(o, "{\"a\" : [ {}, [], -0.5e+7, \"\\ud800\\n\", true , null ] }\n");
    code_output_done(&o);
}

TEST(a_message_is_not_nested_without_end)
{
    struct buf deep AUTO(buf_done) = BUF_INIT(1024), more AUTO(buf_done) = BUF_INIT(1024);

    for (int i = 1; i <= MESSAGE_DEPTH_MAX; i++)
        buf_add(i < MESSAGE_DEPTH_MAX ? &deep : &more, STR("{\"a\":"));
    buf_add(&more, buf_str(&deep));
    for (int i = 0; i < 2; i++) {
        struct buf *text = i ? &more : &deep;

        buf_add(text, STR("{}"));
        for (int n = 1; n < MESSAGE_DEPTH_MAX + i; n++)
            buf_add_c(text, '}');
        buf_add_c(text, '\n');
        CHECK(message_is_object(buf_str(text)) == !i);
    }
}

TEST(output_has_its_time)
{
    struct code_output o;

    code_output_init(&o, ID, true);
    o.now_ns = INT64_C(1767323045678000000);
    CHECK(!code_output_begun(&o));
    CHECK_INT(take(&o, 1, ID " {}\nout\n"), 0);
    CHECK_INT(take(&o, 2, "\036+" ID "\nerr"), 0);
    TOLD(
        o,
        "{}\n{\"type\":\"stdout\",\"text\":\"out\\n\",\"timestamp\":\"2026-01-02T03:04:05.678Z\"}\n"
        "{\"type\":\"stderr\",\"text\":\"err\",\"timestamp\":\"2026-01-02T03:04:05.678Z\"}\n");
    code_output_done(&o);
}

TEST(what_code_writes_is_told_as_it_is)
{
    struct code_output o;

    code_output_init(&o, ID, true);
    CHECK_INT(take(&o, 1, "before\n" ID " {\"n\":1}\nout\nhal"), 0);
    CHECK_INT(take(&o, 1, "f\036\n\036\n" OTHER " {\"n\":2}\n"), 0);
    TOLD(o, "{\"n\":1}\n{\"type\":\"stdout\",\"text\":\"out\\n\"}\n"
            "{\"type\":\"stdout\",\"text\":\"half\"}\n");
    buf_clear(&o.json_lines);
    CHECK_INT(take(&o, 2, "before\036+" OTHER "\nalso\036+"), 0);
    TOLD(o, "");
    CHECK_INT(take(&o, 2, ID "\nerr"), 0);
    CHECK_INT(take(&o, 1, ID " end\n"), 0);
    CHECK_INT(take(&o, 2, "or\036-" OTHER "\n!\036-" ID "\nafter"), 1);
    TOLD(o, "{\"type\":\"stderr\",\"text\":\"err\"}\n{\"type\":\"stderr\",\"text\":\"or\"}\n"
            "{\"type\":\"stderr\",\"text\":\"!\"}\n");
    code_output_done(&o);
}

/* Piece by piece, and all at once, it is the same text. */
TEST(where_it_is_cut_makes_no_difference)
{
    static const char err[] =
        "\036+" ID "\na\036b\nlong enough to be no mark, whatever follows it: "
        "0123456789012345678901234567890123456789\036\036-" ID "\n";
    struct code_output o;

    for (size_t n = 1; n < sizeof err; n++) {
        size_t at = 0;
        int r = 0;

        code_output_init(&o, ID, true);
        CHECK_INT(take(&o, 1, ID " end\n"), 0);
        for (; at < sizeof err - 1; at += n)
            r = code_output_take(
                &o, 2, (struct str){ err + at, at + n < sizeof err ? n : sizeof err - 1 - at });
        if (r != 1)
            FAIL("in pieces of %zu it does not end", n);
        code_output_done(&o);
    }
}

TEST(a_line_without_an_end_does_not_fill_the_memory)
{
    static char much[1 << 20];
    struct code_output o;
    int r = 0;

    memset(much, 'x', sizeof much);
    code_output_init(&o, ID, true);
    CHECK_INT(take(&o, 1, ID " {}\n"), 0);
    for (int i = 0; i < 64; i++) {
        CHECK_INT(code_output_take(&o, 1, (struct str){ much, sizeof much }), 0);
        CHECK(o.json_lines.n > sizeof much);
        buf_clear(&o.json_lines);
    }
    CHECK_INT(take(&o, 1, ID " end\n\036\n" ID " end\n"), 0); /* the first one is amid a line */
    CHECK_INT(take(&o, 2, "\036-" ID "\n"), 1);
    code_output_done(&o);
    code_output_init(&o, ID, false);
    for (int i = 0; r >= 0 && i < 64; i++)
        r = code_output_take(&o, 1, (struct str){ much, sizeof much });
    CHECK_INT(r, -ERR_TOO_BIG);
    code_output_done(&o);
}
