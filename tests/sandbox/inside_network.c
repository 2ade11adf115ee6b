/* SPDX-License-Identifier: Apache-2.0 */
/* What programs inside do with the network, and would like to do. */
#include "inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"

enum { WAIT_S = 10, SLOW_MS = 1000, SCTP = 132, UDPLITE = 136, DCCP = 33 };

union address {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* Textual address, or "any". */
static socklen_t address(const char *text, const char *port, union address *ret)
{
    uint16_t number = htons((uint16_t)strtoul(port, NULL, 10));

    memset(ret, 0, sizeof *ret);
    if (strchr(text, ':')) {
        ret->six.sin6_family = AF_INET6;
        ret->six.sin6_port = number;
        if (inet_pton(AF_INET6, text, &ret->six.sin6_addr) != 1)
            exit(3);
        if (strncmp(text, "ff", 2) == 0)
            ret->six.sin6_scope_id = 1;
        return sizeof ret->six;
    }
    ret->four.sin_family = AF_INET;
    ret->four.sin_port = number;
    if (inet_pton(AF_INET, text, &ret->four.sin_addr) != 1)
        exit(3);
    return sizeof ret->four;
}

static int open_socket(int family, int type)
{
    struct timeval wait = { .tv_sec = WAIT_S };
    int fd = socket(family, type | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &(int){ 1 }, sizeof(int)) < 0)
        exit(3);
    return fd;
}

/* A connected socket takes answers from the address it asked, and from nobody else. */
int net_ask(char **argv)
{
    union address to, from;
    socklen_t n = address(argv[1], argv[2], &to);
    AUTO_CLOSE int fd = -1;
    char answer[64];
    ssize_t got;

    fd = open_socket(to.any.sa_family, strcmp(argv[0], "tcp") == 0 ? SOCK_STREAM : SOCK_DGRAM);
    if (strcmp(argv[3], "any") != 0 && bind(fd, &from.any, address(argv[3], "0", &from)) < 0) {
        printf("bind %d\n", -errno);
        return 0;
    }
    if (connect(fd, &to.any, n) < 0 || send(fd, "ask", 3, MSG_NOSIGNAL) < 0 ||
        (got = recv(fd, answer, sizeof answer - 1, 0)) < 0) {
        printf("%d\n", -errno);
        return 0;
    }
    printf("%.*s\n", (int)got, answer);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int net_send(char **argv)
{
    union address to;
    socklen_t n = address(argv[0], argv[1], &to);
    AUTO_CLOSE int fd = open_socket(to.any.sa_family, SOCK_DGRAM);
    int64_t before = now_ms();
    ssize_t r = sendto(fd, "x", 1, 0, &to.any, n);

    printf("%d%s\n", r < 0 ? -errno : (int)r, now_ms() - before > SLOW_MS ? " slow" : "");
    return 0;
}

int net_sockets(char **argv)
{
    static const struct {
        const char *name;
        int family, type, protocol;
    } kinds[] = {
        { "ping4", AF_INET, SOCK_DGRAM, IPPROTO_ICMP },
        { "ping6", AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6 },
        { "raw4", AF_INET, SOCK_RAW, IPPROTO_RAW },
        { "raw6", AF_INET6, SOCK_RAW, IPPROTO_RAW },
        { "raw icmp", AF_INET, SOCK_RAW, IPPROTO_ICMP },
        { "packet", AF_PACKET, SOCK_RAW, 0 },
        { "netfilter", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER },
        { "sock_diag", AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG },
        { "sctp", AF_INET, SOCK_STREAM, SCTP },
        { "dccp", AF_INET, 6 /* SOCK_DCCP */, DCCP },
    };

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        AUTO_CLOSE int fd =
            socket(kinds[i].family, kinds[i].type | SOCK_CLOEXEC, kinds[i].protocol);

        printf("%s: %s\n", kinds[i].name, fd < 0 ? "no" : "made");
    }
    return 0;
}

static bool talk_to_self(const char *text, int type)
{
    union address to;
    socklen_t n = address(text, "0", &to);
    AUTO_CLOSE int server = open_socket(to.any.sa_family, type);
    AUTO_CLOSE int client = open_socket(to.any.sa_family, type);
    AUTO_CLOSE int accepted = -1;
    char byte = 0;

    if (bind(server, &to.any, n) < 0 || getsockname(server, &to.any, &n) < 0 ||
        (type == SOCK_STREAM && listen(server, 1) < 0) || connect(client, &to.any, n) < 0 ||
        send(client, "x", 1, 0) != 1)
        return false;
    if (type == SOCK_STREAM)
        accepted = accept(server, NULL, NULL);
    return recv(type == SOCK_STREAM ? accepted : server, &byte, 1, 0) == 1 && byte == 'x';
}

