/* SPDX-License-Identifier: Apache-2.0 */
/* One audit event before it is written. Private to egress; docs/egress-audit.md has the shape. */
#ifndef ENGINE_EGRESS_AUDIT_EVENT_H
#define ENGINE_EGRESS_AUDIT_EVENT_H

#include "engine/egress/authorize.h"

enum audit_what {
    AUDIT_ALLOW,
    AUDIT_DENY,
    AUDIT_REQUEST,
    AUDIT_CLOSE,
    AUDIT_LOOKUP,    /* a name is sent to a resolver */
    AUDIT_REJECT,    /* rejected by the boundary's rules */
    AUDIT_MALFORMED, /* the destination is not known */
    AUDIT_POLICY,
    AUDIT_MORE, /* denials beyond the kinds that are counted separately */
};

enum audit_text {
    AUDIT_HOST,
    AUDIT_METHOD,
    AUDIT_PATH,
    AUDIT_POLICY_NAME,
    AUDIT_ENDPOINT,
    AUDIT_RULE,
    AUDIT_CODE,
    AUDIT_WHY,
    AUDIT_NEXT,
    AUDIT_BINARY,
    AUDIT_HASH,
    AUDIT_PARENT,
    AUDIT_HOW, /* how a connection ended */
    AUDIT_TEXTS_,
};

enum { AUDIT_NO_ADAPTER = -1 };

struct audit_event {
    enum audit_what what;
    enum egress_verdict verdict;
    int adapter;         /* enum egress_adapter, or AUDIT_NO_ADAPTER */
    int64_t time, since; /* wall clock ns; since: time of the first of `count` denials */
    uint64_t count;      /* number of denials that it summarizes */
    uint64_t id;         /* of the decision; 0: no decision */
    uint64_t generation;
    int protocol; /* IP protocol number; 0: not known */
    bool has_client, has_to;
    struct address client, to;
    uint16_t client_port, port; /* 0: not known */
    bool known;                 /* whether the client process is known: */
    int32_t pid;
    uint32_t uid;
    uint64_t bytes_out, bytes_in;
    int64_t took_ns;
    struct str text[AUDIT_TEXTS_]; /* borrowed, unescaped */
};

/* Writes the event as one line with its newline. The line is printable UTF-8 for all texts, which
 * are truncated and escaped. Returns its length; 0 if it does not fit, which no event reaches. */
size_t audit_event_write(const struct audit_event *ev, const char *box_id,
                         char out[static EGRESS_AUDIT_LINE_MAX]);

enum { AUDIT_KIND_SIZE = 16 };

/* Digest of the fields in which two denials of the same kind agree: they are counted as one. It is
 * a cryptographic digest, so that a client cannot produce a collision. */
void audit_event_kind(const struct audit_event *ev, unsigned char out[static AUDIT_KIND_SIZE]);

/* Returns a copy with its texts in one allocation; release it with free(). */
struct audit_event *audit_event_dup(const struct audit_event *ev);

#endif
