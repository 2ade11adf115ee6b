/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/adapters/rejects.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/audit.h"
#include "lib/loop/fd.h"

enum {
    V4_HEAD = 20,
    V6_HEAD = 40,
    V6_HEADERS_MAX = 8, /* between the address and the ports */
    PORTS = 4,
};

/* --- Packets --- */

static uint16_t u16_at(struct str s, size_t at)
{
    return (uint16_t)((uint8_t)s.p[at] << 8 | (uint8_t)s.p[at + 1]);
}

static uint8_t u8_at(struct str s, size_t at)
{
    return (uint8_t)s.p[at];
}

static bool has_ports(int protocol)
{
    return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
           protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP;
}

static void read_packet_ports(struct str packet, size_t at, struct nflog_packet *p)
{
    if (!has_ports(p->protocol) || at > packet.n || packet.n - at < PORTS)
        return;
    p->from_port = u16_at(packet, at);
    p->to_port = u16_at(packet, at + 2);
}

static bool parse_ipv4_packet(struct str packet, struct nflog_packet *p)
{
    size_t head;

    if (packet.n < V4_HEAD)
        return false;
    head = (size_t)(u8_at(packet, 0) & 15) * 4;
    if (head < V4_HEAD)
        return false;
    p->protocol = u8_at(packet, 9);
    memcpy(p->from.bytes, packet.p + 12, 4);
    memcpy(p->to.bytes, packet.p + 16, 4);
    if ((u16_at(packet, 6) & 0x1fff) == 0) /* later fragments have no ports */
        read_packet_ports(packet, head, p);
    return true;
}

static bool is_extension(int protocol)
{
    return protocol == IPPROTO_HOPOPTS || protocol == IPPROTO_ROUTING ||
           protocol == IPPROTO_DSTOPTS || protocol == IPPROTO_AH || protocol == IPPROTO_FRAGMENT;
}

static size_t extension_length(int protocol, uint8_t length)
{
    if (protocol == IPPROTO_FRAGMENT)
        return 8;
    return protocol == IPPROTO_AH ? ((size_t)length + 2) * 4 : ((size_t)length + 1) * 8;
}

/* Skips the extension headers: p->protocol is the first protocol that is not an extension. */
static bool parse_ipv6_packet(struct str packet, struct nflog_packet *p)
{
    size_t at = V6_HEAD;

    if (packet.n < V6_HEAD)
        return false;
    p->protocol = u8_at(packet, 6);
    p->from.v6 = p->to.v6 = true;
    memcpy(p->from.bytes, packet.p + 8, 16);
    memcpy(p->to.bytes, packet.p + 24, 16);
    for (int i = 0; i < V6_HEADERS_MAX && is_extension(p->protocol); i++) {
        int extension = p->protocol;

        if (at > packet.n || packet.n - at < 8)
            return true;
        p->protocol = u8_at(packet, at);
        if (extension == IPPROTO_FRAGMENT && (u16_at(packet, at + 2) & 0xfff8) != 0)
            return true; /* its ports were in the first fragment */
        at += extension_length(extension, u8_at(packet, at + 1));
    }
    read_packet_ports(packet, at, p);
    return true;
}

bool nflog_parse_packet(struct str packet, struct nflog_packet *ret)
{
    int version = packet.n ? u8_at(packet, 0) >> 4 : 0;

    *ret = (struct nflog_packet){ 0 };
    if (version == 4)
        return parse_ipv4_packet(packet, ret);
    return version == 6 && parse_ipv6_packet(packet, ret);
}

/* --- Netlink --- */

/* Cuts an attribute of `length` bytes, padded to four, off the front; false if it is incomplete. */
static bool cut_netlink_piece(struct str *from, size_t length, size_t head, struct str *ret)
{
    size_t padded = (length + 3) & ~(size_t)3;

    if (length < head || length > from->n)
        return false;
    *ret = (struct str){ from->p + head, length - head };
    if (padded > from->n)
        padded = from->n;
    *from = (struct str){ from->p + padded, from->n - padded };
    return true;
}

static bool find_payload(struct str attributes, struct str *ret)
{
    struct nlattr a;

    while (attributes.n >= sizeof a) {
        memcpy(&a, attributes.p, sizeof a);
        if (!cut_netlink_piece(&attributes, a.nla_len, sizeof a, ret))
            return false;
        if ((a.nla_type & NLA_TYPE_MASK) == NFULA_PAYLOAD)
            return true;
    }
    return false;
}

bool nflog_next(struct str *datagram, struct nflog_packet *ret)
{
    const uint16_t packet_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET;
    struct nlmsghdr h;
    struct str body, payload;

    while (datagram->n >= sizeof h) {
        memcpy(&h, datagram->p, sizeof h);
        if (!cut_netlink_piece(datagram, h.nlmsg_len, sizeof h, &body))
            return false;
        if (h.nlmsg_type != packet_type || body.n < sizeof(struct nfgenmsg))
            continue;
        body = (struct str){ body.p + sizeof(struct nfgenmsg), body.n - sizeof(struct nfgenmsg) };
        if (find_payload(body, &payload) && nflog_parse_packet(payload, ret))
            return true;
    }
    return false;
}

enum {
    READS_A_BATCH = 16,
    BATCHES_AT_END = 64,
    DATAGRAM_MAX = 16 << 10, /* room for several packets: the kernel may batch them */
};

struct rejects {
    struct egress_box *box;
    struct loop_fd source;
};

/* Whether there may be more. */
static bool read_rejects(struct rejects *r)
{
    int fd = r->box->listeners.fd[LISTENER_REJECTS];
    char datagram[DATAGRAM_MAX];
    struct nflog_packet p;

    for (int i = 0; i < READS_A_BATCH; i++) {
        struct sockaddr_nl from = { 0 };
        socklen_t from_n = sizeof from;
        ssize_t n = recvfrom(fd, datagram, sizeof datagram, 0, (struct sockaddr *)&from, &from_n);

        if (n < 0 && errno != ENOBUFS && errno != EINTR)
            return false;
        if (n <= 0 || from.nl_family != AF_NETLINK || from.nl_pid != 0) /* not the kernel */
            continue;
        for (struct str left = { datagram, (size_t)n }; nflog_next(&left, &p);) {
            r->box->counters.denied++;
            audit_reject(r->box->audit, p.protocol, &p.from, p.from_port, &p.to, p.to_port);
        }
    }
    return true;
}

static void on_rejects_readable(struct loop_fd *s, unsigned events)
{
    read_rejects(container_of(s, struct rejects, source));
}

int rejects_new(struct egress_box *b, struct rejects **ret, struct err *e)
{
    int fd = b->listeners.fd[LISTENER_REJECTS];
    struct rejects *r = *ret = new0(sizeof *r);

    r->box = b;
    return fd < 0
               ? 0
               : loop_fd_start(b->egress->loop, &r->source, fd, LOOP_READ, on_rejects_readable, e);
}

void rejects_free(struct rejects *r)
{
    if (!r)
        return;
    if (r->box->listeners.fd[LISTENER_REJECTS] >= 0)
        for (int i = 0; i < BATCHES_AT_END && read_rejects(r); i++)
            ;
    loop_fd_stop(&r->source);
    free(r);
}
