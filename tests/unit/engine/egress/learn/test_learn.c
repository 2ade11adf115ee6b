/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/learn.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "engine/egress/learn/proof.h"
#include "harness/tap.h"
#include "lib/json/reader.h"

static struct err e;
static struct buf in = BUF_INIT(64 << 20), out = BUF_INIT(64 << 20);
static struct arena arena = ARENA_INIT(256 << 20);
static const struct json *answer;

#define PUBLIC_IP "93.184.216.34"

static void ask_learner(const char *question)
{
    buf_clear(&in);
    buf_addf(&in, "%s\n", question);
}

static void log_open(const char *host, const char *ip, unsigned port, const char *program)
{
    buf_addf(&in, "{\"class_uid\":4001,\"activity_id\":1,\"dst_endpoint\":{");
    if (host)
        buf_addf(&in, "\"hostname\":\"%s\",", host);
    buf_addf(&in, "\"ip\":\"%s\",\"port\":%u}", ip, port);
    if (program)
        buf_addf(&in, ",\"actor\":{\"process\":{\"file\":{\"path\":\"%s\"}}}", program);
    buf_addf(&in, ",\"unmapped\":{\"adapter\":\"connect\"}}\n");
}

static void log_refusal(const char *host, unsigned port, const char *code)
{
    buf_addf(&in,
             "{\"class_uid\":4001,\"activity_id\":5,\"action_id\":2,\"status_code\":\"%s\","
             "\"dst_endpoint\":{\"hostname\":\"%s\",\"port\":%u}}\n",
             code, host, port);
}

static int try_learning(void)
{
    buf_clear(&out);
    return learn_text(buf_str(&in), &out, &e);
}

static void learn_log(void)
{
    const struct json_limits limits = { .bytes = 64 << 20, .depth = 8 };

    CHECK_OK(try_learning(), e);
    CHECK_OK(json_read(buf_str(&out), limits, &arena, &answer, &e), e);
}

static struct str answer_text(const char *key)
{
    const struct json *v = json_get(answer, str_from(key));

    CHECK(v && v->type == JSON_STR);
    return v->s;
}

static size_t answer_items(const char *key)
{
    const struct json *v = json_get(answer, str_from(key));

    CHECK(v && v->type == JSON_ARRAY);
    return v->list.n;
}

static bool is_answer_true(const char *key)
{
    const struct json *v = json_get(answer, str_from(key));

    return v && v->type == JSON_BOOL && v->b;
}

#define LEARNED(endpoints) "version: 1\nnetwork_policies:\n  learned:\n    endpoints:\n" endpoints

TEST(each_destination_gets_one_endpoint)
{
    ask_learner("{}");
    log_open("b.example.com", PUBLIC_IP, 443, NULL);
    log_open("a.example.com", PUBLIC_IP, 443, NULL);
    log_open("a.example.com", PUBLIC_IP, 443, NULL);
    log_open("a.example.com", PUBLIC_IP, 80, NULL);
    log_open(NULL, "8.8.8.8", 53, NULL);
    learn_log();
    CHECK_STR(answer_text("policy"), LEARNED("      - host: \"8.8.8.8\"\n        port: 53\n"
                                             "      - host: a.example.com\n        ports:\n"
                                             "          - 80\n          - 443\n"
                                             "      - host: b.example.com\n        port: 443\n"));
    CHECK(is_answer_true("complete") && is_answer_true("changed"));
    CHECK_INT(answer_items("added"), 4);
}

TEST(addresses_that_are_not_public_are_declared_exactly)
{
    ask_learner("{}");
    log_open("mirror.corp", "10.0.0.5", 443, NULL);
    log_open("localhost", "127.0.0.1", 8080, NULL);
    learn_log();
    CHECK_STR(answer_text("policy"),
              LEARNED("      - host: \"127.0.0.1\"\n        port: 8080\n        allowed_ips:\n"
                      "          - \"127.0.0.1\"\n"
                      "      - host: mirror.corp\n        port: 443\n        allowed_ips:\n"
                      "          - \"10.0.0.5\"\n"));
}

/* A policy with a mistake is not answered, whatever made it. */
TEST(a_proposal_that_decides_otherwise_is_refused)
{
    static const char *const texts[] = {
        "version: 1\n",
        "version: 1\nnetwork_policies: {a: {endpoints: [{host: b.example.com, port: 443}]}}\n",
        "version: 1\nunlisted: {access: public}\n", /* allows what is left out */
        "version: 2\n",
    };
    static const int results[] = { -ERR_BUG, -ERR_BUG, -ERR_BUG, -ERR_INVALID };
    AUTO(learn_log_done) struct learn_log log;
    AUTO(learn_proposal_done) struct learn_proposal p;
    struct learn_choices c = { 0 };
    struct str line;

    learn_log_init(&log);
    learn_proposal_init(&p, &log);
    buf_clear(&in);
    log_open("a.example.com", PUBLIC_IP, 443, NULL);
    log_open("0123456789abcdef0123456789abcdef.t.example", PUBLIC_IP, 443, NULL);
    for (struct str rest = buf_str(&in); rest.n;) {
        rest = str_cut(rest, '\n', &line);
        learn_log_add(&log, line);
    }
    CHECK_OK(learn_propose(&p, &c, &arena, &e), e);
    CHECK_OK(learn_prove(&p, &c, &e), e);
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        buf_clear(&p.text);
        buf_add(&p.text, str_from(texts[i]));
        CHECK_INT(learn_prove(&p, &c, &e), results[i]);
        CHECK(strstr(e.msg, "nothing is proposed"));
    }
}

