/* What one sandbox, one connection, one message may take of a worker. */
#ifndef EGRESS_LIMITS_H
#define EGRESS_LIMITS_H

#include "base/clock.h"

enum {
    EGRESS_OPEN_MAX = 2048,       /* connections of one box */
    EGRESS_OPEN_ALONE_MAX = 9000, /* … where it has the worker to itself: two descriptors each */
    EGRESS_OPEN_MIN = 8,          /* … however many boxes the worker has */
    EGRESS_FILES_SPARE = 128,     /* descriptors of a worker that are no connection's … */
    EGRESS_FILES_BOX = 16,        /* … and those of one box: listeners, record */
    EGRESS_HEAD_MAX = 16 << 10,   /* of a request or response: 431, 502 */
    EGRESS_READ_MAX = EGRESS_HEAD_MAX + 1, /* held of a side: one byte too many can be seen */
    EGRESS_BUFFER = 16 << 10,              /* what a relay holds of one direction */
    EGRESS_MAPPINGS_MAX = 1024,            /* live synthetic addresses of one box */
    EGRESS_AUDIT_LINE_MAX = 8192,          /* bytes of an audit event */

    /* Names under a wildcard carry bytes out, whether or not anybody connects to them, so a box's
     * lookups have a rate (lease.h): the burst at once, and then so many a second. */
    EGRESS_LOOKUPS_BURST = 100,
    EGRESS_LOOKUPS_A_SECOND = 20,
    EGRESS_LOOKUPS_MAX = 64, /* running */
    /* Of one box's policy DNS: */
    EGRESS_DNS_WAITING_MAX = 256, /* questions that wait for them */
    EGRESS_DNS_CONNECTIONS_MAX = 32,
    EGRESS_DNS_PIPELINED_MAX = 16, /* waiting questions of a connection */
    EGRESS_DNS_QUERY_MAX = 1024,   /* bytes; a question with all its padding needs less */
    EGRESS_DNS_TTL_MAX = 30,       /* seconds; the least is 1 */
};

/* Congestion control where no network is in between. */
#define EGRESS_LOCAL_TCP "reno"

#define EGRESS_HEAD_NS      (10 * NS_PER_S)        /* for a whole head from the client */
#define EGRESS_HELLO_NS     (10 * NS_PER_S)        /* for a whole ClientHello once it has begun */
#define EGRESS_DIAL_NS      (10 * NS_PER_S)        /* for one address */
#define EGRESS_IDLE_NS      (3600 * NS_PER_S)      /* of a tunnel without a byte either way */
#define EGRESS_TOTAL_NS     (24 * 3600 * NS_PER_S) /* of a tunnel, whatever it carries */
#define EGRESS_DNS_IDLE_NS  (10 * NS_PER_S)        /* of a connection that asks or reads nothing */
#define EGRESS_DNS_SLACK_NS (2 * NS_PER_S)   /* a mapping outlives its answers: then they connect */
#define EGRESS_KEEP_NS      (120 * NS_PER_S) /* of an HTTP connection between two requests */
#define EGRESS_STALL_NS     (120 * NS_PER_S) /* of a request or answer that does not go on */
#define EGRESS_ANSWER_NS    (600 * NS_PER_S) /* from a request to the first byte of its answer */

#endif
