/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/request.h"
#include "cli/verbs/verbs.h"

const struct verb verb_get = {
    .name = "get",
    .arguments = "ID",
    .summary = "show everything about a sandbox",
    .text = "A unique prefix is accepted wherever an id is expected.\n"
            "\n"
            "  sandboxer get sbx_4k7\n"
            "  sandboxer get sbx_4k7 -o json | jq -r .state\n",
    REQUEST("GET", "/v1/sandboxes/%s", .kind = &kind_sandbox_whole),
    .flags = VERB_ASKS,
    .n_arguments = { 1, 1 },
    .complete = COMPLETE_SANDBOX,
};
