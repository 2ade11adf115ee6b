/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/capabilities.h"

#include "harness/tap.h"
#include "lib/json/reader.h"

static struct arena arena = ARENA_INIT(1 << 20);
static struct err e;

static int read_text(const char *text, struct trust_capabilities *ret)
{
    const struct json *v;

    CHECK_OK(json_read(str_from(text), (struct json_limits){ .bytes = 4096, .depth = 8 }, &arena,
                       &v, &e),
             e);
    return trust_capabilities_read(v, ret, &arena, &e);
}

TEST(reads_what_is_declared)
{
    struct trust_capabilities c;

    CHECK_OK(read_text("{\"network\":true,\"filesystem\":\"ro\",\"duration_s\":1800,"
                       "\"memory_mb\":4096,\"cpu_quota\":0.1}",
                       &c),
             e);
    CHECK(c.network && c.filesystem == ASK_ACCESS_RO);
    CHECK_INT(c.duration_s, 1800);
    CHECK_INT(c.memory_mb, 4096);
    CHECK_OK(read_text("{\"network\":[\"example.com:443\",\"a.b\"],\"filesystem\":\"rw\"}", &c), e);
    CHECK(c.network && c.filesystem == ASK_ACCESS_RW);
    CHECK_INT(c.hosts.n, 2);
    CHECK_STR(str_from(c.hosts.p[1]), "a.b");
    CHECK_OK(read_text("{\"network\":[]}", &c), e);
    CHECK(!c.network);
    CHECK_OK(trust_capabilities_read(NULL, &c, &arena, &e), e);
    CHECK(!c.network && !c.filesystem && !c.duration_s);
}

TEST(refuses_what_is_outside)
{
    static const struct {
        const char *text, *named;
    } rows[] = {
        { "{\"network\":\"yes\"}", "network" },
        { "{\"network\":1}", "network" },
        { "{\"network\":[1]}", "network[0]" },
        { "{\"network\":[\"\"]}", "network[0]" },
        { "{\"network\":[\"a\\u0000b\"]}", "network[0]" },
        { "{\"filesystem\":\"none\"}", "filesystem" },
        { "{\"filesystem\":\"\"}", "filesystem" },
        { "{\"duration_s\":1801}", "duration_s" },
        { "{\"duration_s\":0}", "duration_s" },
        { "{\"memory_mb\":4097}", "memory_mb" },
        { "{\"cpu_quota\":0.09}", "cpu_quota" },
        { "{\"cpu_quota\":4.01}", "cpu_quota" },
        { "{\"cpu_quota\":0}", "cpu_quota" },
        { "{\"gpu\":1}", "gpu" },
        { "[]", "object" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct trust_capabilities c = { .memory_mb = 7 };

        if (read_text(rows[i].text, &c) >= 0)
            FAIL("%s should be refused", rows[i].text);
        if (!strstr(e.msg, rows[i].named))
            FAIL("%s: '%s' does not name %s", rows[i].text, e.msg, rows[i].named);
        CHECK_INT(c.memory_mb, 7);
    }
}
