/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/writer.h"

#include <math.h>

#include "base/own.h"
#include "harness/tap.h"

struct fixture {
    struct buf out;
    struct json_writer w;
    struct err e;
};

static void fixture_done(struct fixture *f)
{
    buf_done(&f->out);
}

#define FIXTURE(style, max)                                                                        \
    AUTO(fixture_done) struct fixture f = { .out = BUF_INIT(max) };                                \
    json_writer_init(&f.w, &f.out, (style))

static void write_sample(struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, STR("a"));
    json_begin_array(w);
    json_put_int(w, -1);
    json_put_bool(w, true);
    json_begin_object(w);
    json_end_object(w);
    json_end_array(w);
    json_key(w, STR("b"));
    json_put_null(w);
    json_end_object(w);
}

TEST(commas_and_colons)
{
    FIXTURE(JSON_COMPACT, 1000);
    write_sample(&f.w);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out), "{\"a\":[-1,true,{}],\"b\":null}");
}

TEST(pretty)
{
    FIXTURE(JSON_PRETTY, 1000);
    write_sample(&f.w);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out), "{\n  \"a\": [\n    -1,\n    true,\n    {}\n  ],\n  \"b\": null\n}");
}

TEST(numbers_are_exact)
{
    FIXTURE(JSON_COMPACT, 1000);
    json_begin_array(&f.w);
    json_put_int(&f.w, INT64_MIN);
    json_put_uint(&f.w, UINT64_MAX);
    json_put_double(&f.w, 0.1);
    json_put_double(&f.w, 2);
    json_end_array(&f.w);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out), "[-9223372036854775808,18446744073709551615,0.1,2.0]");
}

TEST(strings_are_escaped)
{
    FIXTURE(JSON_COMPACT, 1000);
    json_put_str(&f.w, STR("\"\\/\b\f\n\r\t\x01\x1f\0\x7f gr\xC3\xB6"));
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out), "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\\u0000\x7f gr\xC3\xB6\"");
}

TEST(lossy_replaces_what_is_not_utf8)
{
    FIXTURE(JSON_COMPACT, 1000);
    json_put_lossy(&f.w, STR("a\xFF\"b\xE2\x82"));
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out), "\"a\xEF\xBF\xBD\\\"b\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void write_bad_utf8(struct json_writer *w)
{
    json_put_str(w, STR("a\xFF"));
}

static void write_bad_key(struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, STR("\xC3"));
    json_put_null(w);
    json_end_object(w);
}

static void write_nan(struct json_writer *w)
{
    json_put_double(w, NAN);
}

static void write_infinity(struct json_writer *w)
{
    json_put_double(w, -INFINITY);
}

static void write_nothing(struct json_writer *w)
{
}

static void write_two(struct json_writer *w)
{
    json_put_null(w);
    json_put_null(w);
}

static void write_open(struct json_writer *w)
{
    json_begin_array(w);
}

static void write_without_key(struct json_writer *w)
{
    json_begin_object(w);
    json_put_null(w);
    json_end_object(w);
}

static void write_key_in_array(struct json_writer *w)
{
    json_begin_array(w);
    json_key(w, STR("a"));
    json_end_array(w);
}

static void write_key_alone(struct json_writer *w)
{
    json_begin_object(w);
    json_key(w, STR("a"));
    json_end_object(w);
}

static void write_crossed(struct json_writer *w)
{
    json_begin_object(w);
    json_end_array(w);
}

static void write_end_alone(struct json_writer *w)
{
    json_end_object(w);
}

static void write_deep(struct json_writer *w)
{
    for (int i = 0; i < 2 * JSON_DEPTH_MAX; i++)
        json_begin_array(w);
    for (int i = 0; i < 2 * JSON_DEPTH_MAX; i++)
        json_end_array(w);
}

static void write_much(struct json_writer *w)
{
    json_begin_array(w);
    for (int i = 0; i < 1000; i++)
        json_put_int(w, i);
    json_end_array(w);
}

TEST(first_error_sticks_and_the_buffer_is_as_before)
{
    static const struct {
        void (*write)(struct json_writer *w);
        enum err_code code;
    } rows[] = {
        { write_bad_utf8, ERR_INVALID }, { write_bad_key, ERR_INVALID },
        { write_nan, ERR_INVALID },      { write_infinity, ERR_INVALID },
        { write_nothing, ERR_BUG },      { write_two, ERR_BUG },
        { write_open, ERR_BUG },         { write_without_key, ERR_BUG },
        { write_key_in_array, ERR_BUG }, { write_key_alone, ERR_BUG },
        { write_crossed, ERR_BUG },      { write_end_alone, ERR_BUG },
        { write_deep, ERR_TOO_BIG },     { write_much, ERR_TOO_BIG },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(fixture_done) struct fixture f = { .out = BUF_INIT(1000) };

        CHECK(buf_add(&f.out, STR("before")) == 0);
        json_writer_init(&f.w, &f.out, JSON_COMPACT);
        rows[i].write(&f.w);
        if (json_writer_finish(&f.w, &f.e) != -(int)rows[i].code)
            FAIL("row %zu: %s", i, f.e.msg);
        CHECK_STR(buf_str(&f.out), "before");
    }
}

