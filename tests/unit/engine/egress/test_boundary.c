/* SPDX-License-Identifier: Apache-2.0 */
/* The adapters behind the real boundary: a network namespace with the sandbox's rules and
 * sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/egress/adapters/rejects.h"
#include "engine/egress/fake_addresses.h"
#include "harness/tap.h"
#include "engine/runtime/network.h"
#include "engine/runtime/rules.h"
#include "unit/engine/egress/names_world.h"

static const char policy[] = "version: 1\n"
                             "network_policies:\n"
                             "  web:\n"
                             "    endpoints:\n"
                             "      - {host: api.example.com, port: 443}\n"
                             "    binaries:\n"
                             "      - {path: /**}\n";

static struct rejects *rejects;
static struct err e;

static void set_up(void)
{
    AUTO_CLOSE int net = -1;
    struct listeners l;

    if (network_make(-1, &net, &e) < 0)
        SKIP("no network namespace: %s", e.msg);
    CHECK_OK(network_route(&e), e);
    if (rules_load(NULL, &e) < 0)
        SKIP("no packet rules: %s", e.msg);
    CHECK_OK(listen_open(&l, &e), e);
    world_start_on(&l, policy, NULL);
    CHECK_OK(rejects_new(&world.box, &rejects, &e), e);
}

static void tear_down(void)
{
    rejects_free(rejects);
    world_stop();
}

static void send_to(int family, int type, int protocol, const char *to, uint16_t port)
{
    AUTO_CLOSE int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    char packet[16] = { family == AF_INET ? ICMP_ECHO : (char)ICMP6_ECHO_REQUEST };

    CHECK(fd >= 0);
    if (family == AF_INET) {
        CHECK(inet_pton(AF_INET, to, &four.sin_addr) == 1);
        CHECK(sendto(fd, packet, sizeof packet, 0, (struct sockaddr *)&four, sizeof four) < 0);
    } else {
        CHECK(inet_pton(AF_INET6, to, &six.sin6_addr) == 1);
        CHECK(sendto(fd, packet, sizeof packet, 0, (struct sockaddr *)&six, sizeof six) < 0);
    }
    CHECK_INT(errno, EPERM); /* at once */
}

static const struct json *find_reject(int protocol, const char *to)
{
    for (size_t i = 0; i < world.records.n; i++) {
        const struct json *line = world.records.line[i];

        if (record_int(line, "connection_info.protocol_num") == protocol &&
            strcmp(record_text(line, "dst_endpoint.ip"), to) == 0)
            return line;
    }
    FAIL("no record of protocol %d to %s", protocol, to);
}

TEST(what_the_rules_refuse_is_on_record)
{
    set_up();
    send_to(AF_INET, SOCK_DGRAM, 0, "93.184.216.34", 123);
    send_to(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE, "93.184.216.35", 53);
    send_to(AF_INET, SOCK_RAW, IPPROTO_ICMP, "93.184.216.36", 0);
    send_to(AF_INET, SOCK_RAW, 99, "93.184.216.37", 0);
    if (network_has_ipv6()) {
        send_to(AF_INET6, SOCK_DGRAM, 0, "2606:2800::1", 443);
        send_to(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6, "2606:2800::2", 0);
    }
    world_run(200 * NS_PER_MS);
    records_read(&world.records);
    CHECK_INT(record_int(find_reject(IPPROTO_UDP, "93.184.216.34"), "dst_endpoint.port"), 123);
    CHECK_INT(record_int(find_reject(IPPROTO_UDPLITE, "93.184.216.35"), "dst_endpoint.port"), 53);
    find_reject(IPPROTO_ICMP, "93.184.216.36");
    find_reject(99, "93.184.216.37");
    if (network_has_ipv6()) {
        CHECK_INT(record_int(find_reject(IPPROTO_UDP, "2606:2800::1"), "dst_endpoint.port"), 443);
        find_reject(IPPROTO_ICMPV6, "2606:2800::2");
    }
    CHECK_STR(str_from(record_text(find_reject(IPPROTO_UDP, "93.184.216.34"), "status_code")),
              "boundary_rejected");
    CHECK(world.box.counters.denied >= 4);
    tear_down();
}

/* The worker answers in the place of every server that a program has configured, in both
 * families. */
static void check_asked_at(int family, const char *server)
{
    AUTO_CLOSE int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(53) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(53) };
    struct reply r;

    CHECK(fd >= 0);
    if (family == AF_INET) {
        CHECK(inet_pton(AF_INET, server, &four.sin_addr) == 1);
        CHECK(connect(fd, (struct sockaddr *)&four, sizeof four) == 0);
    } else {
        CHECK(inet_pton(AF_INET6, server, &six.sin6_addr) == 1);
        CHECK(connect(fd, (struct sockaddr *)&six, sizeof six) == 0);
    }
    r = ask_with(fd, "api.example.com", DNS_A);
    CHECK(r.answers == 1 && fake_addresses_is_synthetic(&r.address));
    CHECK_INT(ask_with(fd, "nobody.example.net", DNS_A).rcode, DNS_NXDOMAIN);
}

TEST(every_dns_server_is_ours)
{
    set_up();
    check_asked_at(AF_INET, "127.0.0.1");
    check_asked_at(AF_INET, "8.8.8.8");
    check_asked_at(AF_INET, "192.168.1.1");
    if (network_has_ipv6()) {
        check_asked_at(AF_INET6, "::1");
        check_asked_at(AF_INET6, "2001:4860:4860::8888");
    }
    CHECK_INT(world.server.asked, 2);
    tear_down();
}
