/* SPDX-License-Identifier: Apache-2.0 */
/* Ways out by socket. There must be no packet path: loopback only, and nothing of the host on
 * it. */
#include "attacks/attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct family {
    int family, type, protocol;
};

/* An unknown family is as good as a forbidden one. */
static enum verdict no_socket(const void *with)
{
    const struct family *f = with;
    int fd = socket(f->family, f->type | SOCK_CLOEXEC, f->protocol);

    return fd < 0 ? held("%s", strerror(errno)) : escaped("the socket was made");
}

/* ---- the host's listeners ---- */

static enum verdict host_loopback(const void *with)
{
    const char *port = fact("ESCAPE_PORT");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = inet_addr(with) };

    if (!port)
        return not_applicable("ESCAPE_PORT is not set");
    to.sin_port = htons((uint16_t)strtol(port, NULL, 10));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return escaped("connected to port %s of the host", port);
    return held("%s", strerror(errno));
}

static enum verdict connect_unix(const char *name, size_t n)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (n > sizeof to.sun_path)
        return escaped("name too long");
    memcpy(to.sun_path, name, n);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) == 0)
        return escaped("connected to %s", *name ? name : name + 1);
    return held("%s", strerror(errno));
}

static enum verdict host_abstract(const void *with)
{
    const char *name = fact("ESCAPE_ABSTRACT");
    char path[108] = "";

    if (!name)
        return not_applicable("ESCAPE_ABSTRACT is not set");
    snprintf(path + 1, sizeof path - 1, "%s", name);
    return connect_unix(path, strlen(path + 1) + 1);
}

static enum verdict host_unix_path(const void *with)
{
    const char *path = fact("ESCAPE_UNIX_PATH");

    return path ? connect_unix(path, strlen(path) + 1)
                : not_applicable("ESCAPE_UNIX_PATH is not set");
}

/* Whoever listens in this network namespace besides us: PID 1's control socket is the one to
 * find. */
static enum verdict listed_sockets(const void *with)
{
    static char text[65536];
    char *rest = text, *line;
    int named = 0;

    if (slurp("/proc/net/unix", text, sizeof text) < 0)
        return held("/proc/net/unix: %s", strerror(errno));
    while ((line = strsep(&rest, "\n"))) {
        char *name = strpbrk(line, "/@");
        size_t n = name ? strlen(name) : 0;

        if (!name)
            continue;
        named++;
        if (rehearsing() &&
            (!fact("ESCAPE_ABSTRACT") || strcmp(name + 1, fact("ESCAPE_ABSTRACT")) != 0))
            continue; /* no business of ours */
        if (*name == '@')
            *name = '\0';
        if (connect_unix(name, *name ? n + 1 : n) == ESCAPED)
            return escaped("connected to a listed socket: %s", *name ? name : name + 1);
    }
    return held("%d named sockets, none answers", named);
}

/* ---- routes ---- */

/* A datagram socket's connect() asks for a route and sends nothing. */
static enum verdict no_route(const void *with)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
    struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
    bool six = strchr(with, ':') != NULL;
    int fd = socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int r;

    if (fd < 0)
        return held("socket: %s", strerror(errno));
    inet_pton(six ? AF_INET6 : AF_INET, with, six ? (void *)&to6.sin6_addr : (void *)&to.sin_addr);
    r = six ? connect(fd, (struct sockaddr *)&to6, sizeof to6)
            : connect(fd, (struct sockaddr *)&to, sizeof to);
    if (r < 0)
        return held("%s", strerror(errno));
    return escaped("there is a route to %s", (const char *)with);
}

static enum verdict only_loopback(const void *with)
{
    static char text[8192];
    char *rest = text, *line;
    int n = 0;

    if (slurp("/proc/net/dev", text, sizeof text) < 0)
        return held("/proc/net/dev: %s", strerror(errno));
    while ((line = strsep(&rest, "\n"))) {
        char *colon = strchr(line, ':');

        if (!colon || strchr(line, '|'))
            continue;
        line += strspn(line, " ");
        if (strncmp(line, "lo:", 3) != 0)
            return escaped("interface %.*s", (int)(colon - line), line);
        n++;
    }
    return n == 1 ? held("lo") : escaped("%d interfaces", n);
}

/* ---- changing the network ---- */

static enum verdict loopback_down(const void *with)
{
    struct ifreq change = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &change) < 0)
        return held("%s", strerror(errno));
    return refused(ioctl(fd, SIOCSIFFLAGS, &change), "SIOCSIFFLAGS"); /* the flags it has */
}

/* One netlink request; the kernel's answer as a return value with errno. */
static long netlink_ask(int protocol, void *request, size_t n)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char more[512];
    } reply = { 0 };
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd < 0)
        errno = EACCES; /* no such socket for us, whatever it is called */
    if (fd < 0 || send(fd, request, n, 0) < 0 || recv(fd, &reply, sizeof reply, 0) < 0)
        return -1;
    close(fd);
    if (reply.head.nlmsg_type != NLMSG_ERROR || reply.error.error == 0)
        return 0;
    errno = -reply.error.error;
    return -1;
}

