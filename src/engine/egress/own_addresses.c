/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/own_addresses.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"

enum {
    REPLY_MAX = 32 << 10,
    READS_MAX = 256,    /* limit of datagrams in one dump and in one wake-up */
    SETTLE_MS = 20,     /* groups changes that follow each other */
    RETRY_MS = 1000,    /* after a failure */
    DUMP_WAIT_MS = 500, /* the kernel answers at once */
};

static int compare_own_addresses(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct address));
}

static bool read_address_attribute(const char *attribute, size_t length, int family,
                                   struct address *ret)
{
    size_t n = family == AF_INET6 ? 16 : 4;

    if (length != RTA_LENGTH(n))
        return false;
    *ret = (struct address){ .v6 = family == AF_INET6 };
    memcpy(ret->bytes, attribute + RTA_LENGTH(0), n);
    return true;
}

/* IFA_ADDRESS is the peer of a point-to-point link; IFA_LOCAL, if present, is our own address. */
static bool read_ifaddr_attributes(const char *at, size_t left, int family, struct address *ret)
{
    struct rtattr t;
    bool found = false;

    for (size_t step; left >= sizeof t; at += step, left -= step) {
        memcpy(&t, at, sizeof t);
        if (t.rta_len < sizeof t || t.rta_len > left)
            break;
        if (t.rta_type == IFA_LOCAL)
            return read_address_attribute(at, t.rta_len, family, ret);
        if (t.rta_type == IFA_ADDRESS)
            found = read_address_attribute(at, t.rta_len, family, ret);
        step = RTA_ALIGN((size_t)t.rta_len) < left ? RTA_ALIGN((size_t)t.rta_len) : left;
    }
    return found;
}

bool own_addresses_read_(const struct nlmsghdr *h, struct address *ret)
{
    const char *at = (const char *)h;
    size_t head = NLMSG_LENGTH(sizeof(struct ifaddrmsg));
    struct ifaddrmsg m;

    if (h->nlmsg_type != RTM_NEWADDR || h->nlmsg_len < head)
        return false;
    memcpy(&m, at + NLMSG_HDRLEN, sizeof m);
    if (m.ifa_family != AF_INET && m.ifa_family != AF_INET6)
        return false;
    return read_ifaddr_attributes(at + head, h->nlmsg_len - head, m.ifa_family, ret);
}

static int add_own_address(struct own_addresses *o, const struct address *a, struct err *e)
{
    if (o->n == OWN_ADDRESSES_MAX)
        return err_set(e, ERR_TOO_BIG, "this machine has more than %d addresses",
                       OWN_ADDRESSES_MAX);
    if (o->n % 64 == 0) {
        struct address *more = reallocarray(o->list, o->n + 64, sizeof *more);

        if (!more)
            abort();
        o->list = more;
    }
    o->list[o->n++] = *a;
    return 0;
}

/* Returns 1 when the dump is complete. */
static int read_address_messages(struct own_addresses *o, const char *text, size_t n, struct err *e)
{
    const struct nlmsghdr *h = (const void *)text;
    struct address a;
    int r = 0;

    for (; r == 0 && n >= sizeof *h && h->nlmsg_len >= sizeof *h && h->nlmsg_len <= n;
         n -= NLMSG_ALIGN(h->nlmsg_len) < n ? NLMSG_ALIGN(h->nlmsg_len) : n,
         h = (const void *)((const char *)h + NLMSG_ALIGN(h->nlmsg_len))) {
        if (h->nlmsg_seq != o->number_) /* of an abandoned dump */
            continue;
        if (h->nlmsg_flags & NLM_F_DUMP_INTR)
            return err_set(e, ERR_BUSY, "the addresses changed while they were read");
        if (h->nlmsg_type == NLMSG_ERROR)
            return err_set(e, ERR_UPSTREAM, "the kernel refuses to list the machine's addresses");
        if (h->nlmsg_type == NLMSG_DONE)
            return 1;
        if (own_addresses_read_(h, &a))
            r = add_own_address(o, &a, e);
    }
    return r;
}

