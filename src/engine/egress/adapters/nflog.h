/* SPDX-License-Identifier: Apache-2.0 */
/* Parses NFLOG datagrams: netlink messages of the kernel, each with the first bytes of a packet,
 * which the sandbox controls. Trusts no input and does not allocate. */
#ifndef ENGINE_EGRESS_ADAPTERS_NFLOG_H
#define ENGINE_EGRESS_ADAPTERS_NFLOG_H

#include "lib/net/address.h"

struct nflog_packet {
    int protocol; /* IP protocol number behind all headers */
    struct address from, to;
    uint16_t from_port, to_port; /* 0 where the protocol has none, or they were not logged */
};

/* Returns the next packet of a datagram from recv(), and advances *datagram behind it. Skips
 * messages of other types and packets that are not IP. False at the end of the datagram. */
bool nflog_next(struct str *datagram, struct nflog_packet *ret);

/* Parses a packet that begins with its IP header. It may be truncated anywhere behind the
 * addresses. */
bool nflog_parse_packet(struct str packet, struct nflog_packet *ret);

#endif