static enum verdict new_route(const void *with)
{
    struct {
        struct nlmsghdr head;
        struct rtmsg route;
    } q = { { sizeof q, RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_ACK, 1, 0 }, { .rtm_family = 255 } };

    return refused(netlink_ask(NETLINK_ROUTE, &q, sizeof q), "RTM_NEWROUTE");
}

static enum verdict delete_link(const void *with)
{
    struct {
        struct nlmsghdr head;
        struct ifinfomsg link;
    } q = { { sizeof q, RTM_DELLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0 },
            { .ifi_index = 0x7fffffff } };
    long r = netlink_ask(NETLINK_ROUTE, &q, sizeof q);

    return refused(r, "RTM_DELLINK");
}

static enum verdict nft_batch(const void *with)
{
    struct {
        struct nlmsghdr head;
        uint8_t family, version;
        uint16_t subsystem;
    } q = { { sizeof q, 0x10, NLM_F_REQUEST | NLM_F_ACK, 1, 0 }, 0, 0, htons(10) };
    long r = netlink_ask(NETLINK_NETFILTER, &q, sizeof q);

    return refused(r, "beginning an nft batch");
}

static enum verdict new_address(const void *with)
{
    struct {
        struct nlmsghdr head;
        struct ifaddrmsg address;
    } q = { { sizeof q, RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK, 1, 0 },
            { .ifa_family = AF_INET, .ifa_index = 0x7fffffff } };

    return refused(netlink_ask(NETLINK_ROUTE, &q, sizeof q), "RTM_NEWADDR");
}

/* Of a group that nobody has: whoever may ask is told so. */
static enum verdict packet_log(const void *with)
{
    struct {
        struct nlmsghdr head;
        uint8_t family, version;
        uint16_t group;
    } q = { { sizeof q, 4 << 8 | 1, NLM_F_REQUEST | NLM_F_ACK, 1, 0 }, 0, 0, htons(0xfff0) };

    return refused(netlink_ask(NETLINK_NETFILTER, &q, sizeof q), "configuring a packet log");
}

/* With it a socket takes connections to addresses that are not its own. */
static enum verdict transparent(const void *with)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return refused(setsockopt(fd, IPPROTO_IP, 19 /* IP_TRANSPARENT */, &(int){ 1 }, sizeof(int)),
                   "IP_TRANSPARENT");
}

/* Its machine code comes out of a budget of the whole machine. */
static enum verdict socket_filter(const void *with)
{
    struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, 0xffff);
    struct sock_fprog program = { .len = 1, .filter = &all };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), option = *(const int *)with, on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    return refused(setsockopt(fd, SOL_SOCKET, option, &program, sizeof program), "option %d",
                   option);
}

/* The option is looked at after the name's length, of which 0 is invalid. */
static enum verdict upper_protocol(const void *with)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return refused(setsockopt(fd, IPPROTO_TCP, 31 /* TCP_ULP */, "", 0), "TCP_ULP");
}

/* A name server of one's own would answer for the sandbox's. */
static enum verdict low_port(const void *with)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(53),
                              .sin_addr.s_addr = inet_addr("127.0.0.99") };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return refused(bind(fd, (struct sockaddr *)&at, sizeof at), "port 53");
}

/* ---- lies and leftovers ---- */

static enum verdict forged_credentials(const void *with)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control = { 0 };
    struct ucred lie = { .pid = 1, .uid = getuid(), .gid = getgid() };
    struct iovec one = { "x", 1 };
    struct msghdr m = { .msg_iov = &one,
                        .msg_iovlen = 1,
                        .msg_control = control.room,
                        .msg_controllen = sizeof control.room };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    int fds[2];

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_CREDENTIALS;
    c->cmsg_len = CMSG_LEN(sizeof lie);
    memcpy(CMSG_DATA(c), &lie, sizeof lie);
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds) < 0)
        return escaped("socketpair: %s", strerror(errno));
    return refused(sendmsg(fds[0], &m, 0), "SCM_CREDENTIALS of PID 1");
}

/* A System V segment that the caller made on the host. */
static enum verdict host_shared_memory(const void *with)
{
    const char *key = fact("ESCAPE_SHM_KEY");

    if (!key)
        return not_applicable("ESCAPE_SHM_KEY is not set");
    return shmget((key_t)strtol(key, NULL, 10), 0, 0) < 0 ? held("%s", strerror(errno))
                                                          : escaped("found");
}

#define NO_SOCKET(label, ...)                                                                      \
    {                                                                                              \
        "sockets: no " label, no_socket, &(const struct family){ __VA_ARGS__ }, SEEN               \
    }
/* Not in every kernel. */
#define NO_SOCKET_UNSEEN(label, ...)                                                               \
    {                                                                                              \
        "sockets: no " label, no_socket, &(const struct family){ __VA_ARGS__ }, UNSEEN             \
    }

