/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/clients/json_edit.h"

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

enum { MEMORY = 1 << 20 };

static const struct json_dialect strict = { 0 }, loose = { true, true };
static const struct json_path entry = { { "servers", "box" }, 2 };
static const struct json_limits limits = { .bytes = MEMORY, .depth = 32 };

static const struct json *parse(struct arena *a, const char *text)
{
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(str_from(text), limits, a, &v, &e), e);
    return v;
}

#define SMALL "{\"command\":\"/s\",\"args\":[\"mcp\"]}"

static void check_set(struct json_dialect d, const char *before, const char *value,
                      const char *after)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
    AUTO(buf_done) struct buf out = BUF_INIT(JSON_EDIT_MAX), again = BUF_INIT(JSON_EDIT_MAX);
    const struct json *v = parse(&a, value);
    struct err e;
    int r = json_edit_set(str_from(before), d, &entry, v, &out, &e);

    CHECK_OK(r, e);
    CHECK_STR(buf_str(&out), after);
    CHECK_INT(r, strcmp(before, after) != 0);
    CHECK_INT(json_edit_set(buf_str(&out), d, &entry, v, &again, &e), 0);
    CHECK_STR(buf_str(&again), after);
}

static void check_remove(struct json_dialect d, const char *before, const char *after)
{
    AUTO(buf_done) struct buf out = BUF_INIT(JSON_EDIT_MAX);
    struct err e;
    int r = json_edit_remove(str_from(before), d, &entry, &out, &e);

    CHECK_OK(r, e);
    CHECK_STR(buf_str(&out), after);
    CHECK_INT(r, strcmp(before, after) != 0);
}

static void check_refused(struct json_dialect d, const char *text, const char *message)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY);
    AUTO(buf_done) struct buf out = BUF_INIT(JSON_EDIT_MAX);
    struct err e;

    CHECK_INT(json_edit_set(str_from(text), d, &entry, parse(&a, SMALL), &out, &e),
              -(int)ERR_INVALID);
    CHECK_STR(str_from(e.msg), message);
    CHECK_INT(json_edit_remove(str_from(text), d, &entry, &out, &e), -(int)ERR_INVALID);
    CHECK_INT(out.n, 0);
}

TEST(json_edit_makes_missing_objects)
{
    check_set(strict, "{}\n", SMALL,
              "{\n  \"servers\": {\n    \"box\": {\n      \"command\": \"/s\",\n"
              "      \"args\": [\n        \"mcp\"\n      ]\n    }\n  }\n}\n");
    check_set(strict, "{}", "1", "{\n  \"servers\": {\n    \"box\": 1\n  }\n}");
    check_set(strict, "{\n}\n", "1", "{\n  \"servers\": {\n    \"box\": 1\n  }\n}\n");
    check_set(strict, "{\n  \"servers\": {}\n}\n", "1",
              "{\n  \"servers\": {\n    \"box\": 1\n  }\n}\n");
    check_set(strict, "{\n  \"a\": 1\n}\n", "1",
              "{\n  \"a\": 1,\n  \"servers\": {\n    \"box\": 1\n  }\n}\n");
}

TEST(json_edit_adds_behind_the_last_member)
{
    check_set(strict, "{\n  \"servers\": {\n    \"x\": {\"a\":[1,{}]}\n  },\n  \"b\": [ ]\n}", "1",
              "{\n  \"servers\": {\n    \"x\": {\"a\":[1,{}]},\n    \"box\": 1\n  },\n"
              "  \"b\": [ ]\n}");
}

