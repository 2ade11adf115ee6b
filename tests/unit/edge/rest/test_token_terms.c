/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rest/token_terms.h"

#include <string.h>

#include "harness/tap.h"
#include "lib/json/reader.h"

static struct arena arena = ARENA_INIT(1 << 20);
static const struct trust_limits role = { .concurrent = 10, .concurrent_given = true };

static struct token_terms read_terms(const struct terms_request *q)
{
    struct token_terms t;
    struct err e;

    CHECK_OK(terms_read(q, &arena, &t, &e), e);
    return t;
}

static const struct json *tree(const char *text)
{
    const struct json_limits limits = { .bytes = 4096, .depth = 8 };
    const struct json *v;
    struct err e;

    CHECK_OK(json_read(str_from(text), limits, &arena, &v, &e), e);
    return v;
}

TEST(presets_suit_their_clients)
{
    struct token_terms sdk = read_terms(&(struct terms_request){ .preset = "e2b" }),
                       agent = read_terms(&(struct terms_request){ .preset = "agent" }),
                       none = read_terms(&(struct terms_request){ .preset = NULL });

    CHECK(sdk.concurrent >= 1000 && sdk.per_hour >= 1000 && sdk.calls >= 1000);
    CHECK(str_eq(sdk.network, STR(TOKEN_PUBLIC)));
    CHECK(agent.concurrent == TOKEN_UNSET && !agent.network.n);
    CHECK(none.concurrent == TOKEN_UNSET && !none.network.n && !none.preset[0]);
}

TEST(a_network_is_nothing_public_or_a_list)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        { "false", "" },
        { "\"public\"", "public" },
        { "[\"a.example:443\",\"*.b.example\"]", "a.example:443 *.b.example" },
        { "[]", "" },
        { "true", NULL },
        { "\"all\"", NULL },
        { "[\"a b\"]", NULL },
        { "[\"a/b\"]", NULL },
        { "[7]", NULL },
        { "[\"*\"]", NULL },
        { "[\"93.184.216.34:443\",\"[2606:2800::1]:443\"]",
          "93.184.216.34:443 [2606:2800::1]:443" },
        { "[\"10.0.0.1\"]", NULL },
        { "[\"127.0.0.1:8080\"]", NULL },
        { "[\"a.example\",\"169.254.169.254\"]", NULL },
        { "[\"100.64.0.1\"]", NULL },
        { "[\"[::1]:80\"]", NULL },
        { "[\"[fd00::1]\"]", NULL },
        { "[\"[::ffff:10.0.0.1]\"]", NULL },
        { "[\"*.93.184.216.34\"]", NULL },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct terms_request q = { .capabilities.network = tree(rows[i].text) };
        struct token_terms t = { .network = { "", 0 } };
        int r = terms_read(&q, &arena, &t, NULL);

        if (!rows[i].want && r >= 0)
            FAIL("%s is taken", rows[i].text);
        if (rows[i].want && (r < 0 || !str_eq(t.network, str_from(rows[i].want))))
            FAIL("%s is refused", rows[i].text);
    }
}

TEST(an_address_beyond_the_ceiling_is_refused_by_its_name)
{
    struct terms_request q = { .capabilities.network = tree("[\"10.1.2.3:443\"]") };
    struct token_terms t;
    struct err e;

    CHECK_INT(terms_read(&q, &arena, &t, &e), -ERR_DENIED);
    CHECK(strstr(e.msg, "10.1.2.3:443") && strstr(e.msg, "ceiling `public`"));
}

TEST(a_maker_with_public_passes_on_no_private_address)
{
    struct terms_request q = { .capabilities.network = tree("[\"a.example\",\"192.168.0.1\"]") };
    struct token_terms maker = TOKEN_TERMS_NONE, t = TOKEN_TERMS_NONE;
    struct err e;
    int r = terms_read(&q, &arena, &t, &e);

    maker.network = STR(TOKEN_PUBLIC);
    if (r >= 0)
        r = terms_limit(&q, &maker, &role, &t, &e);
    CHECK_INT(r, -ERR_DENIED);
    maker.network = STR("a.example");
    q = (struct terms_request){ .capabilities.network = tree("[\"b.example\"]") };
    t = read_terms(&q);
    CHECK_INT(terms_limit(&q, &maker, &role, &t, &e), -ERR_DENIED);
    CHECK(strstr(e.msg, "'a.example'")); /* its own ceiling is named */
}

TEST(a_token_makes_none_that_has_more)
{
    static const struct terms_request more[] = {
        { .limits = { .concurrent = 3, .concurrent_given = true } },
        { .limits = { .calls = 9, .calls_given = true } },
        { .capabilities = { .memory_mb = 2048 } },
        { .capabilities = { .filesystem = 1, .filesystem_given = true } },
    };
    struct token_terms maker = TOKEN_TERMS_NONE, t;

    maker.concurrent = 2;
    maker.memory_mb = 1024;
    maker.filesystem = TOKEN_FILES_RO;
    maker.network = STR("a.example b.example");
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        t = read_terms(&more[i]);
        CHECK_INT(terms_limit(&more[i], &maker, &role, &t, NULL), -ERR_DENIED);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct terms_request q = { .capabilities.network =
                                       tree(i ? "\"public\"" : "[\"c.example\"]") };

        t = read_terms(&q);
        CHECK_INT(terms_limit(&q, &maker, &role, &t, NULL), -ERR_DENIED);
    }
}

TEST(what_is_left_out_is_the_makers_and_a_preset_is_cut_down)
{
    struct terms_request preset = { .preset = "e2b" }, nothing = { 0 };
    struct token_terms maker = TOKEN_TERMS_NONE, t = read_terms(&preset);
    struct err e;

    maker.per_hour = 5;
    maker.network = STR("a.example");
    CHECK_OK(terms_limit(&preset, &maker, &role, &t, &e), e);
    CHECK(t.per_hour == 5 && t.concurrent == 10 && t.calls == TOKEN_UNSET);
    CHECK(str_eq(t.network, STR("a.example")));
    t = read_terms(&nothing);
    CHECK_OK(terms_limit(&nothing, &maker, &role, &t, &e), e);
    CHECK(t.per_hour == 5 && t.concurrent == 10 && !t.network.n);
}