TEST(deepest_value_is_written)
{
    FIXTURE(JSON_PRETTY, 1 << 20);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        json_begin_array(&f.w);
    for (int i = 0; i < JSON_DEPTH_MAX; i++)
        json_end_array(&f.w);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
}

TEST(trees)
{
    static const struct json items[] = {
        { .type = JSON_UINT, .u = UINT64_MAX },
        { .type = JSON_DOUBLE, .d = 0.5 },
        { .type = JSON_STR, .s = { "x", 1 } },
        { .type = JSON_BOOL, .b = false },
        { .type = JSON_NULL },
        { .type = JSON_OBJECT },
    };
    static const struct json member = { .type = JSON_ARRAY,
                                        .key = { "k", 1 },
                                        .list = { items, COUNT_OF(items) } };
    static const struct json object = { .type = JSON_OBJECT, .list = { &member, 1 } };

    FIXTURE(JSON_COMPACT, 1000);
    json_put_tree(&f.w, &object);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out), "{\"k\":[18446744073709551615,0.5,\"x\",false,null,{}]}");
}

TEST(what_was_written_is_a_value)
{
    FIXTURE(JSON_COMPACT, 1000);
    json_begin_array(&f.w);
    json_put_int(&f.w, 1);
    json_put_written(&f.w, STR("{\"a\":[]}"));
    json_end_array(&f.w);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out), "[1,{\"a\":[]}]");
}

TEST(the_size_of_a_text_is_known_before)
{
    static const char text[] = "plain \" \\ \b\f\n\r\t \x01\x1f\x7f \xc3\xa4 \0";
    struct str s = { text, sizeof text };

    FIXTURE(JSON_COMPACT, 1000);
    json_put_str(&f.w, s);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_INT(json_text_size(s) + 2, f.out.n);
    CHECK_INT(json_text_size(STR("")), 0);
}

TEST(a_field_is_a_key_and_its_value)
{
    static const struct json tree = { .type = JSON_BOOL, .b = true };

    FIXTURE(JSON_COMPACT, 1000);
    json_begin_object(&f.w);
    json_field_null(&f.w, "n");
    json_field_bool(&f.w, "b", false);
    json_field_int(&f.w, "i", INT64_MIN);
    json_field_uint(&f.w, "u", UINT64_MAX);
    json_field_double(&f.w, "d", 0.5);
    json_field_str(&f.w, "s", STR("x\"y"));
    json_field_cstr(&f.w, "c", "z");
    json_field_tree(&f.w, "t", &tree);
    json_field_written(&f.w, "w", STR("[1]"));
    json_field_begin_object(&f.w, "o");
    json_field_begin_array(&f.w, "a");
    json_put_int(&f.w, 1);
    json_end_array(&f.w);
    json_end_object(&f.w);
    json_end_object(&f.w);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out),
              "{\"n\":null,\"b\":false,\"i\":-9223372036854775808,\"u\":18446744073709551615,"
              "\"d\":0.5,\"s\":\"x\\\"y\",\"c\":\"z\",\"t\":true,\"w\":[1],\"o\":{\"a\":[1]}}");
}

TEST(only_lossy_fields_take_other_bytes_than_utf8)
{
    FIXTURE(JSON_COMPACT, 1000);
    json_begin_object(&f.w);
    json_field_lossy(&f.w, "a", STR("\xFFx"));
    json_field_text(&f.w, "b", "y\xFF");
    json_end_object(&f.w);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out), "{\"a\":\"\xEF\xBF\xBDx\",\"b\":\"y\xEF\xBF\xBD\"}");

    json_writer_init(&f.w, &f.out, JSON_COMPACT);
    json_begin_object(&f.w);
    json_field_cstr(&f.w, "c", "z\xFF");
    json_end_object(&f.w);
    CHECK_INT(json_writer_finish(&f.w, &f.e), -ERR_INVALID);
}

TEST(a_field_belongs_into_an_object)
{
    FIXTURE(JSON_COMPACT, 1000);
    json_begin_array(&f.w);
    json_field_int(&f.w, "a", 1);
    json_end_array(&f.w);
    CHECK_INT(json_writer_finish(&f.w, &f.e), -ERR_BUG);
}

TEST(an_optional_field_is_omitted_if_empty)
{
    FIXTURE(JSON_COMPACT, 1000);
    json_begin_object(&f.w);
    json_field_optional(&f.w, "a", NULL);
    json_field_optional(&f.w, "b", "");
    json_field_optional(&f.w, "c", "x");
    json_end_object(&f.w);
    CHECK_OK(json_writer_finish(&f.w, &f.e), f.e);
    CHECK_STR(buf_str(&f.out), "{\"c\":\"x\"}");
}
