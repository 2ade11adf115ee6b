/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/own.h"
#include "engine/runtime/netlink.h"

enum { LOOPBACK = 1 }; /* its index in every namespace */

static int raise_loopback(struct err *e)
{
    AUTO_CLOSE int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = { .ifr_name = "lo" };

    if (sock < 0)
        return err_sys(e, "opening a socket");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    if (ioctl(sock, SIOCSIFFLAGS, &request) < 0)
        return err_sys(e, "bringing loopback up");
    return 0;
}

int network_make(int home, int *ret, struct err *e)
{
    AUTO_CLOSE int net = -1;
    int r;

    if (unshare(CLONE_NEWNET) < 0)
        return err_sys(e, "creating a network namespace");
    net = openat(AT_FDCWD, "/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    r = net < 0 ? err_sys(e, "opening /proc/self/ns/net") : raise_loopback(e);
    if (home >= 0 && setns(home, CLONE_NEWNET) < 0)
        return err_sys(e, "returning to our own network namespace");
    if (r >= 0)
        *ret = take_fd(&net);
    return r;
}

int network_enter(int home, int net, struct err *e)
{
    if (home >= 0 && setns(net, CLONE_NEWNET) < 0)
        return err_sys(e, "entering the sandbox's network namespace");
    return 0;
}

int network_leave(int home, struct err *e)
{
    if (home >= 0 && setns(home, CLONE_NEWNET) < 0)
        return err_sys(e, "returning to our own network namespace");
    return 0;
}

bool network_has_ipv6(void)
{
    AUTO_CLOSE int sock = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 loopback = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };

    return sock >= 0 && bind(sock, (const struct sockaddr *)&loopback, sizeof loopback) == 0;
}

/* Adds `local default dev lo` to the table of local addresses. */
static void add_route(struct netlink *m, uint8_t family)
{
    struct rtmsg route = { .rtm_family = family,
                           .rtm_table = RT_TABLE_LOCAL,
                           .rtm_protocol = RTPROT_BOOT,
                           .rtm_scope = RT_SCOPE_HOST,
                           .rtm_type = RTN_LOCAL };

    netlink_begin(m, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &route, sizeof route);
    netlink_add_u32(m, RTA_OIF, LOOPBACK);
    if (family == AF_INET)
        netlink_add_u32(m, RTA_PREFSRC, htonl(INADDR_LOOPBACK));
    else
        netlink_add(m, RTA_PREFSRC, &in6addr_loopback, sizeof in6addr_loopback);
}

/* With AI_ADDRCONFIG, resolvers query a family only if the machine has an address of it other than
 * *the* loopback address. Nothing listens on this one. */
static void add_address(struct netlink *m, uint8_t family, const void *address, size_t n)
{
    struct ifaddrmsg head = { .ifa_family = family,
                              .ifa_prefixlen = (uint8_t)(8 * n),
                              .ifa_flags = IFA_F_PERMANENT | IFA_F_NODAD,
                              .ifa_scope = RT_SCOPE_HOST,
                              .ifa_index = LOOPBACK };

    netlink_begin(m, RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &head, sizeof head);
    netlink_add(m, IFA_LOCAL, address, n);
    netlink_add(m, IFA_ADDRESS, address, n);
}

int network_route(struct err *e)
{
    static const uint8_t four[4] = { 127, 0, 0, 2 };
    static const uint8_t six[16] = { 0xfd, 0x73, 0x62, 0x78, 0x65, 0x66, [15] = 1 };
    struct netlink m;
    AUTO_CLOSE int sock = -1;
    int r = netlink_socket(NETLINK_ROUTE, &sock, e);

    if (r < 0)
        return r;
    netlink_init(&m);
    add_route(&m, AF_INET);
    add_address(&m, AF_INET, four, sizeof four);
    if (network_has_ipv6()) {
        add_route(&m, AF_INET6);
        add_address(&m, AF_INET6, six, sizeof six);
    }
    return err_wrap(e, netlink_talk(sock, &m, e), "making every address local");
}
