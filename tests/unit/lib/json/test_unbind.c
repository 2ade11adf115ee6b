/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/json/bind.h"

#include "harness/tap.h"
#include "lib/json/reader.h"
#include "unit/lib/json/sample.h"

static const struct json_limits limits = { .bytes = 1 << 16, .depth = 16 };

/* Both live as long as the test's process. */
static struct arena arena = ARENA_INIT(1 << 20);
static struct buf out = BUF_INIT(1 << 16);

static int unbind(const struct sample *s, struct err *e)
{
    struct json_writer w;

    buf_clear(&out);
    json_writer_init(&w, &out, JSON_COMPACT);
    json_unbind(s, sample_fields, COUNT_OF(sample_fields), &w);
    return json_writer_finish(&w, e);
}

static void bind_text(struct str text, struct sample *s)
{
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(text, limits, &arena, &v, &e), e);
    CHECK_OK(json_bind(v, sample_fields, COUNT_OF(sample_fields), s, &arena, &e), e);
}

static void check_round_trip(const char *text)
{
    struct sample s = { 0 };
    struct err e;

    bind_text(str_from(text), &s);
    CHECK_OK(unbind(&s, &e), e);
    CHECK_STR(buf_str(&out), text);
}

TEST(what_was_bound_is_written_the_same)
{
    check_round_trip("{\"name\":\"web\",\"fast\":false,\"level\":-7,\"seed\":18446744073709551615,"
                     "\"ratio\":0.25,\"ttl\":90,\"scope\":\"admin\",\"args\":[\"a\",\"\"],"
                     "\"labels\":{\"k\":\"v\"},\"resources\":{\"memory\":1048576,\"cpus\":255},"
                     "\"ports\":[{\"number\":80},{\"number\":443,\"name\":\"tls\"}],"
                     "\"extra\":{\"x\":[1,2.5]}}");
}

TEST(what_is_not_there_is_left_out)
{
    struct sample s = { .ratio = 1 };
    struct err e;

    CHECK_OK(unbind(&s, &e), e);
    CHECK_STR(buf_str(&out),
              "{\"fast\":false,\"seed\":0,\"ratio\":1.0,\"ttl\":0,\"scope\":\"read\",\"args\":[],"
              "\"labels\":{},\"resources\":{\"memory\":0,\"cpus\":0},\"ports\":[]}");
}

TEST(durations_survive_to_the_nanosecond)
{
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {
        { 1, "\"ttl\":\"0.000001ms\"" },
        { 250 * NS_PER_MS, "\"ttl\":\"250ms\"" },
        { 1500 * NS_PER_MS, "\"ttl\":\"1s500ms\"" },
        { 3599 * NS_PER_S + 999999999, "\"ttl\":\"3599s999.999999ms\"" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sample s = { .name = "x", .ttl = rows[i].ns }, back = { 0 };
        struct err e;

        s.resources.memory = 1 << 20;
        CHECK_OK(unbind(&s, &e), e);
        if (!strstr(out.p, rows[i].text))
            FAIL("%s has no %s", out.p, rows[i].text);
        bind_text(buf_str(&out), &back);
        CHECK_INT(back.ttl, rows[i].ns);
    }
}

TEST(values_that_no_document_has_are_bugs)
{
    struct sample nameless = { .scope = SCOPE_ADMIN + 1 }, negative = { .ttl = -1 };
    struct err e;

    CHECK_INT(unbind(&nameless, &e), -ERR_BUG);
    CHECK_INT(unbind(&negative, &e), -ERR_BUG);
}

TEST(signed_members_of_every_size)
{
    struct {
        int8_t a;
        int16_t b;
        int32_t c;
        int64_t d;
    } in = { INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN };
    const struct json_field fields[] = {
        { "a", JSON_KIND_INT, JSON_AT(__typeof__(in), a) },
        { "b", JSON_KIND_INT, JSON_AT(__typeof__(in), b) },
        { "c", JSON_KIND_INT, JSON_AT(__typeof__(in), c) },
        { "d", JSON_KIND_INT, JSON_AT(__typeof__(in), d) },
    };
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &out, JSON_COMPACT);
    json_unbind(&in, fields, COUNT_OF(fields), &w);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_STR(buf_str(&out),
              "{\"a\":-128,\"b\":-32768,\"c\":-2147483648,\"d\":-9223372036854775808}");
}

static void check_answer(const struct answer *a, const char *want)
{
    struct json_writer w;
    struct err e;

    buf_clear(&out);
    json_writer_init(&w, &out, JSON_COMPACT);
    json_put_shape(&w, &written_answer, a);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_STR(buf_str(&out), want);
}

TEST(an_answer_has_all_of_its_fields)
{
    static const char *const texts[] = { "a", NULL, "\xff" };
    const struct owner owner = { "root", 90 * NS_PER_S + 1 };
    const struct answer a = { .text = "go\xffod",
                              .owner = &owner,
                              .chars = "abc",
                              .slice = STR("xyz"),
                              .texts = { texts, COUNT_OF(texts) },
                              .time_ns = INT64_C(1767323045678999999),
                              .count = 7,
                              .code = -3,
                              .has_code = true };

    check_answer(&a, "{\"text\":\"go\xef\xbf\xbdod\",\"chars\":\"abc\",\"slice\":\"xyz\","
                     "\"texts\":[\"a\",null,\"\xef\xbf\xbd\"],"
                     "\"time\":\"2026-01-02T03:04:05.678Z\",\"born\":\"1970-01-01T00:00:00.000Z\","
                     "\"count\":7,\"twice\":14,\"code\":-3,\"owner\":\"root\",\"age\":90}");
}

TEST(an_answer_leaves_out_what_is_empty_unless_it_says_null)
{
    static const char want[] =
        "{\"text\":\"\",\"texts\":[],\"born\":\"1970-01-01T00:00:00.000Z\",\"code\":null}";

    check_answer(&(struct answer){ .text = "" }, want);
    check_answer(&(struct answer){ .text = NULL }, want); /* required */
}

TEST(the_members_of_an_answer_go_into_another_object)
{
    static const struct json_shape first = { NULL, answer_fields, 1 };
    struct json_writer w;
    struct err e;

    buf_clear(&out);
    json_writer_init(&w, &out, JSON_COMPACT);
    json_begin_object(&w);
    json_field_cstr(&w, "event", "end");
    json_put_members(&w, &first, &(struct answer){ .text = "bad" });
    json_end_object(&w);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_STR(buf_str(&out), "{\"event\":\"end\",\"text\":\"bad\"}");
}

static void write_owners(struct json_writer *w, const void *in)
{
    static const struct json_field fields[] = {
        { "name", JSON_KIND_CHARS, JSON_AT(struct owner, name), .required = true },
    };
    static const struct json_shape owner = { "Owner", JSON_FIELDS(fields) };
    const struct owner *all = in;

    for (size_t i = 0; all[i].name[0]; i++)
        json_put_shape(w, &owner, &all[i]);
}

static const struct json_shape list = { "List", JSON_LIST("owners", "Owner", write_owners) };

TEST(a_list_is_written_item_by_item)
{
    static const struct owner owners[] = { { "a", 0 }, { "b", 0 }, { "", 0 } };
    struct json_writer w;
    struct err e;

    buf_clear(&out);
    json_writer_init(&w, &out, JSON_COMPACT);
    json_put_shape(&w, &list, owners);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_STR(buf_str(&out), "{\"owners\":[{\"name\":\"a\"},{\"name\":\"b\"}]}");
}
