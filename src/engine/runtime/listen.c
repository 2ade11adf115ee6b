/* SPDX-License-Identifier: Apache-2.0 */

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "engine/runtime/netlink.h"
#include "engine/runtime/network.h"

enum { BACKLOG = 4096 };

#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75 /* musl has no name for it */
#endif

/* `everywhere`: binds to every address, including foreign ones, since all addresses are local
 * there. */
struct listener_spec {
    enum listener_slot slot;
    int family, type;
    bool everywhere;
    bool transparent; /* may accept connections to foreign addresses */
    uint16_t port;
};

/* The kernel delivers captured connections to a listener on the device's first address; which of
 * several IPv6 addresses that is depends on the kernel. */
static const struct listener_spec listener_specs[] = {
    { LISTENER_PROXY4, AF_INET, SOCK_STREAM, false, false, LISTENERS_PROXY_PORT },
    { LISTENER_PROXY6, AF_INET6, SOCK_STREAM, false, false, LISTENERS_PROXY_PORT },
    { LISTENER_CAPTURE4, AF_INET, SOCK_STREAM, false, true, LISTENERS_CAPTURE_PORT },
    { LISTENER_CAPTURE6, AF_INET6, SOCK_STREAM, true, true, LISTENERS_CAPTURE_PORT },
    { LISTENER_DNS_UDP4, AF_INET, SOCK_DGRAM, true, true, LISTENERS_DNS_PORT },
    { LISTENER_DNS_UDP6, AF_INET6, SOCK_DGRAM, true, true, LISTENERS_DNS_PORT },
    { LISTENER_DNS_TCP4, AF_INET, SOCK_STREAM, true, false, LISTENERS_DNS_PORT },
    { LISTENER_DNS_TCP6, AF_INET6, SOCK_STREAM, true, false, LISTENERS_DNS_PORT },
};

static int turn_on(int fd, int level, int option)
{
    return setsockopt(fd, level, option, &(int){ 1 }, sizeof(int));
}

static int set_listener_options(int fd, const struct listener_spec *p, struct err *e)
{
    bool six = p->family == AF_INET6;
    int level = six ? IPPROTO_IPV6 : IPPROTO_IP;

    if (six && turn_on(fd, level, IPV6_V6ONLY) < 0)
        return err_sys(e, "restricting a listener to IPv6");
    if (p->transparent && turn_on(fd, level, six ? IPV6_TRANSPARENT : IP_TRANSPARENT) < 0)
        return err_sys(e, "making a listener transparent");
    if (p->type == SOCK_DGRAM && turn_on(fd, level, six ? IPV6_RECVPKTINFO : IP_PKTINFO) < 0)
        return err_sys(e, "enabling destination addresses of DNS packets");
    /* The default algorithms measure a network, which is wasted work on loopback. */
    if (p->type == SOCK_STREAM)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
    return 0;
}

static int bind_listener(int fd, const struct listener_spec *p)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(p->port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(p->port) };

    four.sin_addr.s_addr = htonl(p->everywhere ? INADDR_ANY : INADDR_LOOPBACK);
    six.sin6_addr = p->everywhere ? in6addr_any : in6addr_loopback;
    return p->family == AF_INET ? bind(fd, (const struct sockaddr *)&four, sizeof four)
                                : bind(fd, (const struct sockaddr *)&six, sizeof six);
}

static int open_boundary_listener(const struct listener_spec *p, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = socket(p->family, p->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r;

    if (fd < 0)
        return err_sys(e, "opening a listener");
    r = set_listener_options(fd, p, e);
    if (r < 0)
        return r;
    if (bind_listener(fd, p) < 0 || (p->type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
        return err_sys(e, "listening on port %u of the sandbox", p->port);
    *ret = take_fd(&fd);
    return 0;
}

/* Opens the log of the packet rules: each packet immediately, with its headers. */
static int open_reject_log(int *ret, struct err *e)
{
    struct nfgenmsg head = { .version = NFNETLINK_V0, .res_id = htons(LISTENERS_LOG_GROUP) };
    struct nfulnl_msg_config_cmd bind_group = { .command = NFULNL_CFG_CMD_BIND };
    struct nfulnl_msg_config_mode mode = { .copy_range = htonl(LISTENERS_LOG_BYTES),
                                           .copy_mode = NFULNL_COPY_PACKET };
    AUTO_CLOSE int fd = -1;
    struct netlink m;
    int r = netlink_socket(NETLINK_NETFILTER, &fd, e);

    if (r < 0)
        return r;
    netlink_init(&m);
    netlink_begin(&m, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, NLM_F_ACK, &head, sizeof head);
    netlink_add(&m, NFULA_CFG_CMD, &bind_group, sizeof bind_group);
    netlink_add(&m, NFULA_CFG_MODE, &mode, sizeof mode);
    netlink_add_be32(&m, NFULA_CFG_QTHRESH, 1);
    r = netlink_talk(fd, &m, e);
    if (r < 0)
        return err_wrap(e, r, "opening the log of rejected packets (nfnetlink_log)");
    *ret = take_fd(&fd);
    return 0;
}

int listen_open(struct listeners *ret, struct err *e)
{
    bool six = network_has_ipv6();
    struct listeners l;
    int r;

    listeners_init(&l);
    r = open_reject_log(&l.fd[LISTENER_REJECTS], e);
    for (size_t i = 0; i < COUNT_OF(listener_specs) && r >= 0; i++)
        if (listener_specs[i].family == AF_INET || six)
            r = open_boundary_listener(&listener_specs[i], &l.fd[listener_specs[i].slot], e);
    if (r < 0) {
        listeners_done(&l);
        return r;
    }
    (void)netlink_socket(NETLINK_SOCK_DIAG, &l.fd[LISTENER_SOCKETS], NULL);
    *ret = l;
    return 0;
}
