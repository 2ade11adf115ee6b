/* The daemon's chain: every event is linked to the one before it, in the transaction that adds it.
 *
 * An event's chain value is HMAC-SHA-256, with a key that is a sealed setting, over the value of
 * the event before it and all columns of its own row. The ledger's one row is the head: the last
 * event's number and value, which event is the first that is chained, and until when sandboxes were
 * removed by retention; with a mac. It is written once for each commit.
 *
 * Events that retention removes leave a cut: the first and last of them and the last one's value,
 * with a mac, so that what follows can be checked, and a removal by anybody else cannot pass for
 * one. Adjacent cuts are merged, so there is mostly one.
 *
 * Lines of egress logs (egress/chain.h) are anchored here: egress_heads has the last known line of
 * each sandbox, with a mac, and events name it in their detail:
 *
 *     {"egress_audit":[{"sandbox":"sbx_…","seq":7,"digest":"HEX"}]} */
#ifndef STORE_LEDGER_H
#define STORE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "crypto/hash.h"

enum { LEDGER_SIZE = 32, LEDGER_FINDINGS_MAX = 16 };

#define LEDGER_ANCHORS "egress_audit" /* the member of an event's detail */

struct ledger_head {
    int64_t first; /* the first event that is chained; 0: there is no ledger */
    int64_t seq;   /* the last event */
    unsigned char digest[LEDGER_SIZE];
};

/* What a transaction changes, and takes back when it fails. */
struct ledger_state {
    struct ledger_head head;
    int64_t pruned_ns; /* sandboxes that ended before are removed, or will be */
    bool moved;        /* since the head was written */
};

struct ledger {
    bool on;
    unsigned char key[LEDGER_SIZE];
    struct crypto_hmac mac;
    struct ledger_state at;
};

struct ledger_cut {
    int64_t first, last; /* 0: nothing yet */
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
    LEDGER_CHANGED,     /* a row is not what was written */
    LEDGER_MISSING,     /* rows are missing before it */
    LEDGER_UNCHAINED,   /* it has no chain value, but those before it have */
    LEDGER_CUT_FORGED,  /* the record of a removal is not ours */
    LEDGER_HEAD_GONE,   /* the head is missing */
    LEDGER_HEAD_FORGED, /* the head is not ours */
    LEDGER_SHORT,       /* rows are missing at the end */
    LEDGER_UNEXPECTED,  /* it is not the one that the caller expects */
    LEDGER_OLDER,       /* the chain ends before the event that the caller expects */
    LEDGER_FAULTS_,
};
extern const char *const ledger_fault_names[LEDGER_FAULTS_];

struct ledger_finding {
    enum ledger_fault fault;
    int64_t seq, to; /* the event; of missing ones the first and the last */
    int64_t time_ns; /* of the event; 0: not known */
};

/* A check of the whole chain, some events at a time (STORE_LEDGER). Zeroed first. */
struct ledger_walk {
    /* in */
    int64_t since_ns;          /* events before are only passed over */
    struct ledger_head expect; /* seq and digest; seq 0: nothing is expected */
    /* out */
    bool finished;
    struct ledger_head head;
    int64_t pruned_ns;
    uint64_t events, unchained; /* checked; from before there was a chain */
    bool expected;              /* what was expected was seen, and is the same */
    struct ledger_finding findings[LEDGER_FINDINGS_MAX];
    size_t n_findings; /* all of them; the first ones are in the array */
    /* private */
    struct ledger_head last_;
    bool began_;
};

/* A sentence: what is wrong, where. */
void ledger_explain(const struct ledger_finding *f, char *ret, size_t cap);

#endif
