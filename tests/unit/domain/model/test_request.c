/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/request.h"

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"
#include "lib/json/writer.h"

static struct arena arena;

static int read_text(const char *text, struct create_request *ret, struct err *e)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 16 };
    const struct json *v;

    arena_done(&arena);
    arena_init(&arena, 1 << 20);
    CHECK_OK(json_read(str_from(text), limits, &arena, &v, e), *e);
    return create_request_read(v, ret, &arena, e);
}

static struct create_request good(const char *text)
{
    struct create_request q = { 0 };
    struct err e = { 0 };

    CHECK_OK(read_text(text, &q, &e), e);
    return q;
}

TEST(names_of_sandboxes)
{
    static const char *const bad[] = {
        "",     ".",        "-a",  "_a",    "A",
        "a b",  "a/b",      "a\n", "sbx_a", "sbx-a",
        "sbx_", "\xc3\xa9", "a:b", "a%20b", "sbx0123456789abcdefghjk"
    };
    char longest[SANDBOX_NAME_MAX + 1] = { 0 };

    CHECK_STR(str_from(good("{\"name\":\"0web.a_b-c\"}").name), "0web.a_b-c");
    CHECK(!good("{}").name);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!sandbox_name_fits(str_from(bad[i])));
    CHECK(!sandbox_name_fits((struct str){ "a\0b", 3 }));
    CHECK(sandbox_name_fits(STR("sbx0123456789abcdefghj"))); /* what only resembles an id */
    CHECK(sandbox_name_fits(STR("sbx")));
    memset(longest, 'a', SANDBOX_NAME_MAX - 1);
    CHECK(sandbox_name_fits(str_from(longest)));
    longest[SANDBOX_NAME_MAX - 1] = 'a';
    CHECK(!sandbox_name_fits(str_from(longest)));
}

TEST(settings_are_inherited_where_a_request_has_none)
{
    AUTO(buf_done) struct buf text = BUF_INIT(REQUEST_JSON_MAX);
    struct create_request from = good("{\"resources\":{\"memory_mb\":64,\"cpu\":0.5},\"user\":"
                                      "\"1000\",\"hostname\":\"h\",\"caps\":[]}"),
                          to;
    struct err e = { 0 };

    CHECK_OK(request_settings_write(&from.settings, &text, &e), e);
    to = good("{\"resources\":{\"memory_mb\":32,\"pids\":9},\"workdir\":\"/w\"}");
    CHECK_OK(request_settings_inherit(&to.settings, buf_str(&text), &arena, &e), e);
    CHECK_INT(to.settings.resources.memory_mb, 32);
    CHECK_INT(to.settings.resources.pids, 9);
    CHECK_INT(to.settings.resources.cpu * 10, 5);
    CHECK_STR(str_from(to.settings.user), "1000");
    CHECK_STR(str_from(to.settings.workdir), "/w");
    CHECK(!to.settings.hostname); /* it belongs to one sandbox */
    CHECK(to.settings.caps_given);
    CHECK_OK(request_settings_inherit(&to.settings, STR(""), &arena, &e), e);
    CHECK_INT(request_settings_inherit(&to.settings, STR("{\"nope\":1}"), &arena, &e),
              -(int)ERR_INVALID);
}

#define MOUNTS(list) "{\"mounts\":[" list "]}"

