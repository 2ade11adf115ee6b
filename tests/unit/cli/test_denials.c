/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/denials.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

static void check_text(const struct denials *d, const char *want)
{
    AUTO(buf_done) struct buf text = BUF_INIT(4096);

    CHECK(denials_text(d, &text) >= 0);
    CHECK_STR(buf_str(&text), want);
}

#define DENY(host, port, code)                                                                     \
    "{\"action_id\":2,\"status_code\":\"" code "\",\"dst_endpoint\":{\"hostname\":\"" host         \
    "\",\"port\":" port "}}"

TEST(nothing_refused_is_nothing_said)
{
    struct denials d = { 0 };

    denials_add(&d, STR("{\"action_id\":1,\"dst_endpoint\":{\"hostname\":\"a\",\"port\":1}}"));
    denials_add(&d, STR("no event"));
    denials_add(&d, STR("[]"));
    denials_add(&d, STR("{}"));
    check_text(&d, "");
}

TEST(one_refusal_and_what_would_allow_it)
{
    struct denials d = { 0 };

    denials_add(&d, STR(DENY("evil.example", "443", "policy_denied")));
    check_text(&d, "1 connection refused: evil.example:443 (policy_denied); --allow "
                   "evil.example:443 would allow it");
}

TEST(what_is_not_public_is_allowed_with_its_address)
{
    struct denials d = { 0 }, loopback = { 0 };

    denials_add(&d, STR(DENY("mirror.corp", "443", "ssrf_denied")));
    check_text(&d, "1 connection refused: mirror.corp:443 (ssrf_denied); --allow "
                   "mirror.corp:443=ADDRESS would allow it");
    denials_add(&loopback, STR(DENY("host.sandboxer.internal", "0", "policy_denied")));
    check_text(&loopback, "1 connection refused: host.sandboxer.internal (policy_denied); --allow "
                          "host.sandboxer.internal:PORT would allow it");
}

TEST(the_same_is_counted)
{
    struct denials d = { 0 };

    denials_add(&d, STR(DENY("evil.example", "443", "ssrf_denied")));
    denials_add(&d, STR(DENY("evil.example", "443", "ssrf_denied")));
    denials_add(&d, STR("{\"action_id\":2,\"count\":5,\"status_code\":\"policy_denied\","
                        "\"dst_endpoint\":{\"ip\":\"2001:db8::1\",\"port\":80}}"));
    check_text(&d, "7 connections refused: evil.example:443 (ssrf_denied), [2001:db8::1]:80 "
                   "(policy_denied); --allow [2001:db8::1]:80 would allow that");
}

TEST(a_flood_stays_one_line)
{
    struct denials d = { 0 };
    char line[256];

    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof line, DENY("h%d.example", "1", "x"), i);
        denials_add(&d, str_from(line));
    }
    CHECK(d.n == DENIALS_MAX && d.total == 1000);
    check_text(&d, "1000 connections refused: h0.example:1 (x), h1.example:1 (x), h2.example:1 "
                   "(x), h3.example:1 (x), …");
}

TEST(numbers_that_lie)
{
    struct denials d = { 0 };

    denials_add(&d, STR("{\"action_id\":2,\"count\":-3,\"dst_endpoint\":{\"hostname\":\"a\","
                        "\"port\":99999}}"));
    denials_add(&d, STR("{\"action_id\":2,\"count\":\"x\",\"dst_endpoint\":7}"));
    check_text(&d, "2 connections refused: a, an unreadable destination");
}

TEST(the_record_is_read_from_where_it_was)
{
    static const char old[] = DENY("old.example", "1", "x") "\n";
    static const char new[] = DENY("new.example", "2", "x") "\n{\"torn";
    AUTO_CLOSE int fd = memfd_create("record", MFD_CLOEXEC);
    struct denials d = { .at = sizeof old - 1 };

    CHECK(write(fd, old, sizeof old - 1) > 0 && write(fd, new, sizeof new - 1) > 0);
    denials_read(&d, fd);
    check_text(&d, "1 connection refused: new.example:2 (x)");
}
