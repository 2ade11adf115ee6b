/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"
#include "unit/domain/policy/policies.h"

#define HEAD "version: 1\nnetwork_policies:\n  web:\n    binaries: [{path: /**}]\n    endpoints:\n"

struct row {
    const char *method, *target, *verdict;
};

static void check_rows(const char *yaml, const struct row *rows, size_t n)
{
    const struct egress_snapshot *s = policy_compiled(yaml);

    for (size_t i = 0; i < n; i++) {
        const char *got = request_text(s, "api.example.com:80", rows[i].method, rows[i].target);

        if (strcmp(got, rows[i].verdict) != 0)
            FAIL("%s %s: %s, not %s", rows[i].method, rows[i].target, got, rows[i].verdict);
    }
}

#define NO     "denied request_denied"
#define BY     "denied request_denied_by_rule"
#define BROKEN "denied request_malformed"
#define METHOD "denied method_denied"

TEST(presets)
{
    static const char *const rows[][3] = {
        { "read-only", "GET", "allowed" },     { "read-only", "HEAD", "allowed" },
        { "read-only", "OPTIONS", "allowed" }, { "read-only", "POST", NO },
        { "read-only", "get", METHOD },        { "read-only", "TRACE", METHOD },
        { "read-write", "GET", "allowed" },    { "read-write", "POST", "allowed" },
        { "read-write", "PUT", "allowed" },    { "read-write", "PATCH", "allowed" },
        { "read-write", "post", METHOD },      { "read-write", "DELETE", NO },
        { "full", "DELETE", "allowed" },       { "full", "PROPFIND", "allowed" },
        { "full", "CONNECT", METHOD },         { "full", "propfind", "allowed" },
    };
    char yaml[512];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct row row = { rows[i][1], "/x", rows[i][2] };

        snprintf(yaml, sizeof yaml,
                 HEAD "    - {host: api.example.com, port: 80, protocol: rest, access: %s}\n",
                 rows[i][0]);
        check_rows(yaml, &row, 1);
    }
}

TEST(methods_and_paths)
{
    static const char yaml[] =
        HEAD "    - host: api.example.com\n      port: 80\n      protocol: rest\n      rules:\n"
             "      - {allow: {method: get, path: '/repos/*/pulls'}}\n"
             "      - {allow: {method: POST, path: '/repos/**'}}\n"
             "      - {allow: {method: '*', path: '/any/{a,b}/[0-9]'}}\n"
             "      - {allow: {method: PUT, path: /exact}}\n"
             "      deny_rules:\n"
             "      - {method: post, path: '/repos/*/admin'}\n"
             "      - {path: '/any/b/6'}\n"
             "      - {method: GET, path: '/repos/secret/**'}\n";
    static const struct row rows[] = {
        { "GET", "/repos/x/pulls", "allowed" },
        { "HEAD", "/repos/x/pulls", "allowed" },
        { "OPTIONS", "/repos/x/pulls", NO },
        { "GET", "/repos/x/y/pulls", NO },
        { "GET", "/repos/x/pulls/", NO },
        { "GET", "/repos//x/pulls", NO },
        { "GET", "/repos/x/./pulls", NO },
        { "GET", "/other/../repos/x/pulls", NO },
        { "POST", "/repos//x/./y;v=1", "allowed" },
        { "POST", "/repos/../repos/x", "allowed" },
        { "POST", "/other/../repos/x", NO },
        { "POST", "/repos/x/y", "allowed" },
        { "post", "/repos/x/y", METHOD },
        { "POST", "/repos", NO },
        { "POST", "/repos/x/admin", BY },
        { "PoSt", "/repos/x/admin", METHOD },
        { "POST", "/repos/x/%61dmin", BY },
        { "POST", "/repos/x;v=1/admin", BY },
        { "POST", "/repos/x/y/../admin", BY },
        { "DELETE", "/any/a/5", "allowed" },
        { "DELETE", "/any/b/6", BY },
        { "DELETE", "/any/c/5", NO },
        { "HEAD", "/repos/secret/pulls", BY },
        { "PUT", "/exact", "allowed" },
        { "PUT", "/exact/", NO },
        { "PUT", "/exactly", NO },
    };

    check_rows(yaml, rows, COUNT_OF(rows));
}

