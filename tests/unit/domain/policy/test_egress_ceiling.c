/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_ceiling.h"

#include "harness/tap.h"
#include "domain/policy/egress_check.h"
#include "domain/policy/egress_file.h"
#include "domain/policy/egress_sources.h"

static struct arena arena = ARENA_INIT(64 << 20);
static struct err e;

TEST(places_have_one_spelling)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        { "127.0.0.1:8099", true },
        { "127.0.0.1:80,443", true },
        { "10.0.0.0/8:443", true },
        { "10.0.0.0/8:*", true },
        { "[::1]:80", true },
        { "[fd00::/8]:443", true },
        { "api.example.com:443", true },
        { "*.example.com:443", true },
        { "127.0.0.1", false }, /* which port? */
        { "10.0.0.1/8:443", false },
        { "127.1:80", false },
        { "0x7f000001:80", false },
        { "::1:80", false },
        { "[127.0.0.1]:80", false },
        { "[::1]80", false },
        { "127.0.0.1:0", false },
        { "127.0.0.1:65536", false },
        { "127.0.0.1:080", false },
        { "127.0.0.1:", false },
        { "127.0.0.1:80,", false },
        { "Api.example.com:443", false },
        { "*.com:443", false },
        { "169.254.169.254:80", false },
        { "10.0.0.1:6443", false },
        { ":80", false },
        { "", false },
    };
    struct egress_place p;

    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (!egress_place_parse(str_from(cases[i].text), 0, &p) != cases[i].good)
            FAIL("%s: %s", cases[i].text, cases[i].good ? "refused" : "taken");
}

static struct egress_ceiling ceiling_of(enum egress_reach reach, const char *place)
{
    const char **list = arena_array(&arena, 1, sizeof *list);
    struct egress_ceiling c;

    list[0] = place;
    CHECK_OK(egress_ceiling_make(reach, "configuration egress.most",
                                 (struct json_strs){ list, place ? 1 : 0 }, &arena, &c, &e),
             e);
    return c;
}

static int check_item(const struct egress_ceiling *c, const char *item)
{
    struct egress_policy p;

    CHECK_OK(egress_from_allow((struct json_strs){ &item, 1 }, &arena, &p, &e), e);
    return egress_ceiling_check(c, &p, (struct egress_own){ 0 }, &e);
}

TEST(what_is_not_public_needs_a_place_or_an_administrator)
{
    static const char *const items[] = {
        "127.0.0.1:8099",       "127.9.9.9:80",      "[::1]:80",          "0.0.0.0:80",
        "10.1.2.3:443",         "172.16.0.1:443",    "192.168.1.1:443",   "100.64.0.1:443",
        "[fd00::1]:443",        "[fe80::1]:443",     "169.254.0.5:443",   "[::ffff:127.0.0.1]:80",
        "[::ffff:10.0.0.1]:80", "[::127.0.0.1]:80",  "192.0.2.1:443",     "224.0.0.1:443",
        "[64:ff9b::a00:1]:443", "[2002:a00:1::]:80", "255.255.255.255:9",
    };
    struct egress_ceiling tenant = ceiling_of(EGRESS_REACH_PUBLIC, NULL),
                          admin = ceiling_of(EGRESS_REACH_LOCAL, NULL),
                          open = ceiling_of(EGRESS_REACH_PUBLIC, "127.0.0.1:8099");

    for (size_t i = 0; i < COUNT_OF(items); i++) {
        if (check_item(&tenant, items[i]) != -ERR_DENIED)
            FAIL("%s is taken", items[i]);
        CHECK(strstr(e.msg, "egress.local") && strstr(e.msg, "administrator"));
        CHECK_OK(check_item(&admin, items[i]), e);
    }
    CHECK_OK(check_item(&open, "127.0.0.1:8099"), e);
    CHECK_INT(check_item(&open, "127.0.0.1:8100"), -ERR_DENIED);
    CHECK_INT(check_item(&open, "127.0.0.2:8099"), -ERR_DENIED);
    CHECK_INT(check_item(&open, "[::ffff:127.0.0.1]:8099"), -ERR_DENIED);
    CHECK_OK(check_item(&tenant, "8.8.8.8:443"), e);
    CHECK_OK(check_item(&tenant, "*.example.com:443"), e);
}

