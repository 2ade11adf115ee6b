/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/preview_fields.h"

#include <string.h>

#include "base/own.h"
#include "harness/tap.h"

#define MARK "sbxc-0123456789abcdef-"

static const struct preview by_path = { .kind = PREVIEW_BY_PATH,
                                        .mark = STR(MARK),
                                        .path = STR("/x/sbx_1/"),
                                        .host = STR("127.0.0.1:7700") };
static const struct preview by_name = { .kind = PREVIEW_BY_NAME,
                                        .mark = STR(MARK),
                                        .host = STR("8080-sbx-1.example:8443") };
static const struct preview public_name = { .kind = PREVIEW_BY_NAME,
                                            .host = STR("8080-sbx-1.example") };
static const struct preview by_header = { .kind = PREVIEW_BY_HEADER };

TEST(cookies_of_a_request)
{
    static const struct {
        const struct preview *p;
        const char *value, *inside; /* NULL: the field does not go inside */
    } rows[] = {
        { &by_path, "a=1", NULL },
        { &by_path, MARK "a=1", "a=1" },
        { &by_path, "a=0; " MARK "a=1;b=2;  " MARK "b=3 ;", "a=1; b=3" },
        { &by_path, "sbxc-fedcba9876543210-a=1", NULL },
        { &by_path, "a=" MARK "b", NULL },
        { &by_path, MARK, NULL },
        { &by_name, "session=planted; " MARK "session=own", "session=own" },
        { &public_name, "a=1; sbxc-0-b=2", "a=1" },
        { &by_header, "a=1; SBXC-0-b=2", "a=1" },
        { &by_header, ";;", NULL },
    };
    struct buf out AUTO(buf_done) = BUF_INIT(4096);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct h1_field f = { STR("cookie"), str_from(rows[i].value) };
        bool passes = preview_request_field(rows[i].p, &f, &out);

        if (passes != (rows[i].inside != NULL) ||
            (passes && !str_eq(buf_str(&out), str_from(rows[i].inside))))
            FAIL("%s: %.*s", rows[i].value, (int)out.n, out.p);
    }
}

TEST(cookies_of_an_answer)
{
    static const struct {
        const struct preview *p;
        const char *value, *outside; /* NULL: the cookie is dropped */
    } rows[] = {
        { &by_path, "a=1", MARK "a=1; Path=/x/sbx_1/" },
        { &by_path, "a=1; Path=/; Domain=example.com; HttpOnly",
          MARK "a=1; HttpOnly; Path=/x/sbx_1/" },
        { &by_path, "a=1; domain = example.com ;PATH=/v1", MARK "a=1; Path=/x/sbx_1/" },
        { &by_name, "a=1; Path=/app; DOMAIN=.example; Secure", MARK "a=1; Path=/app; Secure" },
        { &by_name, "__Host-a=1; Path=/; Secure", MARK "__Host-a=1; Path=/; Secure" },
        { &public_name, "a=1; Domain=example", "a=1" },
        { &public_name, "sbxc-0-a=1", NULL },
        { &by_header, "a=1;Domain=x;Max-Age=3", "a=1; Max-Age=3" },
        { &by_header, "", NULL },
        { &by_header, ";Domain=x", NULL },
    };
    struct buf out AUTO(buf_done) = BUF_INIT(4096);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool passes = preview_set_cookie(rows[i].p, str_from(rows[i].value), &out);

        if (passes != (rows[i].outside != NULL) ||
            (passes && !str_eq(buf_str(&out), str_from(rows[i].outside))))
            FAIL("%s: %.*s", rows[i].value, (int)out.n, out.p);
    }
}

TEST(other_fields_of_a_request)
{
    static const struct {
        const struct preview *p;
        const char *name, *value;
        bool passes;
    } rows[] = {
        { &by_path, "Referer", "http://127.0.0.1:7700/x/sbx_2/80~secret/", false },
        { &by_path, "Authorization", "Basic eDp5", false },
        { &by_path, "authorization", "digest x", false },
        { &by_path, "Authorization", "Bearer x", true },
        { &by_name, "Referer", "https://8080-sbx-1.example:8443/a", true },
        { &by_name, "Referer", "https://8080-sbx-2.example:8443/a", false },
        { &by_name, "Referer", "https://8080-sbx-1.example:8443.evil/a", false },
        { &by_name, "Referer", "", false },
        { &by_name, "Authorization", "Basic eDp5", true },
        { &by_header, "Referer", "https://example/", false },
        { &by_path, "Accept", "*/*", true },
    };
    struct buf out AUTO(buf_done) = BUF_INIT(4096);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct h1_field f = { str_from(rows[i].name), str_from(rows[i].value) };

        if (preview_request_field(rows[i].p, &f, &out) != rows[i].passes)
            FAIL("%s: %s", rows[i].name, rows[i].value);
    }
}

