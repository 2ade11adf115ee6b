/* What a policy would say, and because of what: for people who write one. */
#ifndef POLICY_EGRESS_EXPLAIN_H
#define POLICY_EGRESS_EXPLAIN_H

#include "base/buf.h"
#include "json/writer.h"
#include "net/host.h"
#include "policy/egress.h"

/* A question as people write it; what is not asked is NULL. */
struct egress_question {
    const char *to;            /* HOST[:PORT], required */
    const char *method, *path; /* a request: the path with its query */
    const char *upgrade;       /* the protocol that the request asks for */
    const char *binary;        /* the program that asks */
};

enum { EGRESS_QUESTION_PORT = 443 }; /* where `to` says none */

/* What is asked besides the destination; leave out what is not. */
struct egress_trial {
    struct egress_ask ask;
    const struct address *addresses; /* that the name would resolve to */
    size_t n_addresses;
    struct egress_http request; /* method.n == 0: none is asked */
    struct host host_;          /* of egress_trial_read() */
};

/* Borrows from q, and from *ret itself, which must not be moved. -ERR_INVALID: `to` is no
 * destination. Methods and paths are judged, whatever they are. */
int egress_trial_read(const struct egress_question *q, struct egress_trial *ret, struct err *e);

enum egress_stage { EGRESS_STAGE_CONNECT, EGRESS_STAGE_ADDRESSES, EGRESS_STAGE_REQUEST };

struct egress_explanation {
    enum egress_verdict verdict;
    enum egress_stage stage; /* that decided: the first that denies, or the last */
    struct egress_reason why;
    struct egress_match match;            /* borrows from the snapshot, as why.rule does */
    const struct egress_ceiling *ceiling; /* NULL: none */
    bool request_judged; /* else the connection is not inspected, or no request was asked */
    char unknown[160];   /* what the answer leaves open; empty: nothing */
};

/* Asks what a relay asks, in its order. An explanation also shows the ceiling that the snapshot is
 * under. */
void egress_explain(const struct egress_snapshot *s, const struct egress_trial *trial,
                    struct egress_explanation *ret);

/* A few lines, each "NAME: TEXT". */
int egress_explain_text(const struct egress_explanation *x, struct buf *out);
void egress_explain_json(const struct egress_explanation *x, struct json_writer *w);

#endif