TEST(json_edit_keeps_the_layout)
{
    /* tabs, four blanks, CRLF, a byte order mark, one line, no blanks */
    check_set(strict, "{\n\t\"a\": 1\n}\n", "{\"c\":2}",
              "{\n\t\"a\": 1,\n\t\"servers\": {\n\t\t\"box\": {\n\t\t\t\"c\": 2\n\t\t}\n\t}\n}\n");
    check_set(strict, "{\n    \"servers\": {\n        \"x\": 1\n    }\n}\n", "[]",
              "{\n    \"servers\": {\n        \"x\": 1,\n        \"box\": []\n    }\n}\n");
    check_set(strict, "{\r\n  \"a\": 1\r\n}\r\n", "1",
              "{\r\n  \"a\": 1,\r\n  \"servers\": {\r\n    \"box\": 1\r\n  }\r\n}\r\n");
    check_set(strict, "\xEF\xBB\xBF{\n  \"servers\": {\n    \"x\": 1\n  }\n}\n", "1",
              "\xEF\xBB\xBF{\n  \"servers\": {\n    \"x\": 1,\n    \"box\": 1\n  }\n}\n");
    check_set(strict, "{ \"servers\": { \"x\": 1 }, \"b\": 2 }", SMALL,
              "{ \"servers\": { \"x\": 1, \"box\": {\"command\": \"/s\", \"args\": [\"mcp\"]} }, "
              "\"b\": 2 }");
    check_set(strict, "{\"servers\":{\"x\":1},\"b\":2}", SMALL,
              "{\"servers\":{\"x\":1,\"box\":" SMALL "},\"b\":2}");
    check_set(strict, "{\"servers\":{},\"b\":2}", "1", "{\"servers\":{\"box\":1},\"b\":2}");
    check_set(strict, "  {\"a\" : 1}  ", "1", "  {\"a\" : 1, \"servers\": {\"box\": 1}}  ");
}

TEST(json_edit_keeps_comments)
{
    check_set(loose,
              "// top\n{\n  // one\n  \"servers\": {\n    \"x\": 1 // last\n  }, /* b */\n}\n", "1",
              "// top\n{\n  // one\n  \"servers\": {\n    \"x\": 1, // last\n    \"box\": 1\n  }, "
              "/* b */\n}\n");
    check_set(loose, "{\n  \"servers\": {\n    \"x\": 1, // last\n  }\n}\n", "1",
              "{\n  \"servers\": {\n    \"x\": 1, // last\n    \"box\": 1,\n  }\n}\n");
    check_set(loose, "{\n  \"servers\": {\n    // none yet\n  }\n}\n", "1",
              "{\n  \"servers\": {\n    // none yet\n    \"box\": 1\n  }\n}\n");
    check_set(loose, "{\"servers\":{/* none } */}}\n", "1",
              "{\"servers\":{/* none } */\"box\":1}}\n");
    check_set(loose, "{ // servers\n \"servers\": {\"box\": /* old */ 2}}", "1",
              "{ // servers\n \"servers\": {\"box\": /* old */ 1}}");
}

TEST(json_edit_replaces_values_in_place)
{
    check_set(strict, "{\"servers\": {\"box\": [1], \"y\": 2}}", "[1,2]",
              "{\"servers\": {\"box\": [1, 2], \"y\": 2}}");
    check_set(strict, "{\n \"servers\": {\n  \"box\": [\n   1\n  ]\n }\n}", "[1,2]",
              "{\n \"servers\": {\n  \"box\": [\n   1,\n   2\n  ]\n }\n}");
    check_set(strict, "{\"servers\": {\"box\": { \"b\" : 1 }}}", "{\"b\":1}",
              "{\"servers\": {\"box\": { \"b\" : 1 }}}");
    check_set(strict, "{\"s\\u0065rvers\": {\"bo\\u0078\": 2}}", "1",
              "{\"s\\u0065rvers\": {\"bo\\u0078\": 1}}");
    check_set(loose, "{\"servers\": {\"box\": [1, // one\n 2,]}}", "[1,2]",
              "{\"servers\": {\"box\": [1, // one\n 2,]}}");
}