TEST(queries)
{
    static const char yaml[] =
        HEAD "    - host: api.example.com\n      port: 80\n      protocol: rest\n      rules:\n"
             "      - {allow: {method: GET, path: /s, query: {q: 'a*', page: {any: ['1', '2']}}}}\n"
             "      - {allow: {method: GET, path: /v, query: {v: '1.*'}}}\n"
             "      - {allow: {method: GET, path: /d}}\n"
             "      deny_rules:\n"
             "      - {path: /d, query: {admin: {glob: '**'}}}\n";
    static const struct row rows[] = {
        { "GET", "/s?q=abc&page=1", "allowed" },
        { "GET", "/s?page=2&q=a&other=x", "allowed" },
        { "GET", "/s?q=abc", NO },
        { "GET", "/s", NO },
        { "GET", "/s?q=abc&page=3", NO },
        { "GET", "/s?q=abc&q=xyz&page=1", NO },
        { "GET", "/s?Q=abc&page=1", NO },
        { "GET", "/s?%71=%61bc&page=1", "allowed" },
        { "GET", "/s?q=a+b&page=1", "allowed" },
        { "GET", "/v?v=1.2", "allowed" },
        { "GET", "/v?v=1.2.3", NO },
        { "GET", "/d", "allowed" },
        { "GET", "/d?x=1", "allowed" },
        { "GET", "/d?admin", BY },
        { "GET", "/d?x=1&admin=0", BY },
        { "GET", "/d?%61dmin=0", BY },
        { "GET", "/d?x=%zz", BROKEN },
        { "GET", "/d?x=%ff", BROKEN },
        { "GET", "/d?x=%00", BROKEN },
    };

    check_rows(yaml, rows, COUNT_OF(rows));
}

/* Every spelling that some server takes for what a rule denies. */
TEST(denies_match_what_servers_take_for_the_same)
{
    static const char yaml[] =
        HEAD "    - host: api.example.com\n      port: 80\n      protocol: rest\n"
             "      access: full\n      allow_encoded_slash: true\n      deny_rules:\n"
             "      - {path: /admin}\n      - {path: '/secrets/**'}\n      - {path: /Upper/}\n"
             "      - {path: '/a%20b'}\n      - {path: '/c/*/d'}\n      - {path: '/dot.'}\n"
             "      - {method: DELETE, path: '/items*'}\n"
             "      - {path: /q, query: {x: '2', user.name: Root}}\n"
             "      - {path: /r, query: {x: '2'}}\n";
    static const char *const denied[] = {
        "/admin",
        "/admin/",
        "/admin//",
        "/admin.",
        "/Admin",
        "/ADMIN/.",
        "//admin",
        "/./admin",
        "/x/../admin",
        "/%61dmin",
        "/admin%20",
        "/admin+",
        "/admin;x",
        "/admin;x/",
        "/admin%3Bx",
        "/admin/x/..",
        "/admin...",
        "/admin%2f",
        "/%2fadmin",
        "/.//admin;a=b",
        "/secrets",
        "/secrets/",
        "/secrets/x",
        "/SECRETS/x",
        "/secrets./x",
        "/secrets;x/y",
        "/secrets%2Fx",
        "/upper",
        "/UPPER",
        "/a+b",
        "/c/x/d/",
        "/c/x./D",
        "/dot.",
        "/DOT./",
        "/q?x=2&user.name=root",
        "/q?x[]=2;user_name=ROOT",
        "/r?x=2",
        "/r?y=1&x=2",
        "/r?y=1;x=2",
        "/r?x[]=2",
        "/r?x%5B%5D=2",
        "/r?X=2",
        "/r?x=1&x=2",
        "/r?x=+2+",
        "/r?a=b&amp;x=2",
        "/r?%20x=2",
        "/R/?x=2",
        "/r?x[a]=2",
    };

    for (size_t i = 0; i < COUNT_OF(denied); i++)
        check_rows(yaml, &(struct row){ "GET", denied[i], BY }, 1);
}

