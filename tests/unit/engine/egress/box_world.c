/* SPDX-License-Identifier: Apache-2.0 */
#include "box_world.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/own.h"
#include "harness/tap.h"
#include "domain/policy/egress_file.h"

static struct box_world w;

#define WAIT_NS (20 * NS_PER_S) /* only a defect takes longer */

static void answer_from_table(struct serving *s, const struct dns_query *q)
{
    struct address list[WORLD_ADDRESSES_MAX];
    uint8_t out[DNS_UDP_MIN];
    size_t n = 0;

    for (size_t i = 0; i < WORLD_NAMES_MAX && w.names[i].name; i++) {
        if (strcmp(w.names[i].name, q->question.name) != 0)
            continue;
        for (size_t k = 0; k < WORLD_ADDRESSES_MAX && w.names[i].addresses[k]; k++) {
            list[n] = world_address(w.names[i].addresses[k]);
            n += list[n].v6 == (q->question.type == DNS_AAAA);
        }
        serving_send(s, out, dns_build_answer(q, DNS_NOERROR, list, n, w.ttl, out, sizeof out));
        return;
    }
    serving_answer(s, q, DNS_NXDOMAIN);
}

void world_policy(const char *policy)
{
    AUTO(arena_done) struct arena arena = ARENA_INIT(EGRESS_MEMORY_MAX);
    AUTO(egress_snapshot_unrefp_) struct egress_snapshot *s = NULL;
    struct egress_policy p;
    char text[4096];
    struct err e;

    if (policy) {
        snprintf(text, sizeof text, "version: 1\nnetwork_policies:\n%s", policy);
        CHECK_OK(egress_policy_read(str_from(text), &arena, &p, &e), e);
        s = egress_compile(&p, ++w.generation, &e);
        if (!s)
            FAIL("%s", e.msg);
    }
    egress_box_set_policy(w.box, s);
}

static void enter_network(void)
{
    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        SKIP("no network namespace");
    if (system("ip link set lo up && ip addr add " WORLD_PUBLIC "/32 dev lo") != 0)
        SKIP("no ip(8)");
}

struct box_world *world_start(const char *policy)
{
    struct listeners none;
    struct err e;

    enter_network();
    listeners_init(&none);
    w.audit = memfd_create("audit", MFD_CLOEXEC);
    CHECK(w.audit >= 0);
    CHECK_OK(loop_init(&w.loop, &e), e);
    serving_start(&w.dns, &w.loop, answer_from_table);
    w.egress.loop = &w.loop;
    CHECK_OK(dns_resolver_init(&w.egress.resolver, &w.loop, &w.dns.at, 1, &e), e);
    w.egress.resolver.timeout = 200 * NS_PER_MS;
    CHECK_OK(egress_box_new(&w.egress, "sbx_test", &none, fcntl(w.audit, F_DUPFD_CLOEXEC, 3),
                            &w.box, &e),
             e);
    if (policy)
        world_policy(policy);
    return &w;
}

void world_end(void)
{
    egress_box_free(w.box);
    dns_resolver_done(&w.egress.resolver);
    serving_stop(&w.dns);
    while (loop_run_once(&w.loop, 0, NULL) > 0)
        ;
    loop_done(&w.loop);
    close(w.audit);
}

void world_run(const bool *done)
{
    int64_t until = clock_mono() + WAIT_NS;
    struct err e;

    while (!*done) {
        CHECK(clock_mono() < until);
        CHECK_OK(loop_run_once(&w.loop, 10 * NS_PER_MS, &e), e);
    }
}

void world_turn(void)
{
    for (int i = 0; i < 5; i++)
        loop_run_once(&w.loop, 2 * NS_PER_MS, NULL);
}

size_t world_audited(const char *text)
{
    static char all[1 << 20];
    ssize_t n = pread(w.audit, all, sizeof all - 1, 0);
    size_t found = 0;

    CHECK(n >= 0);
    all[n] = '\0';
    for (const char *at = all; (at = strstr(at, text)); at++)
        found++;
    return found;
}

struct address world_address(const char *text)
{
    struct address a;

    if (!address_parse(str_from(text), &a))
        FAIL("%s is no address", text);
    return a;
}

struct egress_intent world_intent(const char *authority)
{
    struct egress_intent i = { .adapter = EGRESS_BY_CONNECT,
                               .client = world_address("127.0.0.1"),
                               .client_port = 5 };
    struct err e;

    CHECK_OK(authority_parse(str_from(authority), 0, &i.host, &i.port, &e), e);
    return i;
}

static bool decided;

static void on_decided(struct authorization *a)
{
    decided = true;
}

struct lease *world_decide(const struct egress_intent *i)
{
    static struct authorization a;

    a = (struct authorization){ .done_ = NULL };
    decided = false;
    authorize_start(&a, w.box, i, on_decided);
    CHECK(!decided); /* never from inside */
    world_run(&decided);
    return a.lease;
}

struct egress_intent world_allow(uint16_t port)
{
    char policy[256];
    struct egress_intent i = world_intent("api.example.com:1");

    snprintf(policy, sizeof policy,
             "  far:\n    endpoints: [{host: api.example.com, port: %u}]\n"
             "    binaries: [{path: /**}]\n",
             port);
    world_policy(policy);
    i.port = port;
    i.pinned[0] = world_address(WORLD_PUBLIC);
    i.n_pinned = 1;
    return i;
}

static struct sockaddr_in place(uint16_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct address a = world_address(WORLD_PUBLIC);

    memcpy(&at.sin_addr, a.bytes, 4);
    return at;
}

int world_listen(uint16_t *ret_port)
{
    struct sockaddr_in at = place(0);
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, n) == 0 && listen(fd, 16) == 0 &&
          getsockname(fd, (struct sockaddr *)&at, &n) == 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

int world_accept(int listener)
{
    int64_t until = clock_mono() + WAIT_NS;
    int fd;

    while ((fd = accept(listener, NULL, NULL)) < 0) {
        CHECK(clock_mono() < until);
        loop_run_once(&w.loop, NS_PER_MS, NULL);
    }
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    return fd;
}

void world_read(int fd, void *to, size_t n)
{
    int64_t until = clock_mono() + WAIT_NS;

    for (size_t got = 0; got < n;) {
        ssize_t now = recv(fd, (char *)to + got, n - got, MSG_DONTWAIT);

        if (now == 0 || (now < 0 && errno != EAGAIN) || clock_mono() > until)
            FAIL("read %zu of %zu bytes: %zd %d", got, n, now, errno);
        got += now > 0 ? (size_t)now : 0;
        loop_run_once(&w.loop, NS_PER_MS, NULL);
    }
}

int world_end_of(int fd)
{
    int64_t until = clock_mono() + WAIT_NS;
    char byte;

    for (;;) {
        ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

        if (n >= 0 || errno == ECONNRESET)
            return n < 0 ? -1 : (int)n;
        CHECK(errno == EAGAIN && clock_mono() < until);
        loop_run_once(&w.loop, NS_PER_MS, NULL);
    }
}

void world_pair(int *ret_client, int *ret_ours)
{
    struct sockaddr_in at;
    uint16_t port;
    AUTO_CLOSE int listener = world_listen(&port);

    at = place(port);
    *ret_client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(*ret_client, (struct sockaddr *)&at, sizeof at) == 0);
    *ret_ours = world_accept(listener);
}
