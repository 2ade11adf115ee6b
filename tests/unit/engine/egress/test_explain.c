/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/explain.h"

#include "base/own.h"
#include "harness/tap.h"
#include "lib/json/reader.h"
#include "domain/policy/egress_file.h"

static struct err e;
static struct buf out = BUF_INIT(1 << 20);

#define POLICY                                                                                     \
    "version: 1\nnetwork_policies:\n  web:\n    name: the web\n    endpoints:\n"                   \
    "    - {host: api.example.com, ports: [443, 80]}\n"                                            \
    "    - {host: rest.example.com, port: 80, protocol: rest, access: read-only, name: files}\n"   \
    "    - {port: 22, allowed_ips: [8.8.8.8]}\n"                                                   \
    "    binaries: [{path: /usr/bin/curl}]\n"                                                      \
    "  any:\n    endpoints: [{host: any.example.com, port: 443, binaries: [/bin/x]}, "             \
    "{host: 10.9.9.9, port: 443, allowed_ips: [10.9.9.9]}]\n    binaries: [{path: /**}]\n"

static const char *check(struct str yaml)
{
    buf_clear(&out);
    CHECK_OK(explain_check(yaml, &out, &e), e);
    buf_add(&out, (struct str){ "", 1 });
    return out.p;
}

static void check_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        FAIL("%s\ndoes not have %s", text, part);
}

TEST(a_good_policy_is_told_endpoint_by_endpoint)
{
    const char *said = check(STR(POLICY));

    check_has(said, "{\"valid\":true,\"endpoints\":[");
    check_has(said, "{\"policy\":\"the web\",\"host\":\"api.example.com\",\"ports\":[80,443],"
                    "\"protocol\":\"tcp\",\"enforcement\":\"enforce\","
                    "\"binaries\":[\"/usr/bin/curl\"],\"rules\":0}");
    check_has(said, "\"name\":\"files\",\"host\":\"rest.example.com\",\"ports\":[80],"
                    "\"protocol\":\"rest\",\"access\":\"read-only\"");
    check_has(said, "\"host\":\"*\",\"ports\":[22]");
    check_has(said, "\"allowed_ips\":[\"8.8.8.8\"]");
    check_has(said, "\"binaries\":[\"/bin/x\"]");
}

TEST(a_bad_policy_is_told_with_its_problem)
{
    check_has(check(STR("version: 1\nwhat: 2\n")), "{\"valid\":false,\"problem\":\"line 2: what");
    check_has(check(STR("")), "{\"valid\":false,\"problem\":\"");
    check_has(check(STR("\0")), "{\"valid\":false,\"problem\":\"");
    check_has(check(STR("version: 1\n\"\xff\xfe\": 2\n")), "{\"valid\":false,\"problem\":\"");
}

/* The output is one valid JSON document for every policy. */
TEST(notes_and_odd_texts_are_json)
{
    const char *said = check(STR("version: 1\nnetwork_policies:\n  \"a\\\"\\nb\":\n    endpoints: "
                                 "[{host: a.example, port: 1, allowed_ips: [10.0.0.0/8]}]\n"
                                 "    binaries: [{path: /**}]\n"));
    AUTO(arena_done) struct arena arena = ARENA_INIT(1 << 20);
    struct json_limits limits = { .bytes = 1 << 20, .depth = 8 };
    const struct json *v;

    CHECK_OK(json_read(str_from(said), limits, &arena, &v, &e), e);
    if (strstr(said, "\"valid\":true"))
        check_has(said, "\"notes\":[");
}

static int explain(const char *yaml, const char *to, const char *method, const char *path,
                   const char *binary)
{
    struct egress_options o = { .to = to, .method = method, .path = path, .binary = binary };
    int r;

    buf_clear(&out);
    r = explain_destination(str_from(yaml), &o, &out, &e);
    if (r >= 0)
        buf_add(&out, (struct str){ "", 1 });
    return r;
}

static void explained(const char *to, const char *method, const char *path, const char *binary,
                      const char *code)
{
    char want[64];

    CHECK_OK(explain(POLICY, to, method, path, binary), e);
    snprintf(want, sizeof want, "\"code\":\"%s\"", code);
    check_has(out.p, want);
}

TEST(a_question_is_answered)
{
    static const char curl[] = "/usr/bin/curl";

    explained("api.example.com", NULL, NULL, curl, "allowed"); /* 443 if none is said */
    explained("API.example.com.:80", NULL, NULL, curl, "allowed");
    explained("api.example.com:81", NULL, NULL, curl, "port_not_allowed");
    explained("api.example.com", NULL, NULL, "/bin/x", "binary_not_allowed");
    explained("api.example.com", NULL, NULL, NULL, "identity_unknown");
    explained("evil.example", NULL, NULL, curl, "policy_denied");
    explained("10.9.9.9", NULL, NULL, curl, "allowed");
    explained("169.254.169.254:80", NULL, NULL, curl, "metadata_denied");
    explained("rest.example.com:80", NULL, "/x?a=b", curl, "allowed"); /* GET */
    explained("rest.example.com:80", "PUT", NULL, curl, "request_denied");
}

/* Like a relay: invalid requests are refused where requests are judged. */
TEST(odd_requests_are_judged_like_others)
{
    static const char *const paths[] = { "x", "/../..", "/%", "/\\", "/a#b" };
    static const char curl[] = "/usr/bin/curl";

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        explained("rest.example.com:80", NULL, paths[i], curl, "path_invalid");
        explained("api.example.com:80", NULL, paths[i], curl, "allowed");
    }
    explained("rest.example.com:80", "get", NULL, curl, "method_denied");
    explained("api.example.com:80", "get", NULL, curl, "allowed");
    explained("rest.example.com:80", NULL, "/?a=1;_method=PUT", curl, "method_override_denied");
    explained("rest.example.com:80", NULL, "/?a=%zz", curl, "request_malformed");
    explained("api.example.com:6443", NULL, NULL, curl, "control_plane_port");
}

TEST(an_answer_says_what_it_leaves_open)
{
    explained("rest.example.com:80", NULL, NULL, "/usr/bin/curl", "allowed");
    check_has(out.p,
              "\"unknown\":\"the addresses of the name are not looked up; each request is judged, "
              "and none was given\"");
    explained("rest.example.com:80", NULL, "/", "/usr/bin/curl", "allowed");
    check_has(out.p, "\"unknown\":\"the addresses of the name are not looked up\"");
    explained("api.example.com", NULL, NULL, NULL, "identity_unknown");
    check_has(out.p, "\"unknown\":\"the answer depends on the program: give it\"");
    explained("10.9.9.9", NULL, NULL, "/usr/bin/curl", "allowed");
    CHECK(!strstr(out.p, "unknown"));
}

TEST(a_question_that_is_none)
{
    static const struct {
        const char *to, *path, *words;
    } bad[] = {
        { "", NULL, "--to" },        { "a b", NULL, "--to" }, { "a:0", NULL, "--to" },
        { "a:65536", NULL, "--to" }, { "[a]", NULL, "--to" }, { "0x7f.1", NULL, "--to" },
        { "a\nb", NULL, "--to" },    { "a@b", NULL, "--to" },
    };

    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK(explain(POLICY, bad[i].to, NULL, bad[i].path, NULL) < 0);
        check_has(e.msg, bad[i].words);
    }
    CHECK_INT(explain("version: 3\n", "a", NULL, NULL, NULL), -ERR_INVALID);
    CHECK_INT(explain("", "a", NULL, NULL, NULL), -ERR_INVALID);
}