TEST(denies_leave_the_rest_alone)
{
    static const char yaml[] =
        HEAD "    - host: api.example.com\n      port: 80\n      protocol: rest\n"
             "      access: full\n      deny_rules:\n"
             "      - {path: /admin}\n      - {path: '/secrets/**'}\n"
             "      - {path: /r, query: {x: '2'}}\n";
    static const struct row rows[] = {
        { "GET", "/", "allowed" },           { "GET", "/administrator", "allowed" },
        { "GET", "/admin/x", "allowed" },    { "GET", "/x/admin", "allowed" },
        { "GET", "/secret", "allowed" },     { "GET", "/secretss/x", "allowed" },
        { "GET", "/r?x=3", "allowed" },      { "GET", "/r?xx=2", "allowed" },
        { "GET", "/r?y=x=2", "allowed" },    { "GET", "/r", "allowed" },
        { "GET", "/admin.json", "allowed" }, { "POST", "/items;id=5//x/.", "allowed" },
    };

    check_rows(yaml, rows, COUNT_OF(rows));
}

/* A path, or a query, that servers read differently passes if it may in every reading. */
TEST(every_reading_has_to_be_allowed)
{
    static const char yaml[] =
        HEAD "    - host: api.example.com\n      port: 80\n      protocol: rest\n      rules:\n"
             "      - {allow: {method: GET, path: /items}}\n"
             "      - {allow: {method: GET, path: '/public/**'}}\n"
             "      - {allow: {method: GET, path: /p, query: {page: '1*'}}}\n";
    static const struct row rows[] = {
        { "GET", "/items", "allowed" },
        { "GET", "/items;id=5", NO },
        { "GET", "/items/", NO },
        { "GET", "/Items", NO },
        { "GET", "//items", NO },
        { "GET", "/public/a;v=1", "allowed" },
        { "GET", "/public//a", "allowed" },
        { "GET", "/public/./a", "allowed" },
        { "GET", "/public/../a", NO },
        { "GET", "/public/..;x/a", NO },
        { "GET", "/public/../../a", "denied path_invalid" },
        { "GET", "/p?page=1", "allowed" },
        { "GET", "/p?page=12;x=y", "allowed" },
        { "GET", "/p?page=1;page=2", NO },
        { "GET", "/p?page=1&page[]=2", NO },
        { "GET", "/p?page=1&Page=2", NO },
        { "GET", "/p?Page=1", NO },
    };

    check_rows(yaml, rows, COUNT_OF(rows));
}

TEST(a_query_cannot_name_another_method)
{
    static const char yaml[] =
        HEAD "    - {host: api.example.com, port: 80, protocol: rest, access: full}\n";
    static const char *const rows[] = { "/?_method=PUT",     "/?a=1;_method=PUT", "/?%5Fmethod=PUT",
                                        "/?a&_METHOD=PUT",   "/?_method[]=PUT",   "/?.method=PUT",
                                        "/?+_method=DELETE", "/?_method" };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_rows(yaml, &(struct row){ "POST", rows[i], "denied method_override_denied" }, 1);
    check_rows(yaml, &(struct row){ "POST", "/?method=PUT&a_method=x", "allowed" }, 1);
}

TEST(rules_of_all_endpoints_that_apply_add_up)
{
    static const char yaml[] =
        HEAD "    - {host: api.example.com, port: 80, protocol: rest, access: read-only}\n"
             "    - {host: '*.example.com', port: 80, protocol: rest, rules: [{allow: {method: "
             "POST, path: /new}}], deny_rules: [{path: '/secret/**'}]}\n"
             "    - {host: api.example.com, port: 80, protocol: rest, access: full, binaries: "
             "[/usr/bin/git]}\n";
    static const struct row rows[] = {
        { "GET", "/x", "allowed" }, { "POST", "/new", "allowed" }, { "POST", "/x", NO },
        { "GET", "/secret/x", BY }, { "DELETE", "/x", NO },
    };

    check_rows(yaml, rows, COUNT_OF(rows));
}

TEST(the_path_of_an_endpoint)
{
    static const char yaml[] =
        HEAD "    - {host: api.example.com, port: 80, protocol: rest, access: read-only, path: "
             "'/api/**'}\n"
             "    - {host: api.example.com, port: 80, protocol: rest, access: full, path: "
             "'/api/trial/**', enforcement: audit, deny_rules: [{method: DELETE}]}\n";
    static const struct row rows[] = {
        { "GET", "/api", "allowed" },
        { "POST", "/api/x", NO },
        { "GET", "/apis", NO },
        { "GET", "/", NO },
        { "POST", "/api/trial/x", "allowed" },
        { "DELETE", "/api/trial/x", "audited request_denied_by_rule" },
        { "GET", "/api/trial/x?%zz", BROKEN },
    };

    check_rows(yaml, rows, COUNT_OF(rows));
}

