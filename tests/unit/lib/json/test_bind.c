/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/bind.h"

#include "harness/tap.h"
#include "lib/json/reader.h"
#include "unit/lib/json/sample.h"

static const struct json_limits limits = { .bytes = 1 << 16, .depth = 16, .places = true };

/* Lives as long as the test's process. */
static struct arena arena = ARENA_INIT(1 << 20);

static int bind_text(const char *text, struct sample *s, struct err *e)
{
    const struct json *v;

    CHECK_OK(json_read(str_from(text), limits, &arena, &v, e), *e);
    return json_bind(v, sample_fields, COUNT_OF(sample_fields), s, &arena, e);
}

static struct sample bound(const char *text)
{
    struct sample s = { 0 };
    struct err e = { 0 };

    CHECK_OK(bind_text(text, &s, &e), e);
    return s;
}

TEST(every_kind)
{
    struct sample s = bound("{\"name\":\"web\",\"fast\":false,\"level\":-7,"
                            "\"seed\":18446744073709551615,\"ratio\":0.25,\"ttl\":\"1m30s\","
                            "\"scope\":\"admin\",\"args\":[\"a\",\"\"],\"labels\":{\"k\":\"v\"},"
                            "\"resources\":{\"memory\":\"128M\",\"cpus\":255},"
                            "\"ports\":[{\"number\":80},{\"number\":443,\"name\":\"tls\"}],"
                            "\"extra\":[1]}");
    const struct port *ports = s.ports.p;

    CHECK_STR(str_from(s.name), "web");
    CHECK(!s.fast);
    CHECK(s.has_level);
    CHECK_INT(s.level, -7);
    CHECK(s.seed == UINT64_MAX);
    CHECK(s.ratio == 0.25);
    CHECK_INT(s.ttl, 90 * NS_PER_S);
    CHECK_INT(s.scope, SCOPE_ADMIN);
    CHECK_INT(s.args.n, 2);
    CHECK_STR(str_from(s.args.p[0]), "a");
    CHECK_INT(s.labels.n, 1);
    CHECK_STR(str_from(s.labels.p[0].key), "k");
    CHECK_STR(str_from(s.labels.p[0].value), "v");
    CHECK_INT(s.resources.memory, 128 << 20);
    CHECK_INT(s.resources.cpus, 255);
    CHECK_INT(s.ports.n, 2);
    CHECK_INT(ports[1].number, 443);
    CHECK_STR(str_from(ports[1].name), "tls");
    CHECK(ports[0].name == NULL);
    CHECK_INT(s.extra->list.n, 1);
}

TEST(absent_and_null_fields_get_their_presets)
{
    static const char *const texts[] = {
        "{\"name\":\"x\"}",
        "{\"name\":\"x\",\"fast\":null,\"level\":null,\"resources\":null,\"args\":null}",
        "{\"name\":\"x\",\"resources\":{}}",
    };

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct sample s = bound(texts[i]);

        CHECK(s.fast);
        CHECK(!s.has_level);
        CHECK_INT(s.ttl, 90 * NS_PER_S);
        CHECK_INT(s.scope, SCOPE_WRITE);
        CHECK_INT(s.resources.memory, 64 << 20);
        CHECK_INT(s.resources.cpus, 2);
        CHECK_INT(s.args.n, 0);
    }
}

TEST(absent_fields_without_preset_stay_as_they_are)
{
    struct sample s = { .level = 42, .ratio = 0.5 };
    struct err e;

    CHECK_OK(bind_text("{\"name\":\"x\"}", &s, &e), e);
    CHECK_INT(s.level, 42);
    CHECK(s.ratio == 0.5);
}

