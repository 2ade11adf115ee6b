/* Checks the audit: the daemon's chain of events (store/ledger.h) and the chains of egress logs
 * (egress/chain.h), as far as they are anchored in it.
 *
 * Reads everything, a piece at a time on the pool's threads, so that nothing waits for it; few
 * checks run at a time, and one caller cannot use up the others' share. A log that looks damaged
 * while its sandbox runs is read again, with its anchors, before anything is said: it may have been
 * rotated meanwhile. */
#ifndef CONTROL_AUDIT_CHECK_H
#define CONTROL_AUDIT_CHECK_H

#include "base/err.h"
#include "base/id.h"
#include "store/ledger.h"

struct control;

enum {
    AUDIT_PROBLEMS_MAX = 64,
    AUDIT_CHECKS_MAX = 8,       /* of sandboxes, at a time … */
    AUDIT_CHECKS_OWNER_MAX = 2, /* … by one caller */
    AUDIT_CHECKS_WHOLE_MAX = 2, /* of everything, beside those */
};

struct audit_problem {
    char chain[ID_MAX]; /* "daemon", or a sandbox */
    const char *kind;   /* a stable word: "changed", "missing", … */
    int64_t seq;        /* of the first bad record; 0: it has none */
    int64_t time_ns;    /* of it; 0: not known */
    char message[192];
};

struct audit_found {
    struct ledger_head head; /* seq 0: only one sandbox was checked */
    uint64_t events;         /* checked */
    int64_t chained_from; /* the first event that is chained; those before it cannot be checked */
    uint64_t sandboxes, lines, unchained_lines;
    uint64_t last_line; /* of one sandbox alone: seq of its last line */
    bool expected;      /* what was expected was found */
    struct audit_problem problems[AUDIT_PROBLEMS_MAX];
    size_t n_problems; /* all of them; the first ones are in the array */
};

typedef void audit_done_fn(void *user, int r, const struct err *e, const struct audit_found *found);

struct audit_check;

struct audit_wanted {
    const char *caller;        /* whose share it counts in */
    const char *box;           /* NULL or "": everything */
    int64_t since_ns;          /* older events, and logs that end before, are not checked */
    struct ledger_head expect; /* seq and digest; seq 0: nothing is expected */
    bool head_only;            /* nothing is checked */
};

/* done is called once, from the loop, unless it is stopped. -ERR_BUSY: as many as may be are under
 * way, of this caller or of all. */
int audit_check_start(struct control *c, const struct audit_wanted *w, audit_done_fn *done,
                      void *user, struct audit_check **ret, struct err *e);
/* Nothing is told any more; it ends by itself. */
void audit_check_stop(struct audit_check *x);

#endif
