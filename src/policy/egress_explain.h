/* What a policy would say, and because of what: for people who write one. */
#ifndef POLICY_EGRESS_EXPLAIN_H
#define POLICY_EGRESS_EXPLAIN_H

#include "base/buf.h"
#include "json/writer.h"
#include "policy/egress.h"

/* What is asked besides the destination; leave out what is not. */
struct egress_trial {
    struct egress_ask ask;
    const struct address *addresses; /* that the name would resolve to */
    size_t n_addresses;
    struct str method, path, query; /* a request; path as path_canonical() makes it */
};

enum egress_stage { EGRESS_STAGE_CONNECT, EGRESS_STAGE_ADDRESSES, EGRESS_STAGE_REQUEST };

struct egress_explanation {
    enum egress_verdict verdict;
    enum egress_stage stage; /* that decided: the first that denies, or the last */
    struct egress_reason why;
    struct egress_match match;            /* borrows from the snapshot, as why.rule does */
    const struct egress_ceiling *ceiling; /* NULL: none */
    bool request_judged; /* else the connection is not inspected, or no request was asked */
};

/* An explanation also shows the ceiling that the snapshot is under. */
void egress_explain(const struct egress_snapshot *s, const struct egress_trial *trial,
                    struct egress_explanation *ret);

/* A few lines, each "NAME: TEXT". */
int egress_explain_text(const struct egress_explanation *x, struct buf *out);
void egress_explain_json(const struct egress_explanation *x, struct json_writer *w);

#endif
