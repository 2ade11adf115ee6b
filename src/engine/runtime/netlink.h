/* SPDX-License-Identifier: Apache-2.0 */
/* Netlink messages: built one after the other in one buffer, sent at once, and acknowledged.
 *
 *     struct netlink m;
 *
 *     netlink_init(&m);
 *     netlink_begin(&m, RTM_NEWROUTE, NLM_F_CREATE, &route, sizeof route);
 *     netlink_add_u32(&m, RTA_OIF, 1);
 *     r = netlink_talk(sock, &m, e);
 *
 * Lengths are always up to date. An overflow is detected when the buffer is sent. Own code, because
 * the launcher links no library. */
#ifndef ENGINE_RUNTIME_NETLINK_H
#define ENGINE_RUNTIME_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { NETLINK_ROOM = 16384, NETLINK_DEPTH = 8 };

struct netlink {
    _Alignas(8) uint8_t bytes[NETLINK_ROOM];
    size_t n;
    size_t message;              /* offset of the last message */
    size_t nests[NETLINK_DEPTH]; /* open attributes */
    size_t depth;
    uint32_t messages;
    bool broken; /* overflow, or unbalanced netlink_close() */
};

void netlink_init(struct netlink *m);

/* Begins a message: its type, flags beside NLM_F_REQUEST, and the header of its family. Messages
 * are numbered from 1. */
void netlink_begin(struct netlink *m, uint16_t type, uint16_t flags, const void *head, size_t n);

/* Adds attributes to the last message, or to the attribute that was opened last. */
void netlink_add(struct netlink *m, uint16_t type, const void *data, size_t n);
void netlink_add_u32(struct netlink *m, uint16_t type, uint32_t value);
void netlink_add_text(struct netlink *m, uint16_t type, const char *text);
/* In network byte order, for netfilter. */
void netlink_add_be16(struct netlink *m, uint16_t type, uint16_t value);
void netlink_add_be32(struct netlink *m, uint16_t type, uint32_t value);
void netlink_add_be64(struct netlink *m, uint16_t type, uint64_t value);
void netlink_open(struct netlink *m, uint16_t type);
void netlink_close(struct netlink *m);

/* Opens a non-blocking socket of a netlink protocol. */
int netlink_socket(int protocol, int *ret, struct err *e);
/* Sends all messages in one packet and reads the answers. Succeeds if no message was answered with
 * an error and the last one with NLM_F_ACK was acknowledged; otherwise -ERR_SYS, and errno is the
 * first error. */
int netlink_talk(int sock, const struct netlink *m, struct err *e);

#endif
