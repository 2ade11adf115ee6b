/* What NFLOG tells of packets: netlink messages of the kernel, and in each the packet's first
 * bytes, which are the sandbox's. Nothing is trusted, nothing allocated. */
#ifndef EGRESS_ADAPTERS_NFLOG_H
#define EGRESS_ADAPTERS_NFLOG_H

#include "net/address.h"

struct nflog_packet {
    int protocol; /* IP's number of what is behind the headers */
    struct address from, to;
    uint16_t from_port, to_port; /* 0 where the protocol has none, or they were not logged */
};

/* The next packet of what one recv() gave; *datagram moves behind it. Messages of other kinds, and
 * packets that are not IP, are passed over. False: there are no more. */
bool nflog_next(struct str *datagram, struct nflog_packet *ret);

/* A packet from its IP header on; it may be cut anywhere behind the addresses. */
bool nflog_parse_packet(struct str packet, struct nflog_packet *ret);

#endif
