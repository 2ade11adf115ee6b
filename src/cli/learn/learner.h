/* SPDX-License-Identifier: Apache-2.0 */
/* The program that proposes a policy, sandboxer-egress --learn. It reads the log while it is
 * written, and keeps its destinations alone. */
#ifndef CLI_LEARN_LEARNER_H
#define CLI_LEARN_LEARNER_H

#include "base/buf.h"
#include "base/str.h"
#include "cli/run/helper.h"

/* How to propose: members of the question (engine/egress/learn/learn.h). */
struct learn_question {
    struct str base; /* the policy to begin with; empty: none */
    const char *merge;
    bool programs, suspicious, denied, keep;
};

struct learner {
    struct helper_call call;
    int log; /* write the log's lines here */
};

#define LEARNER_NONE                                                                               \
    {                                                                                              \
        .call = { .said = -1, .complaint = -1 }, .log = -1                                         \
    }

/* Starts it, and asks. */
int learner_start(struct learner *l, const struct learn_question *q, struct err *e);
/* The log is complete: its answer, a JSON object, is in out. */
int learner_finish(struct learner *l, struct buf *out, struct err *e);
void learner_done(struct learner *l);

/* The policy of an audited run: `base` and every public destination. A JSON object with the member
 * `policy`. */
int learner_audit_policy(struct str base, struct buf *out, struct err *e);

#endif
