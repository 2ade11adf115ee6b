/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

static const struct option_spec options[] = {
    { "apply", 0, NULL, "apply the changes instead of only showing them",
      .at = offsetof(struct one_option, flag), .member = "apply" },
};

const struct verb verb_reap_stale = {
    .name = "reap-stale",
    .summary = "show leftovers of dead sandboxes, and remove them with --apply",
    .text = "  sandboxer reap-stale\n"
            "  sandboxer reap-stale --apply\n",
    OPTIONS(options, struct one_option),
    REQUEST("POST", "/v1/reap-stale", .body = BODY_JSON, .doing = "listing leftovers",
            .kind = &kind_stale, .list = true),
};
