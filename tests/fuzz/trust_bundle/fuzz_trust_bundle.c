/* SPDX-License-Identifier: Apache-2.0 */
/* Any text is a bundle or an error that says why; under a bundle every call has a verdict with a
 * rule and a reason, the same one each time. */
#include <stdlib.h>

#include "base/own.h"
#include "trust/decide.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void ask(const struct trust_bundle *b, const struct trust_rule *rule, enum role role,
                bool network)
{
    struct trust_capabilities sandbox = { .network = network };
    struct trust_case c = {
        .bundle = b, .tool = str_from(rule->tool), .sandbox = &sandbox, .role = role, .now_ns = 1
    };
    struct trust_decision first, second;

    must(trust_bundle_find(b, c.tool) == rule);
    trust_decide(&c, &first);
    trust_decide(&c, &second);
    must(first.verdict.rule[0] && first.verdict.reason[0]);
    must(first.verdict.kind == second.verdict.kind && first.rate_ns == second.rate_ns);
    must(b->mode == TRUST_ENFORCE || first.verdict.kind == VERDICT_ALLOW);
    must(b->mode != TRUST_ENFORCE || first.verdict.tier < TRUST_TIER_MAX ||
         first.verdict.kind != VERDICT_ALLOW); /* nothing of tier 4 passes by itself */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trust_bundle *b = NULL;
    struct trust_rule *rules;
    struct err e = { 0 };

    if (trust_bundle_read((struct str){ (const char *)data, size }, &b, &e) < 0) {
        must(e.msg[0] && !b);
        return 0;
    }
    rules = b->tools.p;
    for (size_t i = 0; i < b->tools.n && i < 64; i++)
        for (unsigned role = 0; role < ROLE_COUNT_; role++) {
            ask(b, &rules[i], (enum role)role, false);
            ask(b, &rules[i], (enum role)role, true);
        }
    trust_bundle_free(b);
    return 0;
}