TEST(a_name_is_held_to_where_it_is)
{
    static const char *const items[] = { "a.example.com:443=10.0.0.5",
                                         "a.example.com:443=10.0.0.0/24",
                                         "a.example.com:443=8.8.8.8,192.168.0.1",
                                         "a.example.com:443=127.0.0.1",
                                         "localhost:443",
                                         "host.sandboxer.internal:443" };
    struct egress_ceiling tenant = ceiling_of(EGRESS_REACH_PUBLIC, NULL),
                          admin = ceiling_of(EGRESS_REACH_LOCAL, NULL),
                          open = ceiling_of(EGRESS_REACH_PUBLIC, "10.0.0.0/25:443");

    for (size_t i = 0; i < COUNT_OF(items); i++) {
        if (check_item(&tenant, items[i]) != -ERR_DENIED)
            FAIL("%s is taken", items[i]);
        CHECK(strstr(e.msg, "egress.local") && strstr(e.msg, "administrator"));
        CHECK_OK(check_item(&admin, items[i]), e);
    }
    CHECK_OK(check_item(&open, items[0]), e);
    CHECK_OK(check_item(&open, "a.example.com:443=10.0.0.64/26"), e);
    CHECK_INT(check_item(&open, items[1]), -ERR_DENIED);
    CHECK_INT(check_item(&open, "a.example.com:80=10.0.0.5"), -ERR_DENIED);
    CHECK_OK(check_item(&tenant, "a.example.com:443=8.8.8.8"), e);
    CHECK_OK(check_item(&tenant, "a.example.com:443=8.0.0.0/5"), e); /* limits, grants no 10/8 */
}

TEST(a_range_of_places_has_all_of_its_addresses)
{
    struct egress_ceiling c = ceiling_of(EGRESS_REACH_PUBLIC, "10.0.0.0/8:443,8443");

    CHECK_OK(check_item(&c, "10.1.2.3:443"), e);
    CHECK_OK(check_item(&c, "10.255.255.255:8443"), e);
    CHECK_INT(check_item(&c, "10.1.2.3:80"), -ERR_DENIED);
    CHECK_INT(check_item(&c, "10.1.2.3:443,80"), -ERR_DENIED);
    CHECK_INT(check_item(&c, "11.1.2.3:443"), 0);
    CHECK_INT(check_item(&c, "192.168.0.1:443"), -ERR_DENIED);
}

TEST(below_public_only_places_count)
{
    struct egress_ceiling c = ceiling_of(EGRESS_REACH_LISTED, "**.example.com:443");

    CHECK_OK(check_item(&c, "a.b.example.com:443"), e);
    CHECK_OK(check_item(&c, "*.example.com:443"), e);
    CHECK_INT(check_item(&c, "example.com:443"), -ERR_DENIED);
    CHECK_INT(check_item(&c, "a.example.com:80"), -ERR_DENIED);
    CHECK_INT(check_item(&c, "example.org:443"), -ERR_DENIED);
    CHECK(strstr(e.msg, "'listed' of configuration egress.most"));
    CHECK_INT(check_item(&c, "8.8.8.8:443"), -ERR_DENIED);
}

static int check_lists(const struct egress_ceiling *c, const char *allow, bool internet)
{
    static const char *const nothing[] = { "192.0.2.0/24" };
    struct egress_policy p;

    CHECK_OK(egress_from_lists((struct json_strs){ &allow, allow ? 1 : 0 },
                               (struct json_strs){ nothing, internet ? 1 : 0 }, internet, &arena,
                               &p, &e),
             e);
    return egress_ceiling_check(c, &p, (struct egress_own){ 0 }, &e);
}

TEST(lists_of_addresses_are_held_to_it)
{
    struct egress_ceiling tenant = ceiling_of(EGRESS_REACH_PUBLIC, NULL),
                          one_port = ceiling_of(EGRESS_REACH_PUBLIC, "10.0.0.0/8:443"),
                          all_ports = ceiling_of(EGRESS_REACH_PUBLIC, "10.0.0.0/8:*"),
                          listed = ceiling_of(EGRESS_REACH_LISTED, "8.8.8.0/24:*");

    CHECK_OK(check_lists(&tenant, NULL, true), e);
    CHECK_OK(check_lists(&tenant, "8.8.8.8", false), e);
    CHECK_INT(check_lists(&tenant, "10.1.2.3", false), -ERR_DENIED);
    CHECK_INT(check_lists(&one_port, "10.1.2.3", false), -ERR_DENIED); /* it means every port */
    CHECK_OK(check_lists(&all_ports, "10.1.2.3", false), e);
    CHECK_INT(check_lists(&listed, NULL, true), -ERR_DENIED);
    CHECK_OK(check_lists(&listed, "8.8.8.8", false), e);
    CHECK_INT(check_lists(&listed, "8.8.0.0/16", false), -ERR_DENIED);
}

