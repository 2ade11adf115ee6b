/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "engine/egress/own_addresses.h"
#include "harness/tap.h"

static struct address parse(const char *text)
{
    struct address a;

    CHECK(address_parse(str_from(text), &a));
    return a;
}

static bool has(const struct own_addresses *o, const char *text)
{
    struct address a = parse(text);

    return own_addresses_has(o, &a);
}

/* In a namespace of our own, where we may change them. */
static void enter_empty_network(void)
{
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        SKIP("no network namespace");
    if (system("ip link set lo up") != 0)
        SKIP("no ip(8)");
}

static void run_for(struct loop *l, int64_t ns)
{
    for (int64_t until = clock_mono() + ns; clock_mono() < until;)
        loop_run_once(l, 5 * NS_PER_MS, NULL);
}

TEST(finds_the_addresses_and_follows_their_changes)
{
    struct own_addresses o = { 0 };
    struct loop l;
    struct err e;

    enter_empty_network();
    CHECK_OK(loop_init(&l, &e), e);
    CHECK_OK(own_addresses_start(&o, &l, &e), e);
    CHECK(!o.unknown);
    CHECK(has(&o, "127.0.0.1"));
    CHECK(has(&o, "::ffff:127.0.0.1"));
    CHECK(!has(&o, "93.184.216.34"));
    CHECK_INT(system("ip addr add 93.184.216.34/32 dev lo"), 0);
    run_for(&l, 200 * NS_PER_MS);
    CHECK(has(&o, "93.184.216.34"));
    CHECK(has(&o, "::ffff:93.184.216.34"));
    CHECK(!has(&o, "93.184.216.35"));
    CHECK_INT(system("ip addr del 93.184.216.34/32 dev lo"), 0);
    run_for(&l, 200 * NS_PER_MS);
    CHECK(!has(&o, "93.184.216.34"));
    own_addresses_done(&o);
    own_addresses_done(&o);
    CHECK(has(&o, "93.184.216.34")); /* unknown: every address counts as own */
    loop_done(&l);
}

TEST(finds_many_addresses)
{
    struct own_addresses o = { 0 };
    struct loop l;
    struct err e;

    enter_empty_network();
    CHECK_INT(
        system("for i in $(seq 1 250); do echo addr add 93.184.1.$i/32 dev lo; done | ip -batch -"),
        0);
    CHECK_OK(loop_init(&l, &e), e);
    CHECK_OK(own_addresses_start(&o, &l, &e), e);
    for (int i = 1; i <= 250; i++) {
        char text[32];

        snprintf(text, sizeof text, "93.184.1.%d", i);
        CHECK(has(&o, text));
    }
    CHECK(!has(&o, "93.184.1.251"));
    own_addresses_done(&o);
    loop_done(&l);
}

TEST(what_is_not_known_is_ours)
{
    struct own_addresses o = { .unknown = true };

    CHECK(has(&o, "93.184.216.34"));
    own_addresses_done(&(struct own_addresses){ 0 });
}

struct message {
    struct nlmsghdr head;
    struct ifaddrmsg body;
    char attributes[64];
};

static void put(struct message *m, uint16_t type, const char *address)
{
    struct address a = parse(address);
    uint16_t n = a.v6 ? 16 : 4;
    size_t at = m->head.nlmsg_len - offsetof(struct message, attributes);
    struct rtattr t = { .rta_len = (uint16_t)RTA_LENGTH(n), .rta_type = type };

    memcpy(m->attributes + at, &t, sizeof t);
    memcpy(m->attributes + at + RTA_LENGTH(0), a.bytes, n);
    m->head.nlmsg_len += RTA_ALIGN(t.rta_len);
}

static struct message make(unsigned char family)
{
    return (struct message){ .head = { .nlmsg_len = offsetof(struct message, attributes),
                                       .nlmsg_type = RTM_NEWADDR },
                             .body = { .ifa_family = family } };
}

TEST(reads_our_end_of_a_link_and_only_whole_messages)
{
    struct message m = make(AF_INET);
    struct address a, want = parse("192.0.2.1");

    CHECK(!own_addresses_read_(&m.head, &a));
    put(&m, IFA_ADDRESS, "192.0.2.2");
    put(&m, IFA_LOCAL, "192.0.2.1");
    CHECK(own_addresses_read_(&m.head, &a));
    CHECK(address_equal(&a, &want));
    for (uint32_t cut = 0; cut < offsetof(struct message, attributes) + 8; cut++) {
        m.head.nlmsg_len = cut;
        CHECK(!own_addresses_read_(&m.head, &a));
    }
    m = make(AF_INET6);
    put(&m, IFA_LOCAL, "192.0.2.1"); /* of the wrong family */
    CHECK(!own_addresses_read_(&m.head, &a));
    m = make(AF_UNIX);
    put(&m, IFA_LOCAL, "192.0.2.1");
    CHECK(!own_addresses_read_(&m.head, &a));
}
