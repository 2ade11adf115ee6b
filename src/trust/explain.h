/* SPDX-License-Identifier: Apache-2.0 */
/* Explains policy verdicts, for authors of policies. */
#ifndef TRUST_EXPLAIN_H
#define TRUST_EXPLAIN_H

#include "lib/json/writer.h"
#include "trust/decide.h"

/* {"verdict":"deny","code":-32000,"rule":"tools.…","reason":"…","tier":2,…,"checks":[{"check":
 *  "role","outcome":"decided"}, …]}: all checks in order; those after the deciding one are "not
 *  reached". */
void trust_explain_json(const struct trust_case *c, const struct trust_decision *d,
                        struct json_writer *w);

/* The bundle: its version, mode and rules. */
void trust_bundle_write(const struct trust_bundle *b, struct json_writer *w);

#endif