TEST(the_machines_own_addresses_are_not_public)
{
    struct egress_ceiling c = ceiling_of(EGRESS_REACH_PUBLIC, NULL),
                          open = ceiling_of(EGRESS_REACH_PUBLIC, "8.8.8.8:443");
    struct address own;
    struct egress_policy p;
    const char *item = "8.8.8.8:443";

    CHECK(address_parse(STR("8.8.8.8"), &own));
    CHECK_OK(egress_from_allow((struct json_strs){ &item, 1 }, &arena, &p, &e), e);
    CHECK_INT(egress_ceiling_check(&c, &p, (struct egress_own){ &own, 1 }, &e), -ERR_DENIED);
    CHECK(strstr(e.msg, "an address of this machine"));
    CHECK_OK(egress_ceiling_check(&open, &p, (struct egress_own){ &own, 1 }, &e), e);
}

static enum egress_verdict decide_under(const char *item, const struct egress_ceiling *c,
                                        struct egress_reason *why)
{
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct egress_connect_query ask = { .port = 8099,
                                        .host_is_address = true,
                                        .identity_known = true };
    struct egress_match m;
    struct egress_policy p;
    enum egress_verdict v;

    CHECK_OK(egress_from_allow((struct json_strs){ &item, 1 }, &arena, &p, &e), e);
    s = egress_compile_under(&p, c, 1, &e);
    CHECK(s);
    str_cut(str_from(item), ':', &ask.host);
    ask.host_is_address = address_parse(ask.host, &ask.address);
    v = egress_connect(s, &ask, &m, why);
    if (v != EGRESS_DENIED && ask.host_is_address)
        v = egress_addresses(&m, &ask.address, 1, why);
    return v;
}

/* The worker denies destinations beyond the ceiling, although the policy was compiled. */
TEST(a_policy_that_slipped_through_opens_nothing)
{
    struct egress_ceiling tenant = ceiling_of(EGRESS_REACH_PUBLIC, NULL),
                          admin = ceiling_of(EGRESS_REACH_LOCAL, NULL),
                          none = ceiling_of(EGRESS_REACH_NONE, NULL),
                          open = ceiling_of(EGRESS_REACH_PUBLIC, "127.0.0.0/8:8099");
    struct egress_reason why;

    CHECK_INT(decide_under("127.0.0.1:8099", &tenant, &why), EGRESS_DENIED);
    CHECK_STR(str_from(why.code), "ceiling_denied");
    CHECK(strstr(why.text, "127.0.0.1:8099 is a loopback address"));
    CHECK_INT(decide_under("127.0.0.1:8099", &admin, &why), EGRESS_ALLOWED);
    CHECK_INT(decide_under("127.0.0.1:8099", &open, &why), EGRESS_ALLOWED);
    CHECK_INT(decide_under("127.0.0.1:8099", NULL, &why), EGRESS_ALLOWED);
    CHECK_INT(decide_under("api.example.com:8099", &tenant, &why), EGRESS_ALLOWED);
    CHECK_INT(decide_under("api.example.com:8099", &none, &why), EGRESS_DENIED);
    CHECK_STR(str_from(why.code), "ceiling_denied");
    CHECK_INT(decide_under("8.8.8.8:8099", &none, &why), EGRESS_DENIED);
}

TEST(a_ceiling_is_read_as_it_was_written)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4096), again = BUF_INIT(4096);
    struct egress_ceiling c = ceiling_of(EGRESS_REACH_PUBLIC, "[fd00::/8]:443"), read;

    CHECK_OK(egress_ceiling_write(&c, &text, &e), e);
    CHECK_OK(egress_ceiling_read(buf_str(&text), &arena, &read, &e), e);
    CHECK_OK(egress_ceiling_write(&read, &again, &e), e);
    CHECK(str_eq(buf_str(&text), buf_str(&again)));
    CHECK_INT(read.reach, EGRESS_REACH_PUBLIC);
    CHECK(egress_ceiling_read(STR("{}"), &arena, &read, &e) < 0);
    CHECK(egress_ceiling_read(STR("{\"reach\":\"all\",\"from\":\"\"}"), &arena, &read, &e) < 0);
    CHECK(egress_ceiling_read(STR("{\"reach\":\"public\",\"from\":\"x\",\"places\":[\"a\"]}"),
                              &arena, &read, &e) < 0);
}
