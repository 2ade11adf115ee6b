/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates a policy without traffic: checks it, or explains one decision. Prints one JSON object,
 * which `sandboxer egress` formats for people. */
#ifndef ENGINE_EGRESS_EXPLAIN_H
#define ENGINE_EGRESS_EXPLAIN_H

#include "engine/egress/options.h"

/* --verify-log: reads fd to its end, and prints the findings about its chain as JSON. */
int explain_verify_log(int fd, struct buf *out, struct err *e);

/* Runs --check, --explain, --verify-log or --learn. Returns 0, also for an invalid policy (the object says
 * so), or the error that prevented an answer. */
int explain_run(const struct egress_options *o, struct err *e);

/* {"valid": false, "problem": …}, or {"valid": true, "endpoints": […], "notes": […]}. */
int explain_check(struct str yaml, struct buf *out, struct err *e);
/* Writes the JSON of egress_explain_json(); -ERR_INVALID if the policy or the question is
 * invalid. */
int explain_destination(struct str yaml, const struct egress_options *o, struct buf *out,
                        struct err *e);

#endif
