/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../box_world.h"
#include "base/own.h"
#include "engine/egress/adapters/adapters.h"
#include "engine/egress/fake_addresses.h"
#include "harness/tap.h"

static struct box_world *w;
static int listener;
static uint16_t port;
static struct synthetic pair;

/* api.example.com is allowed on `port`, and policy DNS has answered for it. */
static void start(void)
{
    struct fake_mapping m = { .name = "api.example.com", .n_pinned = 1 };
    struct err e;

    w = world_start(NULL);
    listener = world_listen(&port);
    world_allow(port);
    m.ports.p[0] = port;
    m.ports.n = 1;
    m.pinned[0] = world_address(WORLD_PUBLIC);
    m.generation = w->box->generation;
    m.expires = clock_mono() + 5 * NS_PER_S;
    CHECK_OK(fake_addresses_put(w->box->mapping, &m, clock_mono(), &pair, &e), e);
}

static int capture(const struct address *to, uint16_t to_port)
{
    struct address from = world_address("127.0.0.1");
    int client, ours;

    world_pair(&client, &ours);
    transparent_accept(w->box, ours, &from, 5, to, to_port);
    return client;
}

static void finish(void)
{
    close(listener);
    world_end();
}

static void refused(const struct address *to, uint16_t to_port)
{
    int client = capture(to, to_port);

    CHECK_INT(world_end_of(client), -1);
    close(client);
    CHECK(accept(listener, NULL, NULL) < 0 && errno == EAGAIN);
    CHECK_INT(w->dns.asked, 0);
    CHECK_INT(w->box->rank.count, 0);
}

TEST(synthetic_addresses_lead_to_what_was_pinned)
{
    char byte;

    start();
    for (int six = 0; six < 2; six++) {
        int client = capture(six ? &pair.v6 : &pair.v4, port), far = world_accept(listener);

        CHECK(send(client, "x", 1, 0) == 1);
        world_read(far, &byte, 1);
        CHECK(byte == 'x');
        close(client);
        close(far);
    }
    CHECK_INT(w->dns.asked, 0);
    CHECK(world_audited("api.example.com") > 0);
    finish();
}

TEST(other_ports_and_neighbours_are_refused)
{
    struct address next;

    start();
    refused(&pair.v4, (uint16_t)(port + 1));
    next = pair.v4;
    next.bytes[3]++;
    refused(&next, port);
    next = pair.v6;
    next.bytes[15]++;
    refused(&next, port);
    CHECK_INT(w->box->counters.denied, 3);
    CHECK(world_audited("mapping_denied") > 0);
    finish();
}

static void reached(const struct address *to, int at);

/* Lets the mapping expire; its pinned addresses must not be dialled afterwards. */
static void expire(void)
{
    struct fake_mapping m = *fake_addresses_find(w->box->mapping, &pair.v4);
    struct err e;

    m.expires = clock_mono() - 1;
    m.pinned[0] = world_address("93.184.216.99");
    CHECK_OK(fake_addresses_put(w->box->mapping, &m, clock_mono(), &pair, &e), e);
}

static void serve_name(const char *address)
{
    w->names[0].name = "api.example.com";
    w->names[0].addresses[0] = address;
}

/* Programs that keep answers for longer than they are good connect all the same. */
TEST(an_answer_that_has_expired_is_decided_by_its_name)
{
    start();
    serve_name(WORLD_PUBLIC);
    expire();
    reached(&pair.v4, listener);
    reached(&pair.v6, listener);
    CHECK(w->dns.asked >= 2); /* looked up again: the pinned addresses are not dialled */
    CHECK_INT(w->box->counters.denied, 0);
    finish();
}

static void refused_now(uint16_t to_port)
{
    int client = capture(&pair.v4, to_port);

    CHECK_INT(world_end_of(client), -1);
    close(client);
    CHECK(accept(listener, NULL, NULL) < 0 && errno == EAGAIN);
}

TEST(behind_an_expired_answer_the_name_may_have_moved)
{
    start();
    serve_name("10.0.0.1");
    expire();
    refused_now(port);
    CHECK(world_audited("ssrf_denied") > 0);
    refused_now((uint16_t)(port + 1));
    CHECK_INT(w->box->counters.denied, 2);
    finish();
}

TEST(an_answer_of_an_older_policy_is_decided_by_the_new_one)
{
    start();
    serve_name(WORLD_PUBLIC);
    world_allow(port);
    reached(&pair.v4, listener);
    world_policy("  {}\n");
    refused_now(port);
    CHECK_INT(w->dns.asked, 2); /* the new policy has no such name: no server is queried */
    world_policy(NULL);
    refused_now(port);
    world_allow(port);
    reached(&pair.v4, listener);
    finish();
}

TEST(real_addresses_need_an_endpoint_that_declares_them)
{
    struct address real = world_address(WORLD_PUBLIC), door = world_address("127.0.0.1");

    start();
    refused(&real, port);
    refused(&door, LISTENERS_CAPTURE_PORT);
    finish();
}

/* --- Literal addresses --- */

/* Of policies that let WORLD_PUBLIC be dialled as such; %u is the port. */
static const char *const literal[] = {
    "  far:\n    endpoints: [{host: " WORLD_PUBLIC ", port: %u}]\n    binaries: [{path: /**}]\n",
    "  far:\n    endpoints: [{host: " WORLD_PUBLIC ", port: %u, allowed_ips: [" WORLD_PUBLIC
    "]}]\n    binaries: [{path: /**}]\n",
    "  far:\n    endpoints: [{port: %u, allowed_ips: [93.184.216.0/24]}]\n"
    "    binaries: [{path: /**}]\n",
    "  {}\nunlisted: {access: public}\n",
    "  {}\nunlisted: {allowed_ips: [93.184.216.0/24]}\n",
    "  {}\nunlisted: {access: public, denied_ips: [93.0.0.0/8], allowed_ips: [" WORLD_PUBLIC "]}\n",
};

