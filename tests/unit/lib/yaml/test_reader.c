/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/yaml/reader.h"

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/bind.h"
#include "lib/json/reader.h"

static const struct json_limits limits = { .bytes = 1 << 16, .depth = 8 };

/* Lives as long as the test's process. */
static struct arena arena = ARENA_INIT(1 << 20);

static const struct json *read_text(const char *text)
{
    const struct json *v = NULL;
    struct err e = { 0 };

    CHECK_OK(yaml_read(str_from(text), limits, &arena, &v, &e), e);
    return v;
}

/* The YAML means what the JSON says. */
static void check_same(const char *yaml, const char *json)
{
    const struct json *want, *got = read_text(yaml);
    struct err e;

    CHECK_OK(json_read(str_from(json), limits, &arena, &want, &e), e);
    if (!json_equal(got, want))
        FAIL("this is not %s:\n%s", json, yaml);
}

TEST(documents)
{
    static const struct {
        const char *yaml, *json;
    } rows[] = {
        { "", "null" },
        { "# nothing but this\n", "null" },
        { "---\n", "null" },
        { "a: 1\nb: [x, 2.5, ~]\n", "{\"a\":1,\"b\":[\"x\",2.5,null]}" },
        { "---\n- a\n- - b\n  - c\n-\n...\n", "[\"a\",[\"b\",\"c\"],null]" },
        { "{\"a\": {\"b\": [true, \"x\\ty\\u00e9\"]}}", "{\"a\":{\"b\":[true,\"x\\ty\\u00e9\"]}}" },
        { "a:\n  b:\n    c: d\n  e: 'it''s'\n", "{\"a\":{\"b\":{\"c\":\"d\"},\"e\":\"it's\"}}" },
        { "t: |\n  one\n  two\nf: >-\n  one\n  two\n",
          "{\"t\":\"one\\ntwo\\n\",\"f\":\"one two\"}" },
        { "country: NO\nanswer: yes\nswitch: off\non: push\n",
          "{\"country\":\"NO\",\"answer\":\"yes\",\"switch\":\"off\",\"on\":\"push\"}" },
        { "a: \"1\"\nb: 'true'\nc: \"~\"\nd: ''\n",
          "{\"a\":\"1\",\"b\":\"true\",\"c\":\"~\",\"d\":\"\"}" },
        { "\"1\": a\n'<<': b\n", "{\"1\":\"a\",\"<<\":\"b\"}" },
        { "a: \"x\\0y\"\n", "{\"a\":\"x\\u0000y\"}" },
        { "a: []\nb: {}\n", "{\"a\":[],\"b\":{}}" },
        { "größe: żółw\n", "{\"größe\":\"żółw\"}" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_same(rows[i].yaml, rows[i].json);
}

TEST(values_know_their_lines)
{
    const struct json *v = read_text("# head\na: 1\nb:\n  - x\n  - y\n");

    CHECK_INT(json_get(v, STR("a"))->line, 2);
    CHECK_INT(json_get(v, STR("b"))->line, 3);
    CHECK_INT(json_get(v, STR("b"))->list.p[1].line, 5);
    CHECK_INT(json_get(v, STR("b"))->list.p[1].column, 5);
}

TEST(refused_with_place_and_reason)
{
    static const struct {
        struct str text;
        const char *where, *why;
    } rows[] = {
        { STR("a: &x 1\n"), "line 1, column 4", "anchors" },
        { STR("a: &x [1]\n"), "line 1, column 4", "anchors" },
        { STR("&k a: 1\n"), "line 1", "anchors" },
        { STR("a: 1\nb: *a\n"), "line 2, column 4", "aliases" },
        { STR("a: !!str 1\n"), "line 1, column 4", "tags" },
        { STR("a: !foo {b: 1}\n"), "line 1, column 4", "tags" },
        { STR("! a\n"), "line 1", "tags" },
        { STR("a:\n  <<: {b: 1}\n"), "line 2, column 3", "merge keys" },
        { STR("a: 1\nb: 2\na: 3\n"), "line 3, column 1", "twice" },
        { STR("{a: 1, \"a\": 2}\n"), "line 1, column 8", "twice" },
        { STR("1: a\n"), "line 1, column 1", "string" },
        { STR("true: a\n"), "line 1, column 1", "string" },
        { STR("~: a\n"), "line 1, column 1", "string" },
        { STR("? [a]\n: b\n"), "line 1, column 3", "string" },
        { STR("*a : b\n"), "line 1, column 1", "string" },
        { STR("a: 1\n---\nb: 2\n"), "line 2, column 1", "one document" },
        { STR("%YAML 1.2\n---\na: 1\n"), "line 1, column 1", "directives" },
        { STR("%TAG ! tag:x,1:\n---\na: 1\n"), "line 1, column 1", "directives" },
        { STR("a: 0755\n"), "line 1, column 4", "start with 0" },
        { STR("a: 1e999\n"), "line 1, column 4", "too large" },
        { STR("a: .inf\n"), "line 1, column 4", "infinity" },
        { STR("a:\n\t- 1\n"), "line 2", "cannot start any token" },
        { STR("a: [1\n"), "line 2", "," },
        { STR("a: b: c\n"), "line 1, column 5", "mapping values" },
        { STR("a: \"x\n"), "line 2", "quoted scalar" },
        { STR("a: 1\nb: \xFF\n"), "line 2, column 4", "UTF-8" },
        { STR("a: \x01\n"), "line 1, column 4", "control characters" },
        { STR("a: \"\0\"\n"), "line 1", "control characters" },
        { STR("\xEF\xBB\xBF"
              "a: 1\n"),
          "line 1, column 1", "byte order mark" },
        { STR("[[[[[[[[[1]]]]]]]]]"), "line 1, column 9", "8 levels" },
        { STR("- - - - - - - - - 1\n"), "line 1, column 17", "8 levels" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct json *v = NULL;
        struct err e = { 0 };

        if (yaml_read(rows[i].text, limits, &arena, &v, &e) >= 0)
            FAIL("accepted: " STR_FMT, STR_ARG(rows[i].text));
        if (!strstr(e.msg, rows[i].where) || !strstr(e.msg, rows[i].why))
            FAIL("row %zu says '%s'; wanted '%s' and '%s'", i, e.msg, rows[i].where, rows[i].why);
        CHECK(v == NULL);
    }
}

TEST(limits_have_a_code_of_their_own)
{
    struct json_limits flat = { .bytes = 100, .depth = 1 }, short_ = { .bytes = 3, .depth = 9 };
    AUTO(arena_done) struct arena small = ARENA_INIT(128);
    const struct json *v;

    CHECK_INT(yaml_read(STR("a: [1]"), flat, &arena, &v, NULL), -ERR_TOO_BIG);
    CHECK_INT(yaml_read(STR("a: 1"), short_, &arena, &v, NULL), -ERR_TOO_BIG);
    CHECK_INT(yaml_read(STR("[1,2,3,4,5,6]"), limits, &small, &v, NULL), -ERR_TOO_BIG);
}

TEST(messages_of_bind_name_the_line)
{
    static const struct json_field inner[] = { { "memory", JSON_KIND_BYTES, .min = 1 } };
    static const struct json_field outer[] = { { "resources", JSON_KIND_OBJECT,
                                                 JSON_FIELDS(inner) } };
    const struct json *v = read_text("# limits\nresources:\n  memory: lots\n");
    uint64_t memory;
    struct err e;

    CHECK_INT(json_bind(v, outer, COUNT_OF(outer), &memory, &arena, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "line 3: resources.memory: expected a size"));
}
