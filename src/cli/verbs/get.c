/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

const struct verb verb_get = {
    .name = "get",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "show everything about a sandbox",
    .text =
        "The name of a sandbox, or the unique beginning of an id, is accepted wherever an id is\n"
        "expected.\n"
        "\n"
        "  sandboxer get sbx_4k7\n"
        "  sandboxer get sbx_4k7 -o json | jq -r .state\n",
    REQUEST("GET", "/v1/sandboxes/%s?usage=true", .kind = &kind_sandbox),
};