TEST(quantities_are_numbers_as_well)
{
    struct sample s = bound("{\"name\":\"x\",\"ttl\":2,\"resources\":{\"memory\":2097152}}");

    CHECK_INT(s.ttl, 2 * NS_PER_S);
    CHECK_INT(s.resources.memory, 2 << 20);
    CHECK_INT(bound("{\"name\":\"x\",\"ttl\":0.25}").ttl, 250 * NS_PER_MS);
    CHECK_INT(bound("{\"name\":\"x\",\"ttl\":0}").ttl, 0);
}

TEST(messages_name_line_path_and_cure)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        { "[]", "line 1: expected an object, not a list" },
        { "{}", "line 1: name: is required" },
        { "{\"name\":null}", "line 1: name: is required" },
        { "{\"name\":5}", "line 1: name: expected a string, not the number 5" },
        { "{\"name\":\"12345678901234567\"}",
          "name: the length in bytes must be at most 16, not 17" },
        { "{\"name\":\"a\\u0000b\"}", "name: must not hold a NUL character" },
        { "{\"name\":\"x\",\n\"nmae\":1}",
          "line 2: nmae: no such field; there are: name, fast, level, seed" },
        { "{\"name\":\"x\",\"fast\":\"yes\"}",
          "fast: expected true or false, not the string 'yes'" },
        { "{\"name\":\"x\",\"level\":2147483648}",
          "level: must be a whole number from -2147483648 to 2147483647" },
        { "{\"name\":\"x\",\"level\":1.0}", "level: expected a whole number, not the number 1" },
        { "{\"name\":\"x\",\"seed\":-1}",
          "seed: must be a whole number from 0 to 18446744073709551615" },
        { "{\"name\":\"x\",\"ratio\":1.5}", "ratio: must be a number from 0 to 1" },
        { "{\"name\":\"x\",\"ratio\":\"1\"}", "ratio: expected a number, not the string '1'" },
        { "{\"name\":\"x\",\"ttl\":\"5 apples\"}", "ttl: expected a duration such as \"90s\"" },
        { "{\"name\":\"x\",\"ttl\":-1}", "ttl: expected a duration" },
        { "{\"name\":\"x\",\"ttl\":1e300}", "ttl: expected a duration" },
        { "{\"name\":\"x\",\"ttl\":\"2h\"}", "ttl: must be a duration from 0s to 3600s" },
        { "{\"name\":\"x\",\"scope\":\"root\"}",
          "scope: expected one of: read, write, admin, not the string 'root'" },
        { "{\"name\":\"x\",\"scope\":1}", "scope: expected one of: read, write, admin" },
        { "{\"name\":\"x\",\"args\":\"a\"}", "args: expected a list of strings" },
        { "{\"name\":\"x\",\"args\":[\"a\",\n2]}",
          "line 2: args[1]: expected a string, not the number 2" },
        { "{\"name\":\"x\",\"args\":[\"\",\"\",\"\",\"\"]}",
          "args: the number of items must be at most 3, not 4" },
        { "{\"name\":\"x\",\"labels\":{\"k\":true}}", "labels.k: expected a string, not true" },
        { "{\"name\":\"x\",\"labels\":{\"\\u001b[31m\":1}}",
          "labels.\\x1b[31m: expected a string" },
        { "{\"name\":\"x\",\"labels\":{\"a\\u0000\":\"v\"}}", "must not hold a NUL" },
        { "{\"name\":\"x\",\"resources\":{\n\"memory\":\"64Q\"}}",
          "line 2: resources.memory: expected a size such as \"64M\"" },
        { "{\"name\":\"x\",\"resources\":{\"memory\":5}}",
          "resources.memory: must be a size from 1M to 1G" },
        { "{\"name\":\"x\",\"resources\":{\"memory\":-5}}", "a size cannot be negative" },
        { "{\"name\":\"x\",\"resources\":{\"cpus\":256}}",
          "resources.cpus: must be a whole number from 0 to 255" },
        { "{\"name\":\"x\",\"resources\":{\"mem\":1}}",
          "resources.mem: no such field; there are: memory, cpus" },
        { "{\"name\":\"x\",\"resources\":[]}", "resources: expected an object, not a list" },
        { "{\"name\":\"x\",\"ports\":[{\"number\":1},{\"number\":0}]}",
          "ports[1].number: must be a whole number from 1 to 65535" },
        { "{\"name\":\"x\",\"ports\":[{}]}", "ports[0].number: is required" },
        { "{\"name\":\"x\",\"ports\":[{\"number\":1,\"name\":\"\"}]}",
          "ports[0].name: the length in bytes must be at least 1, not 0" },
        { "{\"name\":\"x\",\"ports\":{}}", "ports: expected a list of objects, not an object" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sample s = { 0 };
        struct err e = { 0 };

        if (bind_text(rows[i].text, &s, &e) != -ERR_INVALID)
            FAIL("accepted %s", rows[i].text);
        if (!strstr(e.msg, rows[i].want))
            FAIL("%s says '%s', not '%s'", rows[i].text, e.msg, rows[i].want);
    }
}