static int dump_own_addresses(struct own_addresses *o, struct err *e)
{
    AUTO_FREE char *text = new0(REPLY_MAX);
    struct {
        struct nlmsghdr head;
        struct ifaddrmsg body;
    } q = { .head = { .nlmsg_len = sizeof q,
                      .nlmsg_type = RTM_GETADDR,
                      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                      .nlmsg_seq = ++o->number_ },
            .body = { .ifa_family = AF_UNSPEC } };
    int r = 0;

    if (send(o->dump_, &q, sizeof q, MSG_NOSIGNAL) != sizeof q)
        return err_sys(e, "requesting the machine's addresses");
    for (int i = 0; r == 0 && i < READS_MAX; i++) {
        ssize_t n = recv(o->dump_, text, REPLY_MAX, 0);

        r = n < 0 ? err_sys(e, "reading the machine's addresses")
                  : read_address_messages(o, text, (size_t)n, e);
    }
    if (r == 0)
        return err_set(e, ERR_UPSTREAM, "the list of the machine's addresses is incomplete");
    return r;
}

static int refresh_own_addresses(struct own_addresses *o, struct err *e)
{
    int r;

    o->n = 0;
    r = dump_own_addresses(o, e);
    o->unknown = r < 0;
    if (o->n)
        qsort(o->list, o->n, sizeof *o->list, compare_own_addresses);
    return r < 0 ? r : 0;
}

static void on_address_refresh(struct loop_timer *t)
{
    struct own_addresses *o = container_of(t, struct own_addresses, timer_);
    struct err e;

    if (refresh_own_addresses(o, &e) >= 0)
        return;
    LOG(WARN, "egress.own_addresses.unknown", LOG_S("error", e.msg));
    loop_timer_start(t->loop, t, clock_mono() + RETRY_MS * NS_PER_MS, on_address_refresh, NULL);
}

/* Reads all addresses again on any change, so notifications may be lost. */
static void on_address_change(struct loop_fd *s, unsigned events)
{
    struct own_addresses *o = container_of(s, struct own_addresses, fd_);
    char waste[4096];

    for (int i = 0; i < READS_MAX; i++)
        if (recv(s->fd, waste, sizeof waste, MSG_DONTWAIT) < 0 && errno != ENOBUFS &&
            errno != EINTR)
            break;
    if (!loop_timer_started(&o->timer_))
        loop_timer_start(s->loop, &o->timer_, clock_mono() + SETTLE_MS * NS_PER_MS,
                         on_address_refresh, NULL);
}

/* The dumps use a socket of their own, so that no notification comes between their messages. It
 * stays open, because a confined process cannot open another one. */
int own_addresses_start(struct own_addresses *o, struct loop *l, struct err *e)
{
    struct timeval wait = { .tv_usec = DUMP_WAIT_MS * 1000 };
    struct sockaddr_nl at = { .nl_family = AF_NETLINK,
                              .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };
    int r;

    *o = (struct own_addresses){ .started_ = true };
    o->dump_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    o->news_ = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (o->dump_ < 0 || setsockopt(o->dump_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0)
        r = err_sys(e, "opening a netlink socket");
    else if (o->news_ < 0 || bind(o->news_, (const struct sockaddr *)&at, sizeof at) < 0)
        r = err_sys(e, "subscribing to changes of the machine's addresses");
    else
        r = loop_fd_start(l, &o->fd_, o->news_, LOOP_READ, on_address_change, e);
    for (int tries = 0; r >= 0 && tries < 3; tries++) {
        r = refresh_own_addresses(o, e);
        if (r != -(int)ERR_BUSY)
            break;
        r = 0;
    }
    if (r < 0)
        own_addresses_done(o);
    return r;
}

void own_addresses_done(struct own_addresses *o)
{
    if (!o->started_)
        return;
    o->started_ = false;
    loop_fd_stop(&o->fd_);
    loop_timer_stop(&o->timer_);
    drop_fd(&o->news_);
    drop_fd(&o->dump_);
    free(take_ptr(o->list));
    o->n = 0;
    o->unknown = true;
}

/* An IPv4-mapped IPv6 address is dialled as IPv4 in effect. */
bool own_addresses_has(const struct own_addresses *o, const struct address *a)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    struct address key = *a;

    if (a->v6 && memcmp(a->bytes, mapped, sizeof mapped) == 0) {
        key = (struct address){ 0 };
        memcpy(key.bytes, a->bytes + sizeof mapped, 4);
    }
    if (o->unknown)
        return true;
    return o->n && bsearch(&key, o->list, o->n, sizeof key, compare_own_addresses) != NULL;
}
