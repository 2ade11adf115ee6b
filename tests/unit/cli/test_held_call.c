/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/held_call.h"

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

static struct arena arena = ARENA_INIT(64 << 20);
static struct buf text = { .max = 1 << 20 };

static const struct json *tree_of(struct str s)
{
    const struct json_limits limits = { .bytes = 16 << 20, .depth = 16 };
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(s, limits, &arena, &v, &e), e);
    return v;
}

static const char *describe_held(struct str call, unsigned width)
{
    const struct table_style style = { .now = 0 };

    buf_clear(&text);
    held_call_describe(tree_of(call), &style, width, &text);
    return text.p;
}

#define HEAD "{\"request_id\":\"req_a\",\"tool\":\"sandbox_create\",\"owner\":\"uid:7\","

TEST(a_call_is_described_in_lines)
{
    CHECK_STR(
        str_from(describe_held(
            STR(HEAD "\"peer\":\"peer_b\",\"tier\":3,\"rule\":\"r\",\"sandbox_id\":\"sbx_c\","
                     "\"expires_at\":\"1970-01-01T00:10:00Z\","
                     "\"args\":{\"capabilities\":{\"network\":[\"a.test:443\",\"b.test\"]}}}"),
            200)),
        "req_a sandbox_create\n"
        "  caller    uid:7 (peer_b)\n"
        "  sandbox   sbx_c\n"
        "  network   a.test:443, b.test\n"
        "  arguments {\"capabilities\":{\"network\":[\"a.test:443\",\"b.test\"]}}\n"
        "  tier      3 of 4, r\n"
        "  expires   in 10m\n");
}

TEST(long_values_are_cut_and_say_so)
{
    AUTO(buf_done) struct buf call = BUF_INIT(8 << 20);
    const char *shown;
    struct str rest, line;

    buf_add(&call, STR(HEAD "\"tier\":4,\"request\":\""));
    for (int i = 0; i < 300000; i++)
        buf_add(&call, STR("\u00e4"));
    buf_add(&call, STR("\"}"));
    shown = describe_held(buf_str(&call), 50);
    CHECK(strstr(shown, "  request   "));
    CHECK(strstr(shown, "…\n"));
    CHECK(strstr(shown, "  in full   sandboxer approvals show req_a\n"));
    for (rest = str_from(shown); rest.p;) {
        size_t width = 0;

        rest = str_cut(rest, '\n', &line);
        for (size_t i = 0; i < line.n; i++)
            width += ((unsigned char)line.p[i] & 0xC0) != 0x80;
        CHECK(width <= 50);
    }
}

TEST(nothing_acts_on_the_terminal)
{
    const char *shown =
        describe_held(STR("{\"request_id\":\"req_\\u001b[2J\",\"tool\":\"\\u0007\","
                          "\"owner\":\"\\r\\nreq_b\",\"args\":{\"\\u202e\":\"\\u009b2J\"}}"),
                      80);

    for (const char *p = shown; *p; p++)
        CHECK(*p == '\n' || (unsigned char)*p >= ' ');
    CHECK(!strstr(shown, "\xe2\x80\xae") && !strstr(shown, "\xc2\x9b"));
    CHECK(!strstr(shown, "\nreq_b"));
}

TEST(a_network_is_found_in_each_interfaces_member)
{
    static const struct {
        const char *args, *want;
    } rows[] = {
        { "{\"capabilities\":{\"network\":true}}", "yes" },
        { "{\"egress\":{\"allow\":[\"a.test\"]}}", "{\"allow\":[\"a.test\"]}" },
        { "{\"allow\":[\"a.test\"]}", "a.test" },
        { "{\"path\":\"/x\"}", "" },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(buf_done) struct buf out = BUF_INIT(4096), call = BUF_INIT(4096);

        buf_addf(&call, "{\"args\":%s}", rows[i].args);
        show_wanted_network(tree_of(buf_str(&call)), 0, &out);
        CHECK_STR(buf_str(&out), rows[i].want);
    }
}
