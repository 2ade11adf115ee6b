/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/learn/record.h"

#include <stdio.h>

#include "harness/tap.h"

static struct learn_record r;

static bool read_line(const char *line)
{
    return learn_record_read(str_from(line), &r);
}

TEST(an_open_is_a_destination)
{
    CHECK(read_line(
        "{\"class_uid\":4001,\"activity_id\":1,\"status_code\":\"allowed\","
        "\"dst_endpoint\":{\"hostname\":\"a.example.com\",\"ip\":\"8.8.8.8\",\"port\":443},"
        "\"actor\":{\"process\":{\"pid\":1,\"file\":{\"path\":\"/usr/bin/curl\"}}},"
        "\"unmapped\":{\"adapter\":\"connect\"}}"));
    CHECK_INT(r.kind, LEARN_OPENED);
    CHECK_STR(str_from(r.host.name), "a.example.com");
    CHECK_INT(r.port, 443);
    CHECK(r.has_at && r.at.bytes[0] == 8);
    CHECK_STR(str_from(r.program), "/usr/bin/curl");
    CHECK_INT(r.count, 1);
}

TEST(an_open_to_an_address_has_no_name)
{
    CHECK(read_line("{\"class_uid\":4001,\"activity_id\":1,"
                    "\"dst_endpoint\":{\"ip\":\"2001:db8::1\",\"port\":22}}"));
    CHECK(r.host.is_address && r.host.address.v6 && !r.has_at);
    CHECK_STR(str_from(r.host.name), "2001:db8::1");
}

TEST(lookups_are_no_connections)
{
    CHECK(read_line(
        "{\"class_uid\":4001,\"activity_id\":1,\"dst_endpoint\":{\"hostname\":\"a.example\"},"
        "\"unmapped\":{\"adapter\":\"dns\"}}"));
    CHECK_INT(r.kind, LEARN_ASKED);
    CHECK(
        read_line("{\"class_uid\":4003,\"activity_id\":1,\"query\":{\"hostname\":\"a.example\"}}"));
    CHECK_INT(r.kind, LEARN_ASKED);
}

TEST(refusals_have_a_code_and_a_count)
{
    CHECK(read_line("{\"class_uid\":4001,\"activity_id\":5,\"action_id\":2,\"count\":7,"
                    "\"status_code\":\"boundary_rejected\","
                    "\"dst_endpoint\":{\"ip\":\"8.8.8.8\",\"port\":123},"
                    "\"connection_info\":{\"protocol_name\":\"udp\"}}"));
    CHECK_INT(r.kind, LEARN_REFUSED);
    CHECK_INT(r.count, 7);
    CHECK_STR(str_from(r.code), "boundary_rejected");
    CHECK_STR(str_from(r.protocol), "udp");
    CHECK(read_line("{\"class_uid\":4002,\"activity_id\":3,\"action_id\":3,"
                    "\"dst_endpoint\":{\"hostname\":\"a.example\",\"port\":80}}"));
    CHECK_INT(r.kind, LEARN_ONLY_RECORDED);
}

TEST(a_refusal_may_have_no_destination)
{
    CHECK(read_line("{\"class_uid\":4001,\"activity_id\":5,\"action_id\":2,\"count\":3,"
                    "\"status_code\":\"connection_limit\"}"));
    CHECK_INT(r.kind, LEARN_UNKNOWN);
    CHECK_INT(r.count, 3);
}

TEST(ends_and_policies_are_passed_over)
{
    CHECK(read_line("{\"class_uid\":4001,\"activity_id\":2}") && r.kind == LEARN_OTHER);
    CHECK(read_line("{\"class_uid\":5019,\"activity_id\":1}") && r.kind == LEARN_OTHER);
}

TEST(what_no_policy_can_name_is_not_read)
{
    static const char *const hosts[] = { "*.example.com", "a b",  "A.example.com\\n",
                                         "true.1x",       "a..b", "" };
    char line[256];

    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        snprintf(line, sizeof line,
                 "{\"class_uid\":4001,\"activity_id\":1,"
                 "\"dst_endpoint\":{\"hostname\":\"%s\",\"port\":443}}",
                 hosts[i]);
        if (read_line(line))
            FAIL("'%s' was read as '%s'", hosts[i], r.host.name);
    }
    CHECK(!read_line("[]") && !read_line("{") && !read_line("1"));
    CHECK(
        !read_line("{\"class_uid\":4001,\"activity_id\":1,\"dst_endpoint\":{\"ip\":\"8.8.8.8\"}}"));
    CHECK(!read_line("{\"class_uid\":4001,\"activity_id\":1,"
                     "\"dst_endpoint\":{\"ip\":\"8.8.8.8\",\"port\":65536}}"));
}

TEST(a_program_that_is_a_glob_is_odd)
{
    CHECK(read_line("{\"class_uid\":4001,\"activity_id\":1,"
                    "\"dst_endpoint\":{\"ip\":\"8.8.8.8\",\"port\":443},"
                    "\"actor\":{\"process\":{\"file\":{\"path\":\"/tmp/*\"}}}}"));
    CHECK(r.odd_program && !r.program[0]);
}