/* … and of some that do not. */
static const char *const not_literal[] = {
    /* a name does not affect the address that it is mapped to */
    "  far:\n    endpoints: [{host: api.example.com, port: %u, allowed_ips: [" WORLD_PUBLIC
    "]}]\n    binaries: [{path: /**}]\n",
    "  far:\n    endpoints: [{host: \"**.example.com\", port: %u}]\n"
    "    binaries: [{path: /**}]\n",
    "  far:\n    endpoints: [{host: 93.184.216.35, port: %u}]\n    binaries: [{path: /**}]\n",
    "  far:\n    endpoints: [{port: %u, allowed_ips: [93.184.216.128/25]}]\n"
    "    binaries: [{path: /**}]\n",
    "  {}\nunlisted: {access: public, denied_ips: [93.0.0.0/8]}\n",
    "  {}\nunlisted: {allowed_ips: [93.184.216.35]}\n",
};

static void set_policy_with_port(const char *policy)
{
    char text[512], number[8];
    const char *at = strstr(policy, "%u");

    snprintf(number, sizeof number, "%u", port);
    if (at)
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - policy), policy, number, at + 2);
    world_policy(at ? text : policy);
}

static void reached(const struct address *to, int at)
{
    int client = capture(to, port), far = world_accept(at);
    char byte;

    CHECK(send(client, "x", 1, 0) == 1);
    world_read(far, &byte, 1);
    CHECK(byte == 'x');
    close(client);
    close(far);
}

TEST(a_literal_address_is_reached_where_the_policy_has_it)
{
    struct address real = world_address(WORLD_PUBLIC);

    start();
    for (size_t i = 0; i < COUNT_OF(literal); i++) {
        set_policy_with_port(literal[i]);
        reached(&real, listener);
        CHECK_INT(w->dns.asked, 0);
    }
    CHECK_INT(w->box->counters.denied, 0);
    finish();
}

TEST(a_literal_address_is_refused_where_it_has_not)
{
    struct address real = world_address(WORLD_PUBLIC);

    start();
    for (size_t i = 0; i < COUNT_OF(not_literal); i++) {
        set_policy_with_port(not_literal[i]);
        refused(&real, port);
    }
    CHECK_INT(w->box->counters.denied, COUNT_OF(not_literal));
    set_policy_with_port(literal[0]);
    refused(&real, (uint16_t)(port + 1));
    finish();
}

TEST(what_is_never_public_needs_to_be_declared)
{
    static const char *const never[] = {
        "10.0.0.1",       "127.0.0.1",     "169.254.1.1",     "100.64.0.1",      "0.0.0.0",
        "224.0.0.1",      "::1",           "fe80::1",         "fc00::1",         "::ffff:127.0.0.1",
        "64:ff9b::a00:1", "2002:a00:1::1", "169.254.169.254", "100.100.100.200", "fd00:ec2::254"
    };
    struct address loopback = world_address("127.0.0.1");
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int service;

    start();
    service = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    at.sin_port = htons(port);
    CHECK(bind(service, (struct sockaddr *)&at, sizeof at) == 0 && listen(service, 4) == 0);
    world_policy("  {}\nunlisted: {access: public}\n");
    for (size_t i = 0; i < COUNT_OF(never); i++) {
        struct address a = world_address(never[i]);

        refused(&a, port);
    }
    CHECK(accept(service, NULL, NULL) < 0 && errno == EAGAIN);
    set_policy_with_port("  near:\n    endpoints: [{host: 127.0.0.1, port: %u, allowed_ips: "
                         "[127.0.0.1]}]\n    binaries: [{path: /**}]\n");
    reached(&loopback, service);
    close(service);
    finish();
}

/* A literal address was allowed, so a hello with a server name is refused. */
TEST(a_hello_that_names_a_host_is_refused_behind_a_literal_address)
{
    static const char hello[] =
        "\x16\3\1\0\x42\1\0\0\x3e\3\3" /* 66 bytes of a handshake, of them 62 a hello */
        "01234567890123456789012345678901"
        "\0\0\2\x13\1\1\0" /* no session; one cipher; no compression */
        "\0\x13\0\0\0\x0f\0\x0d\0\0\x0a"
        "a.example\0"; /* the name's length is one more than it has: replaced below */
    struct address real = world_address(WORLD_PUBLIC);
    char bytes[sizeof hello];
    int client, far;

    memcpy(bytes, hello, sizeof hello);
    bytes[sizeof hello - 2] = 'x'; /* a.examplex */
    start();
    set_policy_with_port(literal[0]);
    client = capture(&real, port);
    CHECK(send(client, bytes, sizeof hello - 1, 0) == (ssize_t)sizeof hello - 1);
    CHECK_INT(world_end_of(client), -1);
    CHECK(world_audited("sni_mismatch") > 0);
    while ((far = accept(listener, NULL, NULL)) >= 0) {
        CHECK(recv(far, bytes, 1, 0) <= 0);
        close(far);
    }
    close(client);
    finish();
}

TEST(the_end_of_the_box_ends_what_is_being_decided)
{
    int client;

    start();
    client = capture(&pair.v4, port);
    world_end();
    CHECK(recv(client, (char[1]){ 0 }, 1, 0) < 0);
    close(client);
    close(listener);
}
