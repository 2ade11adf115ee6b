/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/listeners.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include "base/own.h"
#include "harness/tap.h"

enum { ALL = (1 << LISTENER_COUNT_) - 1 };

/* A socket of the kind and port, or of another. */
static int open_one(int domain, int type, uint16_t port, bool listens)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    int fd = socket(domain, type | SOCK_CLOEXEC, 0);

    CHECK(fd >= 0);
    if (domain == AF_INET6)
        CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 1 }, sizeof(int)) == 0 &&
              bind(fd, (const struct sockaddr *)&six, sizeof six) == 0);
    else
        CHECK(bind(fd, (const struct sockaddr *)&four, sizeof four) == 0);
    if (type == SOCK_STREAM && listens)
        CHECK(listen(fd, 1) == 0);
    return fd;
}

static int open_netlink(int protocol)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    CHECK(fd >= 0);
    return fd;
}

/* All of them, in a network namespace of our own, where the ports are free. */
static void open_all(struct listeners *l)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        SKIP("no user and network namespaces here");
    for (int six = 0; six < 2; six++) {
        int domain = six ? AF_INET6 : AF_INET;

        l->fd[LISTENER_PROXY4 + six] = open_one(domain, SOCK_STREAM, LISTENERS_PROXY_PORT, true);
        l->fd[LISTENER_CAPTURE4 + six] =
            open_one(domain, SOCK_STREAM, LISTENERS_CAPTURE_PORT, true);
        l->fd[LISTENER_DNS_UDP4 + six] = open_one(domain, SOCK_DGRAM, LISTENERS_DNS_PORT, false);
        l->fd[LISTENER_DNS_TCP4 + six] = open_one(domain, SOCK_STREAM, LISTENERS_DNS_PORT, true);
    }
    l->fd[LISTENER_REJECTS] = open_netlink(NETLINK_NETFILTER);
    l->fd[LISTENER_SOCKETS] = open_netlink(NETLINK_SOCK_DIAG);
}

/* As they would arrive: descriptors of the receiver's own. */
static void arrive(const struct listeners *l, uint32_t slots, struct ipc_fds *ret)
{
    ret->n = 0;
    for (int i = 0; i < LISTENER_COUNT_; i++)
        if (slots & (1u << i)) {
            ret->fd[ret->n] = fcntl(l->fd[i], F_DUPFD_CLOEXEC, 3);
            CHECK(ret->fd[ret->n++] >= 0);
        }
}

TEST(packed_and_taken_they_are_the_same)
{
    struct listeners l, got;
    int fds[LISTENER_COUNT_];
    struct ipc_fds sent;
    uint32_t slots;
    struct err e;

    open_all(&l);
    CHECK_INT(listeners_pack(&l, fds, &slots), LISTENER_COUNT_);
    CHECK_INT(slots, ALL);
    arrive(&l, slots, &sent);
    CHECK_OK(listeners_take(&sent, slots, &got, &e), e);
    CHECK_INT(sent.n, 0);
    for (int i = 0; i < LISTENER_COUNT_; i++)
        CHECK(got.fd[i] >= 0 && (fcntl(got.fd[i], F_GETFL) & O_NONBLOCK));
    listeners_done(&got);
    listeners_done(&l);
    CHECK_INT(listeners_pack(&l, fds, &slots), 0);
    CHECK_INT(slots, 0);
}

/* Without IPv6, or the diagnostic socket: those only, and the first only as a whole. */
TEST(some_may_be_missing)
{
    static const uint32_t six = 1u << LISTENER_PROXY6 | 1u << LISTENER_CAPTURE6 |
                                1u << LISTENER_DNS_UDP6 | 1u << LISTENER_DNS_TCP6;
    static const uint32_t diagnostic = 1u << LISTENER_SOCKETS;
    struct listeners l, got;

    open_all(&l);
    for (uint32_t slots = 0; slots <= 2 * ALL + 1; slots++) {
        bool good = slots == ALL || slots == (ALL & ~six) || slots == (ALL & ~diagnostic) ||
                    slots == (ALL & ~six & ~diagnostic);
        struct ipc_fds sent;

        arrive(&l, slots, &sent);
        if ((listeners_take(&sent, slots, &got, NULL) == 0) != good)
            FAIL("the mask %x is %s", slots, good ? "refused" : "taken");
        if (good)
            listeners_done(&got);
        ipc_fds_done(&sent);
    }
}

TEST(the_number_is_that_of_the_mask)
{
    struct listeners l, got;
    struct ipc_fds sent;

    open_all(&l);
    arrive(&l, ALL, &sent);
    sent.n--;
    CHECK_INT(listeners_take(&sent, ALL, &got, NULL), -ERR_INVALID);
    sent.fd[++sent.n] = -1;
    sent.n++;
    CHECK_INT(listeners_take(&sent, ALL, &got, NULL), -ERR_INVALID);
    ipc_fds_done(&sent);
}

/* Each place refuses what belongs to any other. */
TEST(no_place_takes_anothers_socket)
{
    struct listeners l, got;

    open_all(&l);
    for (int at = 0; at < LISTENER_COUNT_; at++)
        for (int other = 0; other < LISTENER_COUNT_; other++) {
            struct listeners wrong = l;
            struct ipc_fds sent;

            if (at == other)
                continue;
            wrong.fd[at] = l.fd[other];
            arrive(&wrong, ALL, &sent);
            if (listeners_take(&sent, ALL, &got, NULL) != -ERR_DENIED)
                FAIL("place %d takes the socket of place %d", at, other);
            ipc_fds_done(&sent);
        }
}

TEST(what_does_not_listen_is_no_listener)
{
    struct listeners l, got;
    struct ipc_fds sent;

    open_all(&l);
    drop_fd(&l.fd[LISTENER_PROXY4]);
    l.fd[LISTENER_PROXY4] = open_one(AF_INET, SOCK_STREAM, LISTENERS_PROXY_PORT, false);
    arrive(&l, ALL, &sent);
    CHECK_INT(listeners_take(&sent, ALL, &got, NULL), -ERR_DENIED);
    drop_fd(&sent.fd[0]);
    sent.fd[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_INT(listeners_take(&sent, ALL, &got, NULL), -ERR_DENIED);
    ipc_fds_done(&sent);
}

TEST(ports_of_the_host_are_taken_once_and_none_of_ours)
{
    static const uint16_t ours[] = { LISTENERS_DNS_PORT, LISTENERS_PROXY_PORT,
                                     LISTENERS_CAPTURE_PORT };
    struct listeners_taken t = { 0 };

    for (size_t i = 0; i < COUNT_OF(ours); i++) {
        struct listeners_taken bad = { .v6 = { 8080, ours[i] } };

        listeners_take_port(&t, false, ours[i]);
        CHECK(!listeners_taken_valid(&bad));
    }
    CHECK_INT(t.v4[0], 0);
    for (uint16_t i = 0; i < 2 * LISTENERS_TAKEN_MAX; i++)
        listeners_take_port(&t, false, (uint16_t)(8000 + i / 2));
    listeners_take_port(&t, false, 9000); /* there is no room for it */
    listeners_take_port(&t, true, 9000);
    for (uint16_t i = 0; i < LISTENERS_TAKEN_MAX; i++)
        CHECK_INT(t.v4[i], 8000 + i);
    CHECK_INT(t.v6[0], 9000);
    CHECK_INT(t.v6[1], 0);
    CHECK(listeners_taken_valid(&t));
}
