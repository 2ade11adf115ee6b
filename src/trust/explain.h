/* SPDX-License-Identifier: Apache-2.0 */
/* Explains policy verdicts, for authors of policies. */
#ifndef TRUST_EXPLAIN_H
#define TRUST_EXPLAIN_H

#include "lib/json/bind.h"
#include "trust/decide.h"
#include "trust/policy.h"

/* {"verdict":"deny","code":-32000,"rule":"tools.…","reason":"…","tier":2,…,"checks":[{"check":
 *  "role","outcome":"decided"}, …]}: all checks in order; those after the deciding one are "not
 *  reached". */
void trust_explain_json(const struct trust_case *c, const struct trust_decision *d,
                        struct json_writer *w);

/* The policy in force, a struct trust_policy; and a verdict, a struct verdict. */
extern const struct json_shape trust_policy_answer, trust_evaluation_answer;
/* All answers about policies, ended by NULL. */
extern const struct json_shape *const trust_answers[];

#endif
