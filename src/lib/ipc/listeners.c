/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/ipc/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/own.h"

#define SLOT(slot) (1u << LISTENER_##slot)

enum {
    SLOTS_ALL = (1 << LISTENER_COUNT_) - 1,
    SLOTS_SIX = SLOT(PROXY6) | SLOT(CAPTURE6) | SLOT(DNS_UDP6) | SLOT(DNS_TCP6),
    SLOTS_NEEDED = SLOTS_ALL & ~SLOTS_SIX & ~SLOT(SOCKETS),
};

/* Expected values of socket options, to verify received descriptors. */
static const struct {
    const char *name;
    int domain, type, protocol;
    uint16_t port; /* 0: no port */
} kinds[LISTENER_COUNT_] = {
    [LISTENER_PROXY4] = { "proxy", AF_INET, SOCK_STREAM, IPPROTO_TCP, LISTENERS_PROXY_PORT },
    [LISTENER_PROXY6] = { "proxy", AF_INET6, SOCK_STREAM, IPPROTO_TCP, LISTENERS_PROXY_PORT },
    [LISTENER_CAPTURE4] = { "capture", AF_INET, SOCK_STREAM, IPPROTO_TCP, LISTENERS_CAPTURE_PORT },
    [LISTENER_CAPTURE6] = { "capture", AF_INET6, SOCK_STREAM, IPPROTO_TCP, LISTENERS_CAPTURE_PORT },
    [LISTENER_DNS_UDP4] = { "DNS", AF_INET, SOCK_DGRAM, IPPROTO_UDP, LISTENERS_DNS_PORT },
    [LISTENER_DNS_UDP6] = { "DNS", AF_INET6, SOCK_DGRAM, IPPROTO_UDP, LISTENERS_DNS_PORT },
    [LISTENER_DNS_TCP4] = { "DNS", AF_INET, SOCK_STREAM, IPPROTO_TCP, LISTENERS_DNS_PORT },
    [LISTENER_DNS_TCP6] = { "DNS", AF_INET6, SOCK_STREAM, IPPROTO_TCP, LISTENERS_DNS_PORT },
    [LISTENER_REJECTS] = { "rejects", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER, 0 },
    [LISTENER_SOCKETS] = { "sockets", AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG, 0 },
};

static bool can_take_port(uint16_t port)
{
    return port != LISTENERS_DNS_PORT && port != LISTENERS_PROXY_PORT &&
           port != LISTENERS_CAPTURE_PORT;
}

void listeners_take_port(struct listeners_taken *t, bool v6, uint16_t port)
{
    uint16_t *list = v6 ? t->v6 : t->v4;
    size_t n = 0;

    if (!can_take_port(port))
        return;
    while (n < LISTENERS_TAKEN_MAX && list[n] && list[n] != port)
        n++;
    if (n < LISTENERS_TAKEN_MAX)
        list[n] = port;
}

bool listeners_taken_valid(const struct listeners_taken *t)
{
    for (size_t i = 0; i < LISTENERS_TAKEN_MAX; i++)
        if (!can_take_port(t->v4[i]) || !can_take_port(t->v6[i]))
            return false;
    return true;
}

void listeners_init(struct listeners *l)
{
    for (size_t i = 0; i < LISTENER_COUNT_; i++)
        l->fd[i] = -1;
}

void listeners_done(struct listeners *l)
{
    for (size_t i = 0; i < LISTENER_COUNT_; i++)
        drop_fd(&l->fd[i]);
}

struct listeners take_listeners(struct listeners *l)
{
    struct listeners taken = *l;

    listeners_init(l);
    return taken;
}

size_t listeners_pack(const struct listeners *l, int ret_fds[static LISTENER_COUNT_],
                      uint32_t *ret_slots)
{
    size_t n = 0;

    *ret_slots = 0;
    for (size_t i = 0; i < LISTENER_COUNT_; i++)
        if (l->fd[i] >= 0) {
            *ret_slots |= 1u << i;
            ret_fds[n++] = l->fd[i];
        }
    return n;
}

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t n = sizeof value;

    return getsockopt(fd, SOL_SOCKET, option, &value, &n) < 0 ? -1 : value;
}

static uint16_t socket_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } a = { 0 };
    socklen_t n = sizeof a;

    if (getsockname(fd, &a.any, &n) < 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.six.sin6_port : a.four.sin_port);
}

static int check_one(int fd, size_t slot, struct err *e)
{
    int flags = fcntl(fd, F_GETFL);

    if (socket_option(fd, SO_DOMAIN) != kinds[slot].domain ||
        socket_option(fd, SO_TYPE) != kinds[slot].type ||
        socket_option(fd, SO_PROTOCOL) != kinds[slot].protocol ||
        (kinds[slot].type == SOCK_STREAM && socket_option(fd, SO_ACCEPTCONN) != 1) ||
        (kinds[slot].port != 0 && socket_port(fd) != kinds[slot].port))
        return err_set(e, ERR_DENIED, "a descriptor that is not the %s socket it should be",
                       kinds[slot].name);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_sys(e, "preparing a listener");
    return 0;
}

int listeners_take(struct ipc_fds *fds, uint32_t slots, struct listeners *ret, struct err *e)
{
    struct listeners got;
    size_t at = 0;

    if ((slots & ~(uint32_t)SLOTS_ALL) || (slots & SLOTS_NEEDED) != SLOTS_NEEDED ||
        ((slots & SLOTS_SIX) && (slots & SLOTS_SIX) != SLOTS_SIX) ||
        (size_t)__builtin_popcount(slots) != fds->n)
        return err_set(e, ERR_INVALID, "%zu descriptors for the listeners %x", fds->n, slots);
    listeners_init(&got);
    for (size_t i = 0; i < LISTENER_COUNT_; i++) {
        int r = slots & (1u << i) ? check_one(fds->fd[at], i, e) : 0;

        if (r < 0)
            return r;
        if (slots & (1u << i))
            got.fd[i] = fds->fd[at++];
    }
    fds->n = 0;
    *ret = got;
    return 0;
}
