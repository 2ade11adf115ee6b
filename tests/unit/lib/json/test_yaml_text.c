/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/yaml_text.h"

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"
#include "lib/yaml/reader.h"

enum { MEMORY = 4 << 20 };

static const struct json_limits limits = { .bytes = MEMORY, .depth = 64 };

static const struct json *parse(struct arena *a, const char *text)
{
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(str_from(text), limits, a, &v, &e), e);
    return v;
}

static void check_text(const char *json, const char *want)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
    AUTO(buf_done) struct buf out = BUF_INIT(MEMORY);

    CHECK(yaml_text(&out, parse(&a, json)) == 0);
    CHECK_STR(buf_str(&out), want);
}

/* Written as YAML and read as YAML it is the same. */
static void check_back(const struct json *v)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
    AUTO(buf_done) struct buf out = BUF_INIT(MEMORY);
    const struct json *back;
    struct err e;

    CHECK(yaml_text(&out, v) == 0);
    if (yaml_read(buf_str(&out), limits, &a, &back, &e) < 0)
        FAIL("%s in:\n%s", e.msg, out.p);
    if (!json_equal(v, back))
        FAIL("reads back differently:\n%s", out.p);
}

TEST(yaml_text_writes_blocks)
{
    check_text(
        "{\"a\":1,\"b\":{\"c\":[1,\"x\",[2,3],{\"d\":null,\"e\":true}],\"f\":{},\"g\":[]}}",
        "a: 1\nb:\n  c:\n    - 1\n    - x\n    - - 2\n      - 3\n    - d: null\n      e: true\n"
        "  f: {}\n  g: []\n");
    check_text("[]", "[]\n");
    check_text("\"x\"", "x\n");
    check_text("[{\"a\":[1]}]", "- a:\n    - 1\n");
}

TEST(yaml_text_quotes_what_could_be_misread)
{
    check_text(
        "[\"yes\",\"No\",\"on\",\"null\",\"~\",\"1\",\"1.5\",\"0x1f\",\"1:30\",\"2026-01-02\",\"\","
        "\"a: b\",\"- a\",\"#x\",\"a #b\",\"@a\",\".5\",\"+1\",\"=\",\"<<\",\"true\",\"y\"]",
        "- \"yes\"\n- \"No\"\n- \"on\"\n- \"null\"\n- \"~\"\n- \"1\"\n- \"1.5\"\n- \"0x1f\"\n"
        "- \"1:30\"\n- \"2026-01-02\"\n- \"\"\n- \"a: b\"\n- \"- a\"\n- \"#x\"\n- \"a #b\"\n"
        "- \"@a\"\n- \".5\"\n- \"+1\"\n- \"=\"\n- \"<<\"\n- \"true\"\n- \"y\"\n");
    check_text("{\"on\":1,\"profile.agent-dev\":\"/work/x\"}",
               "\"on\": 1\nprofile.agent-dev: /work/x\n");
}

TEST(yaml_text_has_nothing_a_terminal_acts_on)
{
    check_text("[\"\\u001b[31m\\u007f\\u0085\\u009b\\u2028\\ufeff\"]",
               "- \"\\x1b[31m\\x7f\\u0085\\u009b\\u2028\\ufeff\"\n");
    check_text("[\"a\\u0000b\"]", "- \"a\\x00b\"\n");
}

TEST(yaml_text_writes_exponents_for_old_readers)
{
    check_text("[1e300,1.5e-9,2.0]", "- 1.0e+300\n- 1.5e-09\n- 2.0\n");
}

TEST(yaml_text_reads_back)
{
    static const char *const documents[] = {
        "{\"a\":[{\"b\":{\"c\":[[],{},[[1]],\"\"]}},null],\"\":\"\",\"k v\":\"x: y\"}",
        "[true,false,null,0,-1,18446744073709551615,9223372036854775807,0.1,-2.5e-7,1e22]",
        "[\"\\n\",\"a\\nb\\n\",\"\\t\",\" x "
        "\",\"\\\"\",\"'\",\"\\\\\",\"\\u0000\",\"\\u0001\",\"é\",\"日本\"]",
        "{\"null\":1,\"true\":2,\"1\":3,\"- x\":4,\"? "
        "y\":5,\"!z\":6,\"&a\":7,\"*b\":8,\"|\":9,\">\":10}",
        "[\"%TAG\",\"---\",\"...\",\"a\\rb\",\"[\",\"]\",\"{\",\"}\",\",\",\"`\",\"\\u2029\","
        "\"\\ud83d\\ude00\"]",
    };

    for (size_t i = 0; i < COUNT_OF(documents); i++) {
        AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);

        check_back(parse(&a, documents[i]));
    }
}

/* As the only key, as the second key of a list's item, and with a block as its value. */
static void check_key(const char *unit, size_t times)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
    AUTO(buf_done) struct buf key = BUF_INIT(MEMORY), text = BUF_INIT(MEMORY);

    for (size_t i = 0; i < times; i++)
        CHECK(buf_add(&key, str_from(unit)) == 0);
    CHECK(buf_addf(&text,
                   "[{\"a\":1,\"%s\":2},{\"%s\":{\"b\":[3]}},{\"%s\":[4,{\"c\":5}],\"d\":6}]",
                   key.p, key.p, key.p) == 0);
    check_back(parse(&a, text.p));
}

TEST(yaml_text_reads_back_keys_of_any_length)
{
    static const size_t lengths[] = { 1, 160, 169, 170, 171, 256, 511, 1000, 1024, 1025, 5000 };

    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        check_key("k", lengths[i]);
        check_key(" ", lengths[i]);
        check_key("\x7F", lengths[i]);
        check_key("\xC2\x85", lengths[i]);
    }
}

TEST(yaml_text_reads_back_every_short_string)
{
    static const char marks[] = "ay01.-+:#~ \n\t\"'\\[]{}&*!|>%@`,?=_/eox";
    char text[4] = "";
    struct json v = { .type = JSON_STR };

    for (size_t i = 0; i < sizeof marks - 1; i++)
        for (size_t j = 0; j < sizeof marks; j++) {
            text[0] = marks[i];
            text[1] = marks[j];
            v.s = str_from(text);
            check_back(&v);
        }
}

TEST(yaml_text_respects_the_ceiling)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
    struct buf out = BUF_INIT(5);

    CHECK(yaml_text(&out, parse(&a, "[\"a long text\"]")) == -ERR_TOO_BIG);
    buf_done(&out);
}