TEST(no_line_where_places_were_not_kept)
{
    struct json_limits without = { .bytes = 100, .depth = 4 };
    struct sample s;
    const struct json *v;
    struct err e;

    CHECK(json_read(STR("{\"name\":1}"), without, &arena, &v, &e) == 0);
    CHECK(json_bind(v, sample_fields, COUNT_OF(sample_fields), &s, &arena, &e) == -ERR_INVALID);
    CHECK_STR(str_from(e.msg), "name: expected a string, not the number 1");
}

TEST(a_minimum_above_the_maximum_is_no_upper_limit)
{
    static const struct json_field fields[] = { { "n", JSON_KIND_INT, .min = 5 } };
    const struct json *v;
    int64_t n = 0;
    struct err e;

    CHECK(json_read(STR("{\"n\":9223372036854775807}"), limits, &arena, &v, &e) == 0);
    CHECK_OK(json_bind(v, fields, 1, &n, &arena, &e), e);
    CHECK(n == INT64_MAX);
    CHECK(json_read(STR("{\"n\":4}"), limits, &arena, &v, &e) == 0);
    CHECK(json_bind(v, fields, 1, &n, &arena, &e) == -ERR_INVALID);
}

TEST(limits_below_zero_are_shown_as_such)
{
    static const struct json_field fields[] = { { "n", JSON_KIND_INT, .min = -9, .max = -5 } };
    const struct json *v;
    int64_t n = 0;
    struct err e;

    CHECK(json_read(STR("{\"n\":-4}"), limits, &arena, &v, &e) == 0);
    CHECK(json_bind(v, fields, 1, &n, &arena, &e) == -ERR_INVALID);
    CHECK(strstr(e.msg, "from -9 to -5"));
}

TEST(a_preset_that_is_no_value_is_a_bug)
{
    static const struct json_field fields[] = { { "n", JSON_KIND_INT, .preset = "five" } };
    const struct json *v;
    int64_t n;
    struct err e;

    CHECK(json_read(STR("{}"), limits, &arena, &v, &e) == 0);
    CHECK(json_bind(v, fields, 1, &n, &arena, &e) == -ERR_BUG);
}

TEST(a_full_arena_is_an_error)
{
    struct arena small = ARENA_INIT(16);
    struct sample s = { 0 };
    const struct json *v;
    struct err e;

    CHECK(json_read(STR("{\"name\":\"x\",\"args\":[\"a\",\"b\"]}"), limits, &arena, &v, &e) == 0);
    CHECK(json_bind(v, sample_fields, COUNT_OF(sample_fields), &s, &small, &e) == -ERR_TOO_BIG);
    arena_done(&small);
}

struct depot {
    const char *key;
    enum scope scope;
    uint16_t number;
};

struct world {
    struct json_objects depots;
};

static const struct json_field depot_fields[] = {
    { "scope", JSON_KIND_ENUM, JSON_AT(struct depot, scope), .names = scope_names, .loose = true,
      .preset = "admin" },
    { "number", JSON_KIND_UINT, JSON_AT(struct depot, number) },
};

