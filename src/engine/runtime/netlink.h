/* Netlink messages: built one after the other into one buffer, sent at once, and answered.
 *
 *     struct netlink m;
 *
 *     netlink_init(&m);
 *     netlink_begin(&m, RTM_NEWROUTE, NLM_F_CREATE, &route, sizeof route);
 *     netlink_put_u32(&m, RTA_OIF, 1);
 *     r = netlink_talk(NETLINK_ROUTE, &m, e);
 *
 * Lengths are always those of what has been put so far. What does not fit is noticed when it is
 * sent. Ours, because the launcher links no library. */
#ifndef RUNTIME_NETLINK_H
#define RUNTIME_NETLINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { NETLINK_ROOM = 16384, NETLINK_DEPTH = 8 };

struct netlink {
    _Alignas(8) uint8_t bytes[NETLINK_ROOM];
    size_t n;
    size_t message;              /* where the last one begins */
    size_t nests[NETLINK_DEPTH]; /* attributes that are open */
    size_t depth;
    uint32_t messages;
    bool broken; /* something did not fit, or was closed that was not open */
};

void netlink_init(struct netlink *m);

/* A message: its type, flags beside NLM_F_REQUEST, and the header of its family. They are numbered
 * from 1. */
void netlink_begin(struct netlink *m, uint16_t type, uint16_t flags, const void *head, size_t n);

/* Attributes of the last message, or of the attribute that was opened last. */
void netlink_put(struct netlink *m, uint16_t type, const void *data, size_t n);
void netlink_put_u32(struct netlink *m, uint16_t type, uint32_t value);
void netlink_put_text(struct netlink *m, uint16_t type, const char *text);
/* In network order, as netfilter wants numbers. */
void netlink_put_be16(struct netlink *m, uint16_t type, uint16_t value);
void netlink_put_be32(struct netlink *m, uint16_t type, uint32_t value);
void netlink_put_be64(struct netlink *m, uint16_t type, uint64_t value);
void netlink_open(struct netlink *m, uint16_t type);
void netlink_close(struct netlink *m);

/* A socket of a netlink protocol; it does not block. */
int netlink_socket(int protocol, int *ret, struct err *e);
/* Sends everything in one packet and reads the answers. It went well if no message was answered
 * with an error and the last one that asked for an answer (NLM_F_ACK) got it; otherwise -ERR_SYS,
 * and errno is the first error. */
int netlink_talk(int sock, const struct netlink *m, struct err *e);

#endif
