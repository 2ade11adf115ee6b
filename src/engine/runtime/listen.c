#include "runtime/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/own.h"
#include "runtime/netlink.h"
#include "runtime/network.h"

enum { BACKLOG = 4096 };

#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75 /* musl has no name for it */
#endif

/* Everywhere: on every address, and so on those of others too, as every address is ours there. */
struct place {
    enum listener_slot slot;
    int family, type;
    bool everywhere;
    bool transparent; /* may stand for addresses that are not its own */
    uint16_t port;
};

/* The kernel hands what is captured to a listener on the device's first address, and which that is
 * of several IPv6 ones is its own affair. */
static const struct place places[] = {
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

static int set_options(int fd, const struct place *p, struct err *e)
{
    bool six = p->family == AF_INET6;
    int level = six ? IPPROTO_IPV6 : IPPROTO_IP;

    if (six && turn_on(fd, level, IPV6_V6ONLY) < 0)
        return err_sys(e, "keeping a listener to IPv6");
    if (p->transparent && turn_on(fd, level, six ? IPV6_TRANSPARENT : IP_TRANSPARENT) < 0)
        return err_sys(e, "making a listener transparent");
    if (p->type == SOCK_DGRAM && turn_on(fd, level, six ? IPV6_RECVPKTINFO : IP_PKTINFO) < 0)
        return err_sys(e, "asking for the address asked");
    /* The usual ones measure a network; on loopback that is work for nothing. */
    if (p->type == SOCK_STREAM)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
    return 0;
}

static int bind_place(int fd, const struct place *p)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(p->port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(p->port) };

    four.sin_addr.s_addr = htonl(p->everywhere ? INADDR_ANY : INADDR_LOOPBACK);
    six.sin6_addr = p->everywhere ? in6addr_any : in6addr_loopback;
    return p->family == AF_INET ? bind(fd, (const struct sockaddr *)&four, sizeof four)
                                : bind(fd, (const struct sockaddr *)&six, sizeof six);
}

static int open_place(const struct place *p, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = socket(p->family, p->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r;

    if (fd < 0)
        return err_sys(e, "opening a listener");
    r = set_options(fd, p, e);
    if (r < 0)
        return r;
    if (bind_place(fd, p) < 0 || (p->type == SOCK_STREAM && listen(fd, BACKLOG) < 0))
        return err_sys(e, "listening on port %u of the sandbox", p->port);
    *ret = take_fd(&fd);
    return 0;
}

/* What the rules log, each packet as it comes, with its headers. */
static int open_log(int *ret, struct err *e)
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
    netlink_put(&m, NFULA_CFG_CMD, &bind_group, sizeof bind_group);
    netlink_put(&m, NFULA_CFG_MODE, &mode, sizeof mode);
    netlink_put_be32(&m, NFULA_CFG_QTHRESH, 1);
    r = netlink_talk(fd, &m, e);
    if (r < 0)
        return err_wrap(e, r, "asking for the log of rejected packets (nfnetlink_log)");
    *ret = take_fd(&fd);
    return 0;
}

static int open_all(struct listeners *l, struct err *e)
{
    bool six = network_has_six();
    int r = open_log(&l->fd[LISTENER_REJECTS], e);

    for (size_t i = 0; i < COUNT_OF(places) && r >= 0; i++)
        if (places[i].family == AF_INET || six)
            r = open_place(&places[i], &l->fd[places[i].slot], e);
    if (r >= 0)
        (void)netlink_socket(NETLINK_SOCK_DIAG, &l->fd[LISTENER_SOCKETS], NULL);
    return r;
}

int listen_open(struct listeners *ret, struct err *e)
{
    struct listeners l;
    int r;

    listeners_init(&l);
    r = open_all(&l, e);
    if (r < 0)
        listeners_done(&l);
    else
        *ret = l;
    return r;
}
