/* Between the control plane and an egress worker: one message, one packet, on one seqpacket socket.
 *
 * All layouts are fixed, in host byte order, and checked by wire_check() before anything else looks
 * at them, in both directions. Requests are served in their order. A worker ends when the socket
 * closes, and its boxes with it: connections are reset, listeners wait for another worker.
 *
 *     to the worker                                   answered with
 *     ADD      a box: listeners, then the audit       ADDED or FAILED
 *              descriptor
 *     POLICY   its policy and the policy's ceiling,   APPLIED, when it is in force and everything
 *              as JSON in memfds                      that it does not allow is closed; or FAILED:
 *                                                     then the one before is in force still
 *     TEXTS    the same, as people write it           as POLICY
 *     REMOVE   a box, and all its connections         REMOVED, also if there was none
 *     AUDIT    another audit descriptor, or none,     nothing
 *              how much may be written to it, and
 *              why there is no more
 *     WHO_IS   the answer to WHO
 *     PING     are you there?                         PONG, with the same tag
 *
 *     from the worker
 *     WHO      whose is this socket inside the box?   WHO_IS; without one within WIRE_WHO_NS
 *                                                     nobody's
 *     USED     counters of a box, and the last line of its audit file, that moved, at most every
 *              WIRE_USED_NS, and before APPLIED and REMOVED
 *     FULL     the audit file has passed audit_part, or half of its room is used: send AUDIT; told
 *              again every WIRE_USED_NS. Without room nothing is allowed.
 */
#ifndef EGRESS_WIRE_H
#define EGRESS_WIRE_H

#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"

enum {
    WIRE_MAGIC = 0x52474553, /* "SEGR" */
    WIRE_VERSION = 3,
    WIRE_DIGEST = 32, /* bytes of a key, and of a chain value (egress/chain.h) */
    WIRE_PATH_MAX = 256,
    WIRE_ANCESTORS_MAX = 16,
};
#define WIRE_USED_NS (2 * NS_PER_S)
#define WIRE_WHO_NS  (2 * NS_PER_S)

enum wire_type {
    WIRE_ADD = 1, /* + descriptors as listeners_pack() has them, + the audit file's if has_audit */
    WIRE_POLICY,  /* + a memfd with the policy, + one with its ceiling (egress_ceiling.h) */
    WIRE_REMOVE,
    WIRE_AUDIT, /* + a descriptor, or none: the one it has */
    WIRE_WHO_IS,
    WIRE_TEXTS, /* + a memfd with the file's text if has_file, + one with the items if has_allow */
    WIRE_PING,  /* a head, as PONG */
    WIRE_ADDED = 64,
    WIRE_APPLIED,
    WIRE_FAILED,
    WIRE_REMOVED,
    WIRE_WHO,
    WIRE_USED,
    WIRE_FULL,
    WIRE_PONG,
};

/* Why no more may be written to an audit file than `room`. */
enum wire_lack {
    WIRE_LACK_NONE,  /* there is more: ask for it */
    WIRE_LACK_BOX,   /* the sandbox's log has as much as it may have */
    WIRE_LACK_OWNER, /* the logs of its owner have */
    WIRE_LACKS_,
};

struct wire_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t size; /* of the whole message */
    uint32_t tag;  /* of an answer to WHO or PING: the same; else 0 */
};

struct wire_add {
    struct wire_head head;
    char id[ID_MAX];
    uint32_t slots; /* which listeners: listeners_pack() */
    uint32_t has_audit;
    uint64_t audit_part; /* bytes after which FULL is told; 0: never */
    uint64_t audit_room; /* bytes that may be written to the descriptor; 0: no limit */
    uint64_t chain_seq;  /* the last line of the audit file, behind which its chain goes on … */
    unsigned char chain_digest[WIRE_DIGEST];
    unsigned char chain_key[WIRE_DIGEST];
    uint32_t has_chain_key;
    uint32_t audit_lack; /* enum wire_lack */
};

struct wire_audit {
    struct wire_head head;
    char id[ID_MAX];
    uint64_t room; /* as audit_room */
    uint32_t lack; /* enum wire_lack */
    uint32_t pad;
};

/* REMOVE, ADDED, REMOVED, FULL; and POLICY and APPLIED, with the generation. */
struct wire_box {
    struct wire_head head;
    char id[ID_MAX];
    uint64_t generation; /* of POLICY: not 0 */
};

/* For a control plane that reads no YAML: a policy file, items as --allow has them, or both. */
struct wire_texts {
    struct wire_head head;
    char id[ID_MAX];
    uint64_t generation;
    uint32_t has_file, has_allow; /* items: one a line */
    uint32_t spent;               /* another worker had it: no use of any entry is left */
    uint32_t pad;
    char name[WIRE_PATH_MAX]; /* the file's, for messages */
};

struct wire_failed {
    struct wire_head head;
    char id[ID_MAX];
    uint32_t request;    /* enum wire_type */
    uint32_t code;       /* enum err_code */
    uint64_t generation; /* of a POLICY or TEXTS */
    char msg[232];
};

struct wire_who {
    struct wire_head head;
    char id[ID_MAX];
    uint64_t inode; /* of the socket */
    uint32_t uid;   /* that the kernel has for it */
    uint32_t pad;
};

struct wire_who_is {
    struct wire_head head;
    uint32_t known; /* 0: nobody knows, or not all who hold the socket are one program */
    int32_t pid;
    uint32_t n_ancestors;
    uint32_t pad;
    char binary[WIRE_PATH_MAX];
    char hash[72]; /* 64 hexadecimal digits, or empty */
    char ancestors[WIRE_ANCESTORS_MAX][WIRE_PATH_MAX];
};

struct wire_used {
    struct wire_head head;
    char id[ID_MAX];
    uint64_t allowed, denied, connections, bytes_out, bytes_in;
    int64_t last_ns; /* CLOCK_MONOTONIC of the last byte */
    uint32_t open, pad;
    uint64_t chain_seq; /* the last line that is wholly in the audit file */
    unsigned char chain_digest[WIRE_DIGEST];
};

void wire_fill(struct wire_head *h, enum wire_type type, uint32_t tag, size_t size);

/* Magic, version, a known type and the size that goes with it, strings that end, an id of id
 * characters, counts within limits. */
int wire_check(const void *message, size_t n, struct err *e);

#endif