TEST(nothing_learned_allows_nothing)
{
    ask_learner("{}");
    log_refusal("evil.example", 443, "policy_denied");
    learn_log();
    CHECK_STR(answer_text("policy"), "version: 1\nnetwork_policies: {}\n");
    CHECK_INT(answer_items("refused"), 1);
}

#define BASE                                                                                       \
    "version: 1\\nnetwork_policies:\\n  web:\\n    endpoints:\\n"                                  \
    "    - {host: a.example.com, port: 80, protocol: rest, access: read-only}\\n"                  \
    "    - {host: old.example.com, port: 443}\\n    binaries: [{path: /usr/bin/npm}]\\n"           \
    "unlisted: {access: public}\\n"

/* What the base restricts stays restricted: rules and programs are kept as they are written. */
TEST(used_endpoints_of_the_base_stay_and_others_go)
{
    ask_learner("{\"base\":\"" BASE "\"}");
    log_open("a.example.com", PUBLIC_IP, 80, "/usr/bin/node"); /* a child of npm */
    log_open("new.example.com", PUBLIC_IP, 443, NULL);
    learn_log();
    CHECK_STR(answer_text("policy"),
              "version: 1\nnetwork_policies:\n  web:\n    endpoints:\n      - host: a.example.com\n"
              "        port: 80\n        protocol: rest\n        access: read-only\n"
              "    binaries:\n      - path: /usr/bin/npm\n"
              "  learned:\n    endpoints:\n      - host: new.example.com\n        port: 443\n");
    CHECK(is_answer_true("dropped_unlisted"));
    CHECK_INT(answer_items("kept"), 1);
    CHECK_INT(answer_items("added"), 1);
}

/* As the daemon stores it. */
TEST(defaults_of_the_base_are_not_written)
{
    ask_learner(
        "{\"base\":\"{version: 1, network_policies: {a: {endpoints: [{host: a.example.com, ports: "
        "[443], tls: auto, allowed_ips: [], allow_encoded_slash: false}], spent: false}}, "
        "network_middlewares: {}, unlisted: {access: deny, allowed_ips: []}}\"}");
    log_open("a.example.com", PUBLIC_IP, 443, NULL);
    learn_log();
    CHECK_STR(answer_text("policy"),
              "version: 1\nnetwork_policies:\n  a:\n    endpoints:\n"
              "      - host: a.example.com\n        ports:\n          - 443\n");
    CHECK(!is_answer_true("changed"));
}

TEST(an_audited_run_reaches_what_is_public_and_what_the_base_grants)
{
    ask_learner("{\"audit\":true}");
    learn_log();
    CHECK_STR(answer_text("policy"), "{\"version\":1,\"unlisted\":{\"access\":\"public\"}}");
    ask_learner(
        "{\"audit\":true,\"base\":\"{version: 1, network_policies: {}, unlisted: {access: deny, "
        "allowed_ips: [10.0.0.5], denied_ips: [8.8.8.8]}}\"}");
    learn_log();
    CHECK_STR(answer_text("policy"),
              "{\"version\":1,\"network_policies\":{},\"unlisted\":{\"access\":\"public\","
              "\"allowed_ips\":[\"10.0.0.5\"],\"denied_ips\":[\"8.8.8.8\"]}}");
    ask_learner("{\"audit\":true,\"base\":\"version: 2\"}");
    CHECK(try_learning() == -ERR_INVALID);
}

TEST(unused_endpoints_can_be_kept)
{
    ask_learner("{\"keep\":true,\"base\":\"" BASE "\"}");
    log_open("new.example.com", PUBLIC_IP, 443, NULL);
    learn_log();
    CHECK(memmem(answer_text("policy").p, answer_text("policy").n, "old.example.com", 15));
}

