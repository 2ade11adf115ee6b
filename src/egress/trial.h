/* A policy tried without any traffic: is it good, and what would it say? Prints one JSON object, of
 * which `sandboxer egress` makes what people read. */
#ifndef EGRESS_TRIAL_H
#define EGRESS_TRIAL_H

#include "egress/options.h"

/* --verify-log: reads all of fd, and prints what is wrong with its chain, as JSON. */
int trial_verify_log(int fd, struct buf *out, struct err *e);

/* --check, --explain and --verify-log: 0, also for a policy that is not good (its object says so),
 * or why there is no answer. */
int trial_run(const struct egress_options *o, struct err *e);

/* {"valid": false, "problem": …}, or {"valid": true, "endpoints": […], "notes": […]}. */
int trial_check(struct str yaml, struct buf *out, struct err *e);
/* What egress_explain_json() writes; -ERR_INVALID if the policy or the question is none. */
int trial_explain(struct str yaml, const struct egress_options *o, struct buf *out, struct err *e);

#endif