static const struct attack attacks[] = {
    { "sockets: the host's 127.0.0.1", host_loopback, "127.0.0.1", SEEN },
    { "sockets: the host's 0.0.0.0", host_loopback, "0.0.0.0", SEEN },
    { "sockets: abstract socket of the host", host_abstract, NULL, SEEN },
    { "sockets: socket file of the host", host_unix_path, NULL, SEEN },
    { "sockets: anything in /proc/net/unix", listed_sockets, NULL, SEEN },
    { "sockets: IPv4 route out", no_route, "192.0.2.1", UNSEEN }, /* if the machine has one */
    { "sockets: IPv4 route to cloud metadata", no_route, "169.254.169.254", UNSEEN },
    { "sockets: IPv6 route out", no_route, "2001:db8::1", UNSEEN },
    { "sockets: no interface but lo", only_loopback, NULL, SEEN },
    { "sockets: interface flags", loopback_down, NULL, SEEN },
    { "sockets: netlink new route", new_route, NULL, SEEN },
    { "sockets: netlink delete link", delete_link, NULL, SEEN },
    { "sockets: netlink new address", new_address, NULL, SEEN },
    { "sockets: netlink nft batch", nft_batch, NULL, SEEN },
    { "sockets: netlink packet log", packet_log, NULL, UNSEEN }, /* not in every kernel */
    { "sockets: transparent socket", transparent, NULL, SEEN },
    { "sockets: privileged port", low_port, NULL, UNSEEN }, /* a sysctl of the machine */
    { "sockets: forged credentials", forged_credentials, NULL, SEEN },
    { "sockets: System V memory of the host", host_shared_memory, NULL, SEEN },
    { "sockets: filter", socket_filter, &(const int){ SO_ATTACH_FILTER }, SEEN },
    { "sockets: filter by descriptor", socket_filter, &(const int){ SO_ATTACH_BPF }, SEEN },
    { "sockets: filter of a group", socket_filter, &(const int){ SO_ATTACH_REUSEPORT_CBPF }, SEEN },
    { "sockets: filter of a group by descriptor", socket_filter,
      &(const int){ SO_ATTACH_REUSEPORT_EBPF }, SEEN },
    { "sockets: upper layer protocol of TCP", upper_protocol, NULL, SEEN },
    NO_SOCKET("raw IPv4 socket", AF_INET, SOCK_RAW, IPPROTO_ICMP),
    NO_SOCKET_UNSEEN("raw IPv6 socket", AF_INET6, SOCK_RAW, IPPROTO_ICMPV6),
    NO_SOCKET("packet socket", AF_PACKET, SOCK_RAW, 0),
    NO_SOCKET("packet socket without header", AF_PACKET, SOCK_DGRAM, 0),
    NO_SOCKET_UNSEEN("vsock to the hypervisor", AF_VSOCK, SOCK_STREAM, 0),
    NO_SOCKET_UNSEEN("kernel crypto socket (AF_ALG)", AF_ALG, SOCK_SEQPACKET, 0),
    NO_SOCKET_UNSEEN("key management socket (AF_KEY)", 15, SOCK_RAW, 2),
    NO_SOCKET_UNSEEN("XDP socket", 44, SOCK_RAW, 0),
    NO_SOCKET_UNSEEN("bluetooth socket", 31, SOCK_RAW, 1),
    NO_SOCKET_UNSEEN("CAN socket", 29, SOCK_RAW, 1),
    NO_SOCKET_UNSEEN("TIPC socket", 30, SOCK_SEQPACKET, 0),
    NO_SOCKET_UNSEEN("RDS socket", 21, SOCK_SEQPACKET, 0),
    NO_SOCKET_UNSEEN("SMC socket", 43, SOCK_STREAM, 0),
    NO_SOCKET("raw socket of any protocol", AF_INET, SOCK_RAW, IPPROTO_RAW),
    NO_SOCKET_UNSEEN("echo request socket", AF_INET, SOCK_DGRAM, IPPROTO_ICMP), /* a sysctl */
    NO_SOCKET_UNSEEN("SCTP socket", AF_INET, SOCK_STREAM, IPPROTO_SCTP),
    NO_SOCKET_UNSEEN("SCTP socket by its type", AF_INET6, SOCK_SEQPACKET, 0),
    NO_SOCKET_UNSEEN("DCCP socket", AF_INET, SOCK_DCCP, IPPROTO_DCCP),
    NO_SOCKET_UNSEEN("UDP-Lite socket", AF_INET6, SOCK_DGRAM, IPPROTO_UDPLITE),
    NO_SOCKET_UNSEEN("L2TP socket", AF_INET, SOCK_DGRAM, 115),
    NO_SOCKET_UNSEEN("MPTCP socket", AF_INET, SOCK_STREAM, 262),
    NO_SOCKET_UNSEEN("SMC socket of IPv4", AF_INET, SOCK_STREAM, 256),
    NO_SOCKET_UNSEEN("audit netlink socket", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT),
};

const struct attack_group attacks_sockets = GROUP(attacks);