static const struct json_field world_fields[] = {
    { "depots", JSON_KIND_NAMED, JSON_AT(struct world, depots), JSON_FIELDS(depot_fields),
      .item_size = sizeof(struct depot), .max = 2 },
};

static int bind_world(const char *text, struct world *ret, struct err *e)
{
    struct json_limits lines = { .bytes = 1 << 16, .depth = 16, .places = true };
    const struct json *v;
    int r = json_read(str_from(text), lines, &arena, &v, e);

    return r < 0 ? r : json_bind(v, world_fields, COUNT_OF(world_fields), ret, &arena, e);
}

TEST(named_objects_keep_their_keys_and_order)
{
    struct world w = { 0 };
    const struct depot *d;
    struct err e;

    CHECK_OK(
        bind_world("{\"depots\":{\"b.c\":{\"scope\":\"WRITE\"},\"a\":{\"scope\":\"\"}}}", &w, &e),
        e);
    CHECK_INT(w.depots.n, 2);
    d = w.depots.p;
    CHECK_STR(str_from(d[0].key), "b.c");
    CHECK_INT(d[0].scope, SCOPE_WRITE);
    CHECK_STR(str_from(d[1].key), "a");
    CHECK_INT(d[1].scope, SCOPE_ADMIN);
}

TEST(mistakes_in_named_objects_name_their_key)
{
    static const char *const rows[][2] = {
        { "{\"depots\":[]}", "line 1: depots: expected an object of objects, not a list" },
        { "{\"depots\":{\"a\":1}}", "line 1: depots.a: expected an object, not the number 1" },
        { "{\"depots\":{\"a\":{\n\"number\":-1}}}",
          "line 2: depots.a.number: must be a whole number from 0 to 65535" },
        { "{\"depots\":{\"a\":{},\"b\":{},\"c\":{}}}",
          "line 1: depots: the number of members must be at most 2, not 3" },
        { "{\"depots\":{\"a\":{\"scope\":\"reader\"}}}",
          "line 1: depots.a.scope: expected one of: read, write, admin, not the string 'reader'" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct world w = { 0 };
        struct err e;

        CHECK_INT(bind_world(rows[i][0], &w, &e), -ERR_INVALID);
        CHECK_STR(str_from(e.msg), rows[i][1]);
    }
}

TEST(named_objects_are_written_as_they_were_read)
{
    static const char text[] = "{\"depots\":{\"b\":{\"scope\":\"read\",\"number\":1},"
                               "\"a\":{\"scope\":\"write\",\"number\":2}}}";
    AUTO(buf_done) struct buf out = BUF_INIT(1 << 12);
    struct world w = { 0 };
    struct json_writer jw;
    struct err e;

    CHECK_OK(bind_world(text, &w, &e), e);
    json_writer_init(&jw, &out, JSON_COMPACT);
    json_unbind(&w, world_fields, COUNT_OF(world_fields), &jw);
    CHECK_OK(json_writer_finish(&jw, &e), e);
    CHECK_STR(buf_str(&out), text);
    buf_clear(&out);
    json_writer_init(&jw, &out, JSON_COMPACT);
    json_schema(world_fields, COUNT_OF(world_fields), JSON_SCHEMA_EXACT, &jw);
    CHECK_OK(json_writer_finish(&jw, &e), e);
    CHECK_STR(
        buf_str(&out),
        "{\"type\":\"object\",\"properties\":{\"depots\":{\"type\":\"object\","
        "\"additionalProperties\":{\"type\":\"object\",\"properties\":{\"scope\":{\"type\":"
        "\"string\",\"default\":\"admin\"},\"number\":{\"type\":\"integer\",\"minimum\":0}},"
        "\"additionalProperties\":false},\"maxProperties\":2}},\"additionalProperties\":false}");
}