static bool has_field(const struct h1_field *fields, size_t n, const char *name, const char *value)
{
    for (size_t i = 0; i < n; i++)
        if (h1_same(fields[i].name, str_from(name)) &&
            (!value || str_eq(fields[i].value, str_from(value))))
            return true;
    return false;
}

TEST(fields_of_an_answer)
{
    static const struct h1_field fields[] = {
        { STR("Content-Type"), STR("text/html") },
        { STR("Service-Worker-Allowed"), STR("/") },
        { STR("Clear-Site-Data"), STR("\"*\"") },
        { STR("WWW-Authenticate"), STR("Basic realm=x") },
        { STR("Sandboxer-Audit"), STR("forged") },
        { STR("Use-As-Dictionary"), STR("match=\"/*\"") },
        { STR("Set-Cookie"), STR("a=1; Domain=x") },
        { STR("Content-Security-Policy"), STR("default-src 'self'") },
    };
    struct h1_field out[COUNT_OF(fields) + PREVIEW_FIELDS_ADDED];
    struct arena a = { .max = 1 << 16 };
    size_t n;

    n = preview_answer_fields(&by_path, fields, COUNT_OF(fields), STR("null"), &a, out);
    CHECK_INT(n, 6);
    CHECK(has_field(out, n, "Content-Type", "text/html"));
    CHECK(has_field(out, n, "Set-Cookie", MARK "a=1; Path=/x/sbx_1/"));
    CHECK(has_field(out, n, "Content-Security-Policy", PREVIEW_CSP));
    CHECK(has_field(out, n, "Content-Security-Policy", "default-src 'self'"));
    CHECK(has_field(out, n, "Referrer-Policy", "no-referrer"));
    CHECK(has_field(out, n, "Access-Control-Allow-Origin", "null"));
    n = preview_answer_fields(&by_path, fields, COUNT_OF(fields), STR("https://evil"), &a, out);
    CHECK(!has_field(out, n, "Access-Control-Allow-Origin", NULL));
    n = preview_answer_fields(&by_name, fields, COUNT_OF(fields), STR(""), &a, out);
    CHECK_INT(n, 5);
    CHECK(!has_field(out, n, "Service-Worker-Allowed", NULL));
    CHECK(!has_field(out, n, "Clear-Site-Data", NULL));
    CHECK(!has_field(out, n, "Sandboxer-Audit", NULL));
    CHECK(has_field(out, n, "WWW-Authenticate", NULL));
    arena_done(&a);
}

/* Below a path, all sandboxes and the API have one origin. */
TEST(no_answer_speaks_for_an_origin_that_is_shared)
{
    static const char *const names[] = {
        "Strict-Transport-Security",
        "Public-Key-Pins",
        "Alt-Svc",
        "NEL",
        "report-to",
        "Reporting-Endpoints",
        "WWW-Authenticate",
        "Origin-Agent-Cluster",
        "Accept-CH",
        "Critical-CH",
        "Referrer-Policy",
        "Use-As-Dictionary",
        "Speculation-Rules",
        "Supports-Loading-Mode",
        "Set-Login",
    };
    struct h1_field out[1 + PREVIEW_FIELDS_ADDED];
    struct arena a = { .max = 1 << 16 };

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct h1_field f = { str_from(names[i]), STR("from-inside") };
        size_t n = preview_answer_fields(&by_path, &f, 1, STR(""), &a, out);

        if (has_field(out, n, names[i], "from-inside"))
            FAIL("%s passes by path", names[i]);
        n = preview_answer_fields(&by_name, &f, 1, STR(""), &a, out);
        if (!has_field(out, n, names[i], "from-inside"))
            FAIL("%s does not pass by name", names[i]);
    }
    arena_done(&a);
}
