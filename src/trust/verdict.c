/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/verdict.h"

#include <stddef.h>

const char *const verdict_kind_names[] = { "allow", "deny", "rate_limit", "require_approval",
                                           NULL };

const char *const trust_effect_names[] = { "none",    "read",    "write", "execute",
                                           "network", "destroy", NULL };

int verdict_code(enum verdict_kind k)
{
    static const int codes[VERDICT_KIND_COUNT_] = {
        [VERDICT_ALLOW] = 0,
        [VERDICT_DENY] = -32000,
        [VERDICT_RATE_LIMIT] = -32001,
        [VERDICT_REQUIRE_APPROVAL] = -32002,
    };

    return codes[k];
}
