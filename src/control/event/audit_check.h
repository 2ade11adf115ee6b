/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the audit: the daemon's chain of events (domain/store/ledger.h) and the chains of egress
 * logs (engine/egress/chain.h), as far as they are anchored in it.
 *
 * Everything is read in pieces on the threads of the pool, so that no request waits for it; few
 * checks run at a time, and one caller cannot use up the share of others. A log that looks damaged
 * while its sandbox runs is read again, with its anchors, before it is reported: it may have been
 * rotated meanwhile. */
#ifndef CONTROL_EVENT_AUDIT_CHECK_H
#define CONTROL_EVENT_AUDIT_CHECK_H

#include "base/err.h"
#include "base/id.h"
#include "domain/store/ledger.h"

struct control;

enum {
    AUDIT_PROBLEMS_MAX = 64,
    AUDIT_CHECKS_MAX = 8,       /* of single sandboxes, at a time … */
    AUDIT_CHECKS_OWNER_MAX = 2, /* … by one caller */
    AUDIT_CHECKS_WHOLE_MAX = 2, /* of everything, in addition */
};

struct audit_problem {
    char chain[ID_MAX]; /* "daemon", or a sandbox's id */
    const char *kind;   /* a stable word: "changed", "missing", … */
    int64_t seq;        /* of the first bad record; 0: none */
    int64_t time_ns;    /* of that record; 0: unknown */
    char message[192];
};

struct audit_found {
    struct ledger_head head; /* seq 0: only one sandbox was checked */
    uint64_t events;         /* checked */
    int64_t chained_from;    /* the first chained event; earlier ones cannot be checked */
    uint64_t sandboxes, lines, unchained_lines;
    uint64_t last_line; /* for a single sandbox: seq of its last line */
    bool expected;      /* the expected head was found */
    struct audit_problem problems[AUDIT_PROBLEMS_MAX];
    size_t n_problems; /* in total; the array has the first ones */
};

typedef void audit_done_fn(void *user, int r, const struct err *e, const struct audit_found *found);

struct audit_check;

struct audit_wanted {
    const char *caller;        /* the owner whose share it uses */
    const char *box;           /* NULL or "": everything */
    int64_t since_ns;          /* skips older events, and logs that end before */
    struct ledger_head expect; /* seq and digest; seq 0: none */
    bool head_only;            /* returns the head without a check */
};

/* done is called once, from the loop, unless it is stopped. -ERR_BUSY: too many checks are under
 * way, of this caller or of all. */
int audit_check_start(struct control *c, const struct audit_wanted *w, audit_done_fn *done,
                      void *user, struct audit_check **ret, struct err *e);
/* done is not called; the check ends by itself. */
void audit_check_stop(struct audit_check *x);

#endif