TEST(json_edit_removes_a_member)
{
    check_remove(strict, "{\n  \"servers\": {\n    \"x\": 1,\n    \"box\": {\n    }\n  }\n}\n",
                 "{\n  \"servers\": {\n    \"x\": 1\n  }\n}\n");
    check_remove(strict, "{\n  \"servers\": {\n    \"box\": {},\n    \"x\": 1\n  }\n}\n",
                 "{\n  \"servers\": {\n    \"x\": 1\n  }\n}\n");
    check_remove(strict, "{\"servers\":{\"box\":1}}", "{\"servers\":{}}");
    check_remove(strict, "{\"servers\":{\"a\":1,\"box\":1}}", "{\"servers\":{\"a\":1}}");
    check_remove(strict, "{\"servers\":{ \"a\": 1, \"box\": 1 }}", "{\"servers\":{ \"a\": 1 }}");
    check_remove(strict, "{\"servers\":{ \"box\": 1, \"a\": 1 }}", "{\"servers\":{ \"a\": 1 }}");
    check_remove(loose, "{\"servers\":{\n  \"a\": 1, // a\n  \"box\": 2, // b\n}}",
                 "{\"servers\":{\n  \"a\": 1, // a\n  // b\n}}");
    check_remove(loose, "{\"servers\":{\n  \"a\": 1, // a\n  \"box\": 2\n}}",
                 "{\"servers\":{\n  \"a\": 1 // a\n}}");
    check_remove(strict, "{\"servers\": {}, \"box\": 1}", "{\"servers\": {}, \"box\": 1}");
}

TEST(json_edit_refuses_other_texts)
{
    check_refused(strict, "", "line 1: expected a value");
    check_refused(strict, "{\n\"a\": 1\n", "line 3: expected ',' or '}'");
    check_refused(strict, "{\n\"a\": 1,\n}",
                  "line 3: a comma is in front of the end (not allowed here)");
    check_refused(strict, "{\n// x\n}",
                  "line 2: '/' is neither a value nor a comma (comments are not allowed here)");
    check_refused(loose, "{} /* x", "line 1: the comment has no end");
    check_refused(loose, "{} / x", "line 1: '/' begins no comment");
    check_refused(loose, "{} // x\ry",
                  "line 1: a comment has a carriage return without a line feed");
    check_refused(strict, "{}\n{}", "line 2: text follows the value");
    check_refused(strict, "{\"a\": \"\n\"}",
                  "line 1: a string has no end in its line, or holds a control character");
    check_refused(strict, "{\"a\": \"\\x\"}", "line 1: an escape in a string is invalid");
    check_refused(strict, "{\"a\": 01}", "line 1: expected ',' or '}'");
    check_refused(strict, "{\"a\": 1.}", "line 1: a number is invalid");
    check_refused(strict, "{\"a\": \"\xFF\"}", "line 1: the text is not UTF-8");
    check_refused(strict, "{\"a\" 1}", "line 1: expected ':' behind the name");
    check_refused(strict, "{a: 1}", "line 1: expected a name in double quotes");
    check_refused(strict, "[]", "line 1: expected an object");
    check_refused(strict, "{\n\"servers\": []}", "line 2: 'servers' is not an object");
    check_refused(strict, "{\"servers\": {},\n\"servers\": {}}",
                  "line 2: 'servers' is there twice; remove one");
    check_refused(strict, "{\"servers\": {\"box\": 1,\n\"b\\u006fx\": 2}}",
                  "line 2: 'box' is there twice; remove one");
}

TEST(json_edit_bounds_the_depth)
{
    char text[2 * (JSON_PLAIN_DEPTH + 2)];
    AUTO(buf_done) struct buf plain = BUF_INIT(MEMORY);
    struct err e;

    memset(text, '[', sizeof text);
    memset(text + sizeof text / 2, ']', sizeof text / 2);
    CHECK_INT(json_plain((struct str){ text, sizeof text }, strict, &plain, &e), -(int)ERR_INVALID);
    CHECK_STR(str_from(e.msg), "line 1: too many lists and objects inside each other");
    CHECK_OK(json_plain((struct str){ text + 4, sizeof text - 8 }, strict, &plain, &e), e);
}

TEST(json_edit_accepts_what_other_programs_write)
{
    /* Half of a surrogate pair, as a program writes that cuts a text; a number beyond all types. */
    check_set(strict, "{\"h\":\"\\ud83d\",\"n\":1e999,\"a\":1,\"a\":2,\"servers\":{\"box\":2}}",
              "1", "{\"h\":\"\\ud83d\",\"n\":1e999,\"a\":1,\"a\":2,\"servers\":{\"box\":1}}");
}
