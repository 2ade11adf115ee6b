/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's hash chain: every event is linked to its predecessor, in the transaction that adds
 * it.
 *
 * An event's chain value is HMAC-SHA-256, with a key that is a sealed setting, over the value of
 * its predecessor and all columns of its own row. The ledger's only row is the head: number and
 * value of the last event, number of the first chained event, and the time until which retention
 * has removed sandboxes; with a MAC. It is written once per commit.
 *
 * Events removed by retention leave a cut: the numbers of the first and the last event and the
 * value of the last, with a MAC. So later events can be verified, and a removal without the key is
 * detected. Adjacent cuts are merged, so there is usually one.
 *
 * Lines of egress logs (engine/egress/chain.h) are anchored here: egress_heads has the last known line of
 * each sandbox, with a MAC, and events name it in their detail:
 *
 *     {"egress_audit":[{"sandbox":"sbx_…","seq":7,"digest":"HEX"}]} */
#ifndef DOMAIN_STORE_LEDGER_H
#define DOMAIN_STORE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "lib/crypto/hash.h"

enum { LEDGER_SIZE = 32, LEDGER_FINDINGS_MAX = 16 };

#define LEDGER_ANCHORS "egress_audit" /* the member of an event's detail */

struct ledger_head {
    int64_t first; /* the first chained event; 0: no ledger */
    int64_t seq;   /* the last event */
    unsigned char digest[LEDGER_SIZE];
};

/* The state that a transaction changes, and restores when it fails. */
struct ledger_state {
    struct ledger_head head;
    int64_t pruned_ns; /* sandboxes that ended earlier are removed, or will be */
    bool moved;        /* changed since the head was written */
};

struct ledger {
    bool on;
    unsigned char key[LEDGER_SIZE];
    struct crypto_hmac mac;
    struct ledger_state at;
};

struct ledger_cut {
    int64_t first, last; /* last 0: empty */
    unsigned char digest[LEDGER_SIZE];
};

/* A line of an egress log that an event names. */
struct ledger_anchor {
    char sandbox[ID_MAX];
    uint64_t seq;
    unsigned char digest[LEDGER_SIZE];
    int64_t event, time_ns;
};

enum ledger_fault {
    LEDGER_CHANGED,     /* the row does not match its chain value */
    LEDGER_MISSING,     /* rows are missing, and no cut accounts for them */
    LEDGER_UNCHAINED,   /* a row behind the first chained one has no chain value */
    LEDGER_CUT_FORGED,  /* the MAC of a cut is invalid */
    LEDGER_HEAD_GONE,   /* the head is missing */
    LEDGER_HEAD_FORGED, /* the MAC of the head is invalid, or the head does not match the events */
    LEDGER_SHORT,       /* rows are missing at the end */
    LEDGER_UNEXPECTED,  /* the event differs from the caller's expectation */
    LEDGER_OLDER,       /* the chain ends before the expected event */
    LEDGER_FAULTS_,
};
extern const char *const ledger_fault_names[LEDGER_FAULTS_];

struct ledger_finding {
    enum ledger_fault fault;
    int64_t seq, to; /* the event; of missing events the first and the last */
    int64_t time_ns; /* of the event; 0: unknown */
};

/* Verifies the whole chain, some events per query (STORE_LEDGER). Zeroed before the first. */
struct ledger_walk {
    /* in */
    int64_t since_ns;          /* earlier events are not verified */
    struct ledger_head expect; /* seq and digest; seq 0: no expectation */
    /* out */
    bool finished;
    struct ledger_head head;
    int64_t pruned_ns;
    uint64_t events, unchained; /* verified events; events older than the chain */
    bool expected;              /* the expected event was found, with the same digest */
    struct ledger_finding findings[LEDGER_FINDINGS_MAX];
    size_t n_findings; /* in total; the array has the first ones */
    /* private */
    struct ledger_head last_;
    bool began_;
};

/* Writes a sentence that describes the finding. */
void ledger_explain(const struct ledger_finding *f, char *ret, size_t cap);

#endif
