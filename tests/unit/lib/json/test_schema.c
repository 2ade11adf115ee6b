/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/bind.h"

#include "harness/tap.h"
#include "lib/json/reader.h"
#include "unit/lib/json/sample.h"

static struct arena arena = ARENA_INIT(1 << 20);
static struct buf out = BUF_INIT(1 << 16);

/* The schema of the sample, read back: that it is JSON without duplicate keys is checked with
 * it. */
static const struct json *schema_in(enum json_schema_style style)
{
    struct json_limits limits = { .bytes = 1 << 16, .depth = 16 };
    const struct json *v;
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &out, JSON_COMPACT);
    json_schema(sample_fields, COUNT_OF(sample_fields), style, &w);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_OK(json_read(buf_str(&out), limits, &arena, &v, &e), e);
    return v;
}

static const struct json *schema(void)
{
    return schema_in(JSON_SCHEMA_EXACT);
}

static const struct json *at(const struct json *v, const char *key)
{
    const struct json *found = json_get(v, str_from(key));

    if (!found)
        FAIL("there is no '%s'", key);
    return found;
}

static void check_json(const struct json *v, const char *want)
{
    struct buf text = BUF_INIT(1 << 16);
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_tree(&w, v);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_STR(buf_str(&text), want);
    buf_done(&text);
}

TEST(an_object_that_takes_only_its_fields)
{
    const struct json *v = schema();

    CHECK_STR(at(v, "type")->s, "object");
    CHECK(!at(v, "additionalProperties")->b);
    check_json(at(v, "required"), "[\"name\"]");
    CHECK_INT(at(v, "properties")->list.n, COUNT_OF(sample_fields));
}

TEST(every_kind)
{
    static const struct {
        const char *name, *want;
    } rows[] = {
        { "name", "{\"type\":\"string\",\"maxLength\":16,\"description\":\"What to call it.\"}" },
        { "fast", "{\"type\":\"boolean\",\"default\":true}" },
        { "level", "{\"type\":\"integer\"}" },
        { "seed", "{\"type\":\"integer\",\"minimum\":0}" },
        { "ratio", "{\"type\":\"number\",\"minimum\":0,\"maximum\":1}" },
        { "scope",
          "{\"type\":\"string\",\"enum\":[\"read\",\"write\",\"admin\"],\"default\":\"write\"}" },
        { "args", "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":3}" },
        { "labels", "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
                    "\"maxProperties\":3}" },
        { "extra", "{}" },
    };
    const struct json *properties = at(schema(), "properties");

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_json(at(properties, rows[i].name), rows[i].want);
}

TEST(nested_tables_are_nested_schemas)
{
    const struct json *properties = at(schema(), "properties");
    const struct json *resources = at(properties, "resources"), *ports = at(properties, "ports");

    CHECK_STR(at(at(at(resources, "properties"), "memory"), "default")->s, "64M");
    CHECK_STR(at(at(at(resources, "properties"), "memory"), "description")->s,
              "Memory of the sandbox.");
    CHECK(!at(resources, "additionalProperties")->b);
    check_json(at(at(ports, "items"), "required"), "[\"number\"]");
    check_json(at(at(at(ports, "items"), "properties"), "number"),
               "{\"type\":\"integer\",\"minimum\":1}");
    check_json(at(at(at(ports, "items"), "properties"), "name"),
               "{\"type\":\"string\",\"minLength\":1,\"maxLength\":8}");
}

TEST(quantities_are_text_or_numbers)
{
    const struct json *ttl = at(at(schema(), "properties"), "ttl");

    check_json(at(ttl, "type"), "[\"string\",\"number\"]");
    CHECK_STR(at(ttl, "default")->s, "90s");
}

TEST(a_plain_schema_has_one_type_for_each_property)
{
    static const struct json_field fields[] = {
        { "either", JSON_KIND_ANY, .types = "boolean array" },
        { "only", JSON_KIND_ANY, .types = "object" },
    };
    const struct json *ttl = at(at(schema_in(JSON_SCHEMA_PLAIN), "properties"), "ttl");
    struct json_writer w;
    struct err e;

    CHECK_STR(at(ttl, "type")->s, "string");
    CHECK(!json_get(ttl, STR("minimum")));
    buf_done(&out);
    json_writer_init(&w, &out, JSON_COMPACT);
    json_schema(fields, COUNT_OF(fields), JSON_SCHEMA_PLAIN, &w);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_STR(buf_str(&out),
              "{\"type\":\"object\",\"properties\":{\"either\":{\"type\":\"array\",\"items\":"
              "{\"type\":\"string\"}},\"only\":{\"type\":\"object\"}},"
              "\"additionalProperties\":false}");
}

TEST(a_preset_that_is_no_value_is_a_bug)
{
    static const struct json_field fields[] = { { "n", JSON_KIND_INT, .preset = "five" } };
    struct json_writer w;

    json_writer_init(&w, &out, JSON_COMPACT);
    json_schema(fields, 1, JSON_SCHEMA_EXACT, &w);
    CHECK_INT(json_writer_finish(&w, NULL), -ERR_BUG);
}

TEST(answers_are_open_and_refer_to_each_other)
{
    struct json_limits limits = { .bytes = 1 << 16, .depth = 16 };
    static const struct {
        const char *name, *want;
    } rows[] = {
        { "text", "{\"type\":\"string\",\"enum\":[\"good\",\"bad\"]}" },
        { "chars", "{\"type\":\"string\"}" },
        { "texts", "{\"type\":\"array\",\"items\":{\"type\":[\"string\",\"null\"]}}" },
        { "time", "{\"type\":\"string\",\"format\":\"date-time\"}" },
        { "code", "{\"type\":[\"integer\",\"null\"]}" },
        { "age", "{\"type\":\"integer\"}" },
        { "more", "{\"$ref\":\"#/components/schemas/More\"}" },
        { "others", "{\"type\":\"array\",\"items\":{\"$ref\":\"#/components/schemas/Other\"}}" },
        { "any", "{\"type\":\"object\"}" },
    };
    const struct json *v;
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &out, JSON_COMPACT);
    json_shape_schema(&described_answer, &w);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_OK(json_read(buf_str(&out), limits, &arena, &v, &e), e);
    CHECK(!json_get(v, STR("additionalProperties")));
    check_json(at(v, "required"), "[\"text\",\"born\"]");
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_json(at(at(v, "properties"), rows[i].name), rows[i].want);
}