TEST(a_second_run_changes_nothing)
{
    AUTO(buf_done) struct buf q = BUF_INIT(1 << 20);

    ask_learner("{}");
    log_open("a.example.com", PUBLIC_IP, 443, NULL);
    learn_log();
    buf_addf(&q, "{\"base\":\"");
    for (size_t i = 0; i < answer_text("policy").n; i++)
        buf_addf(&q, answer_text("policy").p[i] == '\n' ? "\\n" : "%c", answer_text("policy").p[i]);
    buf_addf(&q, "\"}");
    ask_learner(q.p);
    log_open("a.example.com", PUBLIC_IP, 443, NULL);
    learn_log();
    CHECK(!is_answer_true("changed"));
    ask_learner(q.p); /* what is new is added to the same entry */
    log_open("a.example.com", PUBLIC_IP, 443, NULL);
    log_open("b.example.com", PUBLIC_IP, 443, NULL);
    learn_log();
    CHECK_STR(answer_text("policy"), LEARNED("      - host: a.example.com\n        port: 443\n"
                                             "      - host: b.example.com\n        port: 443\n"));
}

TEST(a_base_that_is_not_valid_is_an_error)
{
    ask_learner("{\"base\":\"version: 2\"}");
    CHECK(try_learning() == -ERR_INVALID);
    ask_learner("{\"what\":1}");
    CHECK(try_learning() == -ERR_INVALID);
    buf_clear(&in);
    CHECK(try_learning() == -ERR_INVALID);
}

TEST(wildcards_come_only_when_they_are_asked_for)
{
    for (int asked = 0; asked < 2; asked++) {
        ask_learner(asked ? "{\"merge\":3}" : "{}");
        log_open("a.cdn.example.com", PUBLIC_IP, 443, NULL);
        log_open("b.cdn.example.com", PUBLIC_IP, 443, NULL);
        log_open("c.cdn.example.com", PUBLIC_IP, 443, NULL);
        log_open("d.cdn.example.com", PUBLIC_IP, 80, NULL);
        learn_log();
        CHECK(!asked == !memmem(answer_text("policy").p, answer_text("policy").n, "*.cdn", 5));
    }
    CHECK_STR(answer_text("policy"),
              LEARNED("      - host: \"*.cdn.example.com\"\n        port: 443\n"
                      "      - host: d.cdn.example.com\n        port: 80\n"));
}

TEST(no_wildcard_covers_a_name_that_is_left_out)
{
    ask_learner("{\"merge\":2}");
    log_open("a.t.example", PUBLIC_IP, 443, NULL);
    log_open("b.t.example", PUBLIC_IP, 443, NULL);
    log_open("0123456789abcdef0123456789abcdef.t.example", PUBLIC_IP, 443, NULL);
    learn_log();
    CHECK(!memmem(answer_text("policy").p, answer_text("policy").n, "*", 1));
    CHECK_INT(answer_items("left_out"), 1);
}

TEST(programs_are_named_where_that_is_asked_for)
{
    ask_learner("{\"programs\":true}");
    log_open("a.example.com", PUBLIC_IP, 443, "/usr/bin/curl");
    log_open("a.example.com", PUBLIC_IP, 443, "/usr/bin/git");
    log_open("b.example.com", PUBLIC_IP, 443, NULL);
    log_open("c.example.com", PUBLIC_IP, 443, "/tmp/*");
    learn_log();
    CHECK_STR(answer_text("policy"),
              LEARNED("      - host: a.example.com\n        port: 443\n        binaries:\n"
                      "          - /usr/bin/curl\n          - /usr/bin/git\n"));
    CHECK_INT(answer_items("left_out"), 2);
}

TEST(denied_destinations_are_proposed_where_that_is_asked_for)
{
    ask_learner("{\"denied\":true}");
    log_refusal("a.example.com", 443, "policy_denied");
    log_refusal("metadata.google.internal", 80, "metadata_denied");
    log_refusal("ceiling.example.com", 443, "ceiling_denied");
    log_refusal("localhost", 8080, "policy_denied");
    log_refusal("host.sandboxer.internal", 8080, "policy_denied");
    learn_log();
    CHECK_STR(answer_text("policy"), LEARNED("      - host: a.example.com\n        port: 443\n"));
    CHECK_INT(answer_items("refused"), 4);
}

TEST(a_flood_of_names_is_bounded_and_said)
{
    char host[64];

    ask_learner("{}");
    log_open("good.example.com", PUBLIC_IP, 443, NULL);
    for (int i = 0; i < 100000; i++) {
        snprintf(host, sizeof host, "n%d.flood.example", i);
        log_open(host, PUBLIC_IP, 443, NULL);
    }
    learn_log();
    CHECK_STR(answer_text("policy"),
              LEARNED("      - host: good.example.com\n        port: 443\n"));
    CHECK(!is_answer_true("complete"));
    CHECK_INT(answer_items("left_out"), LEARN_DESTINATIONS_MAX - 1);
}

TEST(names_that_no_policy_can_have_are_counted)
{
    ask_learner("{}");
    log_open("a.example.com\\\"]\\n  - host: evil.example", PUBLIC_IP, 443, NULL);
    buf_addf(&in, "%08200d\n", 0);
    learn_log();
    CHECK_STR(answer_text("policy"), "version: 1\nnetwork_policies: {}\n");
    CHECK(!is_answer_true("complete"));
    CHECK_INT(json_get(answer, STR("unreadable_lines"))->i, 2);
}
