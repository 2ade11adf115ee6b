/* SPDX-License-Identifier: Apache-2.0 */
/* Resource limits of one sandbox, one connection and one message in a worker. */
#ifndef ENGINE_EGRESS_LIMITS_H
#define ENGINE_EGRESS_LIMITS_H

#include "base/clock.h"

enum {
    EGRESS_OPEN_MAX = 2048,       /* connections of one box */
    EGRESS_OPEN_ALONE_MAX = 9000, /* … if it is the only box of the worker: two descriptors each */
    EGRESS_OPEN_MIN = 8,          /* … for any number of boxes */
    EGRESS_FILES_SPARE = 128,     /* descriptors of a worker besides connections … */
    EGRESS_FILES_BOX = 16,        /* … and of one box besides connections: listeners, record */
    EGRESS_HEAD_MAX = 16 << 10,   /* of a request or response: 431, 502 */
    /* buffered of one side: one byte more, to detect excess */
    EGRESS_READ_MAX = EGRESS_HEAD_MAX + 1,
    EGRESS_BUFFER = 16 << 10,     /* bytes that a relay buffers of one direction */
    EGRESS_MAPPINGS_MAX = 1024,   /* live synthetic addresses of one box */
    EGRESS_AUDIT_LINE_MAX = 8192, /* bytes of an audit event's line */

    /* Names under a wildcard can carry data out even without a connection, so the lookups of a box
     * are limited in rate (lease.h): a burst, and then this many a second. */
    EGRESS_LOOKUPS_BURST = 100,
    EGRESS_LOOKUPS_A_SECOND = 20,
    EGRESS_LOOKUPS_MAX = 64, /* running */
    /* Searches for the program of a denied connection (authorize.c): a burst, and then this many a
     * second. */
    EGRESS_ATTRIBUTIONS_BURST = 40,
    EGRESS_ATTRIBUTIONS_A_SECOND = 20,
    /* Limits of one box's policy DNS: */
    EGRESS_DNS_WAITING_MAX = 256, /* questions that wait for lookups */
    EGRESS_DNS_CONNECTIONS_MAX = 32,
    EGRESS_DNS_PIPELINED_MAX = 16, /* waiting questions of a connection */
    EGRESS_DNS_QUERY_MAX = 1024,   /* bytes; holds a question with padding */
    EGRESS_DNS_TTL_MAX = 30,       /* seconds; the minimum is 1 */
};

/* Congestion control for connections within one machine. */
#define EGRESS_LOCAL_TCP "reno"

#define EGRESS_HEAD_NS  (10 * NS_PER_S)        /* for a whole head from the client */
#define EGRESS_HELLO_NS (10 * NS_PER_S)        /* for a whole ClientHello once it has begun */
#define EGRESS_DIAL_NS  (10 * NS_PER_S)        /* for one address */
#define EGRESS_IDLE_NS  (3600 * NS_PER_S)      /* of a tunnel without a byte either way */
#define EGRESS_TOTAL_NS (24 * 3600 * NS_PER_S) /* of a tunnel in all */
/* of a connection without a question or a read */
#define EGRESS_DNS_IDLE_NS  (10 * NS_PER_S)
#define EGRESS_DNS_SLACK_NS (2 * NS_PER_S)   /* a mapping outlives its answers by this time */
#define EGRESS_KEEP_NS      (120 * NS_PER_S) /* of an HTTP connection between two requests */
#define EGRESS_STALL_NS     (120 * NS_PER_S) /* without progress of a request or answer */
#define EGRESS_ANSWER_NS    (600 * NS_PER_S) /* from a request to the first byte of its answer */

#endif