TEST(mounts_have_absolute_paths_and_a_target_each)
{
    static const char *const bad[] = {
        MOUNTS("{\"source\":\"src\",\"target\":\"/src\"}"),
        MOUNTS("{\"source\":\"/src\",\"target\":\"src\"}"),
        MOUNTS("{\"source\":\"/src\"}"),
        MOUNTS("{\"source\":\"/a\",\"target\":\"/x\"},{\"source\":\"/b\",\"target\":\"/x\"}"),
        MOUNTS("{\"source\":\"/a\",\"target\":\"/x\",\"access\":\"none\"}"),
    };
    struct create_request q = good(MOUNTS("{\"source\":\"/a\",\"target\":\"/x\"}"));

    CHECK_INT(q.mounts.n, 1);
    CHECK_STR(str_from(request_mount_at(&q.mounts, 0)->source), "/a");
    CHECK_INT(request_mounts_access(&q.mounts), ASK_ACCESS_RO);
    q = good(MOUNTS("{\"source\":\"/a\",\"target\":\"/x\",\"access\":\"rw\"},"
                    "{\"source\":\"/a\",\"target\":\"/y\",\"access\":\"ro\"}"));
    CHECK_INT(request_mounts_access(&q.mounts), ASK_ACCESS_RW);
    q = good("{}");
    CHECK_INT(request_mounts_access(&q.mounts), ASK_ACCESS_NONE);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e;

        CHECK_INT(read_text(bad[i], &q, &e), -ERR_INVALID);
    }
}

TEST(a_network_is_yes_no_or_hosts)
{
    struct create_request q = good("{\"capabilities\":{\"network\":true}}");

    CHECK(q.capabilities.network && q.capabilities.network_given && !q.egress.given);
    q = good("{\"capabilities\":{\"network\":false}}");
    CHECK(!q.capabilities.network && q.capabilities.network_given);
    q = good("{\"capabilities\":{\"network\":null}}");
    CHECK(!q.capabilities.network_given);
    q = good("{\"capabilities\":{}}");
    CHECK(!q.capabilities.network_given);
    q = good("{\"capabilities\":{\"network\":[]}}");
    CHECK(!q.capabilities.network && q.capabilities.network_given && !q.egress.given);
    q = good("{\"capabilities\":{\"network\":[\"a.test\",\"b.test:80\"]}}");
    CHECK(q.capabilities.network && q.egress.given);
    CHECK_INT(q.egress.allow.n, 2);
    CHECK_STR(str_from(q.egress.allow.p[1]), "b.test:80");
    arena_done(&arena);
}

TEST(hosts_go_beside_what_is_allowed_and_once)
{
    struct create_request q = good("{\"capabilities\":{\"network\":[\"a.test\",\"b.test\"]},"
                                   "\"egress\":{\"allow\":[\"c.test\",\"a.test\"]}}");

    CHECK_INT(q.egress.allow.n, 3);
    CHECK_STR(str_from(q.egress.allow.p[0]), "c.test");
    CHECK_STR(str_from(q.egress.allow.p[2]), "b.test");
    arena_done(&arena);
}

TEST(what_is_no_network_is_named)
{
    static const char *const wrong[] = { "1",      "\"a.test\"",     "{}", "[1]", "[\"\"]",
                                         "[null]", "[\"a\\u0000b\"]" };
    struct create_request q;
    struct err e;
    char text[128];

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        snprintf(text, sizeof text, "{\"capabilities\":{\"network\":%s}}", wrong[i]);
        CHECK_INT(read_text(text, &q, &e), -(int)ERR_INVALID);
        CHECK(strstr(e.msg, "network") != NULL);
    }
    arena_done(&arena);
}

/* A stored request can be read again, with the same content. */
TEST(what_is_written_is_read_again)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4096);
    struct create_request q = good("{\"ttl\":60,\"capabilities\":{\"network\":[\"a.test\"]}}"),
                          again;
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_unbind(&q, create_request_fields, create_request_field_count, &w);
    CHECK_INT(json_writer_finish(&w, NULL), 0);
    CHECK_INT(buf_add_c(&text, '\0'), 0);
    again = good(text.p);
    CHECK(again.capabilities.network && again.egress.given);
    CHECK_INT(again.egress.allow.n, 1);

    buf_clear(&text);
    q = good("{\"ttl\":60}");
    create_request_network(&q, false);
    json_writer_init(&w, &text, JSON_COMPACT);
    json_unbind(&q, create_request_fields, create_request_field_count, &w);
    CHECK_INT(json_writer_finish(&w, NULL), 0);
    CHECK_INT(buf_add_c(&text, '\0'), 0);
    again = good(text.p);
    CHECK(again.capabilities.network_given && !again.capabilities.network);
    arena_done(&arena);
}