int net_loopback(char **argv)
{
    static const char *const addresses[] = { "127.0.0.1", "127.0.0.2", "127.255.255.254", "::1" };

    for (size_t i = 0; i < COUNT_OF(addresses); i++)
        printf("%s %d %d\n", addresses[i], talk_to_self(addresses[i], SOCK_STREAM),
               talk_to_self(addresses[i], SOCK_DGRAM));
    return 0;
}

/* As sly as can be: sharing the port, or taking it on one address. */
static int take(const char *text, const char *port, int type)
{
    union address at;
    socklen_t n = address(text, port, &at);
    AUTO_CLOSE int fd = open_socket(at.any.sa_family, type);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){ 1 }, sizeof(int));
    if (bind(fd, &at.any, n) < 0 || (type == SOCK_STREAM && listen(fd, 1) < 0))
        return -errno;
    return 0;
}

int net_take(char **argv)
{
    static const struct {
        const char *address, *port;
        int type;
    } places[] = {
        { "127.0.0.1", "3128", SOCK_STREAM }, { "0.0.0.0", "3128", SOCK_STREAM },
        { "::1", "3128", SOCK_STREAM },       { "127.0.0.1", "3129", SOCK_STREAM },
        { "::1", "3129", SOCK_STREAM },       { "::", "3129", SOCK_STREAM },
        { "127.0.0.1", "53", SOCK_DGRAM },    { "127.0.0.1", "53", SOCK_STREAM },
        { "192.0.2.1", "53", SOCK_DGRAM },    { "::1", "53", SOCK_DGRAM },
    };

    for (size_t i = 0; i < COUNT_OF(places); i++)
        if (take(places[i].address, places[i].port, places[i].type) == 0)
            printf("%s port %s was taken\n", places[i].address, places[i].port);
    return 0;
}

/* One request; 0 or the errno that the kernel answers with, below zero. */
static int netlink_ask(int protocol, const void *request, size_t n)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char more[512];
    } reply = { 0 };
    AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd < 0 || send(fd, request, n, 0) < 0 || recv(fd, &reply, sizeof reply, 0) < 0)
        return -errno;
    return reply.head.nlmsg_type == NLMSG_ERROR ? reply.error.error : 0;
}

static int change_route(uint16_t type, uint8_t family)
{
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
        struct rtattr attribute;
        uint32_t interface;
    } q = { { sizeof q, type, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0 },
            { .rtm_family = family,
              .rtm_table = RT_TABLE_LOCAL,
              .rtm_scope = RT_SCOPE_HOST,
              .rtm_type = RTN_LOCAL },
            { RTA_LENGTH(sizeof q.interface), RTA_OIF },
            1 };

    return netlink_ask(NETLINK_ROUTE, &q, sizeof q);
}

static int add_address(void)
{
    struct {
        struct nlmsghdr head;
        struct ifaddrmsg body;
        struct rtattr attribute;
        uint32_t local;
    } q = { { sizeof q, RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0 },
            { .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 1 },
            { RTA_LENGTH(sizeof q.local), IFA_LOCAL },
            0x0a000001 };

    return netlink_ask(NETLINK_ROUTE, &q, sizeof q);
}

static int link_down(void)
{
    struct ifreq lo = { .ifr_name = "lo" };
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return ioctl(fd, SIOCSIFFLAGS, &lo) < 0 ? -errno : 0;
}

static int netfilter(uint16_t type, uint16_t resource)
{
    struct {
        struct nlmsghdr head;
        struct nfgenmsg body;
    } q = { { sizeof q, type, NLM_F_REQUEST | NLM_F_ACK, 1, 0 }, { 0, 0, htons(resource) } };

    return netlink_ask(NETLINK_NETFILTER, &q, sizeof q);
}

static int be_transparent(void)
{
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return setsockopt(fd, IPPROTO_IP, 19 /* IP_TRANSPARENT */, &(int){ 1 }, sizeof(int)) < 0
               ? -errno
               : 0;
}

int net_change(char **argv)
{
    printf("new routes %d %d\n", change_route(RTM_NEWROUTE, AF_INET),
           change_route(RTM_NEWROUTE, AF_INET6));
    printf("old routes %d %d\n", change_route(RTM_DELROUTE, AF_INET),
           change_route(RTM_DELROUTE, AF_INET6));
    printf("address %d\n", add_address());
    printf("link %d\n", link_down());
    printf("rules %d\n", netfilter(NFNL_MSG_BATCH_BEGIN, NFNL_SUBSYS_NFTABLES));
    printf("log %d\n", netfilter(NFNL_SUBSYS_ULOG << 8 | 1 /* NFULNL_MSG_CONFIG */, 1));
    printf("transparent %d\n", be_transparent());
    return 0;
}
