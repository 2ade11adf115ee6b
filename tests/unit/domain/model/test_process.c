/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/process.h"

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

static struct arena arena = { .max = 1 << 16 };

static void read_request(const char *text, struct process_request *ret)
{
    const struct json_limits limits = { .bytes = 4096, .depth = 8 };
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(str_from(text), limits, &arena, &v, &e), e);
    CHECK_OK(process_request_read(v, ret, &arena, &e), e);
}

static void expect_written(const struct process_request *q, const char *expected)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4096);
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_unbind_changed(q, &run_request_default, process_request_fields,
                        process_request_field_count, &w);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_STR(buf_str(&text), expected);
}

/* So a request that leaves a member out and one that has the default are the same. */
TEST(the_defaults_are_the_presets_of_the_table)
{
    struct process_request q;

    read_request("{\"argv\":[\"x\"]}", &q);
    expect_written(&q, "{\"argv\":[\"x\"]}");
    q = run_request_default.process;
    expect_written(&q, "{}");
}

TEST(what_differs_from_the_defaults_is_written)
{
    static const char text[] =
        "{\"argv\":[\"x\",\"y\"],\"env\":{\"A\":\"1\"},\"cwd\":\"/w\",\"user\":\"7\","
        "\"stdin\":true,\"tty\":true,\"rows\":25,\"cols\":100,\"timeout\":5,\"grace\":0,"
        "\"tag\":\"t\",\"background\":true}";
    struct process_request q;

    read_request(text, &q);
    expect_written(&q, text);
}

TEST(variables_are_written_as_programs_read_them)
{
    struct arena small AUTO(arena_done) = ARENA_INIT(8);
    struct process_request q;
    const char **list;

    read_request("{\"argv\":[\"x\"],\"env\":{\"A\":\"1\",\"B\":\"\"}}", &q);
    list = process_variables(&q.env, &arena);
    CHECK(list && !list[2]);
    CHECK_STR(str_from(list[0]), "A=1");
    CHECK_STR(str_from(list[1]), "B=");
    CHECK(!process_variables(&q.env, &small));
}
