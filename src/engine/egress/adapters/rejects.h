/* SPDX-License-Identifier: Apache-2.0 */
/* Audits attempts to bypass the egress plane: the boundary's rules reject such packets and log them
 * (lib/ipc/listeners.h); this module turns the log into audit events. */
#ifndef ENGINE_EGRESS_ADAPTERS_REJECTS_H
#define ENGINE_EGRESS_ADAPTERS_REJECTS_H

#include "engine/egress/egress.h"
#include "lib/net/address.h"

/* Parses NFLOG datagrams: netlink messages of the kernel, each with the first bytes of a packet,
 * which the sandbox controls. Trusts no input and does not allocate. */

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

struct rejects;

/* Reads the box's LISTENER_REJECTS, if there is one. Freed with the box, before its listeners and
 * its audit: the last packets are recorded then. *ret is set also on failure. */
int rejects_new(struct egress_box *b, struct rejects **ret, struct err *e);
void rejects_free(struct rejects *r); /* NULL is fine */

#endif