TEST(audit_has_to_be_said)
{
    static const char audit[] = HEAD "    - {host: api.example.com, port: 80, protocol: rest, "
                                     "access: read-only, enforcement: audit}\n";
    static const char usual[] = HEAD "    - {host: api.example.com, port: 80, protocol: rest, "
                                     "access: read-only}\n";
    static const struct row row = { "POST", "/", "audited request_denied" };
    static const struct row strict = { "POST", "/", NO };

    check_rows(audit, &row, 1);
    check_rows(usual, &strict, 1);
}

TEST(encoded_slashes_belong_to_their_endpoint)
{
    static const char yaml[] =
        HEAD "    - {host: api.example.com, port: 80, protocol: rest, access: full}\n"
             "    - {host: api.example.com, port: 80, protocol: rest, access: full, path: "
             "'/npm/**', allow_encoded_slash: true}\n";
    static const struct row rows[] = {
        { "GET", "/npm/@a%2fb", "allowed" },
        { "GET", "/x/@a%2fb", BROKEN },
    };

    check_rows(yaml, rows, COUNT_OF(rows));
}

TEST(requests_are_not_judged_where_they_are_not_inspected)
{
    static const char yaml[] = HEAD "    - {host: api.example.com, port: 80}\n";
    static const struct row row = { "get", "/a/%zz?_method=PUT", "allowed" };

    check_rows(yaml, &row, 1);
}

TEST(reasons_name_the_rule_and_not_the_query)
{
    const struct egress_snapshot *s =
        policy_compiled(HEAD "    - {host: api.example.com, port: 80, protocol: rest, access: "
                             "full, deny_rules: [{method: PUT}, {path: /x}]}\n");
    const struct egress_action hidden = {
        EGRESS_ACTION_HTTP,
        { { .method = STR("GET"), .path = STR("/x"), .query = STR("token=hidden") } }
    };
    const struct egress_action odd = { EGRESS_ACTION_HTTP,
                                       { { .method = STR("G\nET"), .path = STR("/\x1b[31m") } } };
    struct egress_connect_query ask = ask_for("api.example.com:80", NULL);
    struct egress_match m;
    struct egress_reason why;

    CHECK_INT(egress_connect(s, &ask, &m, &why), EGRESS_ALLOWED);
    CHECK_INT(egress_judge(&m, &hidden, &why), EGRESS_DENIED);
    CHECK_STR(why.rule, "network_policies.web.endpoints[0].deny_rules[1]");
    CHECK_STR(str_from(why.text), "GET /x is denied by a rule of 'web'.");
    CHECK(!strstr(why.text, "hidden") && !strstr(why.next, "hidden"));
    CHECK_INT(egress_judge(&m, &odd, &why), EGRESS_DENIED);
    CHECK(!strchr(why.text, '\n') && !strchr(why.text, '\x1b'));
}

/* Rules hang where the parts of their path end, so those of other paths are not looked at: with a
 * thousand of them the answers are the same. */
TEST(many_rules)
{
    struct buf text = BUF_INIT(1 << 20);
    const struct egress_snapshot *s;

    CHECK(buf_addf(&text, HEAD "    - host: api.example.com\n      port: 80\n      protocol: rest\n"
                               "      rules:\n") == 0);
    for (int i = 0; i < EGRESS_RULES_MAX; i++)
        CHECK(buf_addf(&text, "      - {allow: {method: GET, path: '/p%d/*/x'}}\n", i) == 0);
    s = policy_compiled(text.p);
    CHECK_STR(str_from(request_text(s, "api.example.com:80", "GET", "/p255/a/x")), "allowed");
    CHECK_STR(str_from(request_text(s, "api.example.com:80", "GET", "/p256/a/x")), NO);
    CHECK_STR(str_from(request_text(s, "api.example.com:80", "GET", "/p25/a/y")), NO);
    buf_done(&text);
}
