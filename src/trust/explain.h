/* What the policy would say of a call, and because of what: for people who write one. */
#ifndef TRUST_EXPLAIN_H
#define TRUST_EXPLAIN_H

#include "json/writer.h"
#include "trust/decide.h"

/* {"verdict":"deny","code":-32000,"rule":"tools.…","reason":"…","tier":2,…,"checks":[{"check":"role",
 *  "outcome":"decided"}, …]}: each check in order, those behind the deciding one not reached. */
void trust_explain_json(const struct trust_case *c, const struct trust_decision *d,
                        struct json_writer *w);

/* The bundle: its version, mode and rules. */
void trust_bundle_write(const struct trust_bundle *b, struct json_writer *w);

#endif
