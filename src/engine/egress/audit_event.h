/* One audit event before it is written. Private to egress; docs/egress-audit.md has the shape. */
#ifndef EGRESS_AUDIT_EVENT_H
#define EGRESS_AUDIT_EVENT_H

#include "egress/authorize.h"

enum audit_what {
    AUDIT_ALLOW,
    AUDIT_DENY,
    AUDIT_REQUEST,
    AUDIT_CLOSE,
    AUDIT_LOOKUP,    /* a name leaves */
    AUDIT_REJECT,    /* by the boundary's rules */
    AUDIT_MALFORMED, /* nothing is known of where it was to go */
    AUDIT_POLICY,
    AUDIT_MORE, /* denials beyond the kinds that are told apart */
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
    AUDIT_HOW, /* a connection ended */
    AUDIT_TEXTS_,
};

enum { AUDIT_NO_ADAPTER = -1 };

struct audit_event {
    enum audit_what what;
    enum egress_verdict verdict;
    int adapter;         /* enum egress_adapter, or AUDIT_NO_ADAPTER */
    int64_t time, since; /* wall clock ns; since: when the first of `count` was */
    uint64_t count;      /* how many it stands for */
    uint64_t id;         /* the decision's; 0: there was none */
    uint64_t generation;
    int protocol; /* IP's number; 0: not known */
    bool has_client, has_to;
    struct address client, to;
    uint16_t client_port, port; /* 0: not known */
    bool known;                 /* who asked: */
    int32_t pid;
    uint32_t uid;
    uint64_t bytes_out, bytes_in;
    int64_t took_ns;
    struct str text[AUDIT_TEXTS_]; /* borrowed, as they came from outside */
};

/* The event as one line with its newline, of printable UTF-8 whatever the texts are: they are cut
 * and escaped. Its length; 0: it does not fit, which no event is too long for. */
size_t audit_event_write(const struct audit_event *ev, const char *box_id,
                         char out[static EGRESS_AUDIT_LINE_MAX]);

enum { AUDIT_KIND_SIZE = 16 };

/* What makes two denials the same: equal kinds are counted as one. A digest, so that nobody finds
 * two denials that pass for one. */
void audit_event_kind(const struct audit_event *ev, unsigned char out[static AUDIT_KIND_SIZE]);

/* A copy with its texts, in one piece, to be freed with free(). */
struct audit_event *audit_event_dup(const struct audit_event *ev);

#endif
