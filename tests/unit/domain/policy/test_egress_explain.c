/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/policy/egress_explain.h"

#include "base/own.h"
#include "harness/tap.h"
#include "unit/domain/policy/policies.h"

static const char policy[] = "version: 1\nnetwork_policies:\n  web:\n    binaries: [{path: /**}]\n"
                             "    endpoints: [{host: api.example.com, port: 80, protocol: rest, "
                             "access: read-only}]\n";

static void explain(const char *destination, const char *method, const char *address,
                    struct egress_explanation *ret)
{
    struct egress_explain_input trial = {
        .query = ask_for(destination, NULL),
        .action = { method ? EGRESS_ACTION_HTTP : EGRESS_ACTION_NONE,
                    { { .method = str_from(method), .path = STR("/x") } } }
    };
    struct address a;

    if (address) {
        CHECK(address_parse(str_from(address), &a));
        trial.addresses = &a;
        trial.n_addresses = 1;
    }
    egress_explain(policy_compiled(policy), &trial, ret);
}

TEST(the_first_stage_that_denies_is_told)
{
    struct egress_explanation x;

    explain("api.example.com:443", "GET", NULL, &x);
    CHECK(x.verdict == EGRESS_DENIED && x.stage == EGRESS_STAGE_CONNECT && !x.request_judged);
    explain("api.example.com:80", "GET", "10.0.0.1", &x);
    CHECK(x.verdict == EGRESS_DENIED && x.stage == EGRESS_STAGE_ADDRESSES && !x.request_judged);
    explain("api.example.com:80", "POST", "93.184.216.34", &x);
    CHECK(x.verdict == EGRESS_DENIED && x.stage == EGRESS_STAGE_REQUEST && x.request_judged);
    explain("api.example.com:80", "GET", "93.184.216.34", &x);
    CHECK(x.verdict == EGRESS_ALLOWED && x.stage == EGRESS_STAGE_REQUEST);
    explain("api.example.com:80", NULL, NULL, &x);
    CHECK(x.verdict == EGRESS_ALLOWED && x.stage == EGRESS_STAGE_CONNECT);
}

static void check_json(const struct egress_explanation *x, const char *want)
{
    AUTO(buf_done) struct buf out = BUF_INIT(1 << 12);
    struct json_writer w;
    struct err e;

    json_writer_init(&w, &out, JSON_COMPACT);
    egress_explain_json(x, &w);
    CHECK_OK(json_writer_finish(&w, &e), e);
    CHECK_STR(buf_str(&out), want);
}

TEST(as_json)
{
    struct egress_explanation x;

    explain("api.example.com:80", "POST", NULL, &x);
    check_json(&x, "{\"verdict\":\"denied\",\"stage\":\"request\",\"code\":\"request_denied\","
                   "\"reason\":\"POST /x is not allowed by any rule.\","
                   "\"rule\":\"network_policies.web.endpoints[0]\",\"policy\":\"web\","
                   "\"protocol\":\"rest\",\"tls\":\"auto\",\"next\":\"Use a method and path that a "
                   "rule allows, or add a rule for this one.\",\"generation\":7}");
    explain("x.example.com:443", NULL, NULL, &x);
    check_json(
        &x, "{\"verdict\":\"denied\",\"stage\":\"connect\",\"code\":\"policy_denied\",\"reason\":"
            "\"x.example.com:443 is not allowed by any policy.\",\"next\":\"Add an endpoint with "
            "this host and port to the policy, or use another destination.\",\"generation\":7}");
}
