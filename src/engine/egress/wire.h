/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between the control plane and an egress worker: one message per packet, on one
 * seqpacket socket.
 *
 * All layouts are fixed, in host byte order, and checked by wire_check() in both directions before
 * any other use. Requests are served in order. A worker ends when the socket closes, and its boxes
 * with it: connections are reset, listeners wait for another worker.
 *
 *     to the worker                                   answered with
 *     ADD      a box: listeners, then the audit       ADDED or FAILED
 *              descriptor
 *     POLICY   its policy and the policy's ceiling,   APPLIED, when it is in force and everything
 *              as JSON in memfds                      that it does not allow is closed; or FAILED:
 *                                                     then the old policy is still in force
 *     TEXTS    the same, in the users' format         like POLICY
 *     REMOVE   a box, and all its connections         REMOVED, also if there was no such box
 *     AUDIT    another audit descriptor, or none,     nothing
 *              how much may be written to it, and
 *              the quota that limits it
 *     WHO_IS   the answer to WHO
 *     PING     a liveness check                       PONG, with the same tag
 *
 *     from the worker
 *     WHO      which process holds this socket        WHO_IS; unknown after WIRE_WHO_NS
 *              inside the box?
 *     USED     changed counters of a box, and the last line of its audit file, at most every
 *              WIRE_USED_NS, and before APPLIED and REMOVED
 *     FULL     the audit file has passed audit_part, or half of its room is used: send AUDIT;
 *              repeated every WIRE_USED_NS. Without room nothing is allowed. */
#ifndef ENGINE_EGRESS_WIRE_H
#define ENGINE_EGRESS_WIRE_H

#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"

enum {
    WIRE_MAGIC = 0x52474553, /* "SEGR" */
    WIRE_VERSION = 3,
    WIRE_DIGEST = 32, /* bytes of a key and of a chain value (engine/egress/chain.h) */
    WIRE_PATH_MAX = 256,
    WIRE_ANCESTORS_MAX = 16,
};
#define WIRE_USED_NS (2 * NS_PER_S)
#define WIRE_WHO_NS  (2 * NS_PER_S)

enum wire_type {
    /* + descriptors in the order of listeners_pack(), + the audit file if has_audit */
    WIRE_ADD = 1,
    WIRE_POLICY, /* + a memfd with the policy, + one with its ceiling (egress_ceiling.h) */
    WIRE_REMOVE,
    WIRE_AUDIT, /* + a descriptor, or none: keep the current one */
    WIRE_WHO_IS,
    WIRE_TEXTS, /* + a memfd with the file's text if has_file, + one with the items if has_allow */
    WIRE_PING,  /* only a head, like PONG */
    WIRE_ADDED = 64,
    WIRE_APPLIED,
    WIRE_FAILED,
    WIRE_REMOVED,
    WIRE_WHO,
    WIRE_USED,
    WIRE_FULL,
    WIRE_PONG,
};

/* Why the room of an audit file is limited. */
enum wire_lack {
    WIRE_LACK_NONE,  /* more room can be requested */
    WIRE_LACK_BOX,   /* the sandbox's log has reached its quota */
    WIRE_LACK_OWNER, /* the owner's logs have reached their quota */
    WIRE_LACKS_,
};

struct wire_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t size; /* of the whole message */
    uint32_t tag;  /* of WHO_IS and PONG: that of the request; else 0 */
};

struct wire_add {
    struct wire_head head;
    char id[ID_MAX];
    uint32_t slots; /* which listeners are included: listeners_pack() */
    uint32_t has_audit;
    uint64_t audit_part; /* size after which FULL is sent; 0: never */
    uint64_t audit_room; /* bytes that may be written to the descriptor; 0: no limit */
    uint64_t chain_seq;  /* the last line of the audit file, which the chain continues … */
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

/* For a control plane that does not parse YAML: a policy file, items of --allow, or both. */
struct wire_texts {
    struct wire_head head;
    char id[ID_MAX];
    uint64_t generation;
    uint32_t has_file, has_allow; /* items: one per line */
    uint32_t spent;               /* another worker had the policy: all uses are spent */
    uint32_t identify;            /* 1: record the program of every connection, if it is known */
    char name[WIRE_PATH_MAX];     /* of the file, for error messages */
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
    uint32_t uid;   /* the socket's, as reported by the kernel */
    uint32_t pad;
};

struct wire_who_is {
    struct wire_head head;
    uint32_t known; /* 0: unknown, or different programs hold the socket */
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
    uint64_t chain_seq; /* the last completely written line of the audit file */
    unsigned char chain_digest[WIRE_DIGEST];
};

void wire_fill(struct wire_head *h, enum wire_type type, uint32_t tag, size_t size);

/* Checks magic, version, type and its size, terminated strings, the characters of ids, and
 * counts. */
int wire_check(const void *message, size_t n, struct err *e);

#endif
