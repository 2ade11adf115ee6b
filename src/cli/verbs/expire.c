/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

static const struct option_spec options[] = {
    { "apply", 0, NULL, "apply the changes instead of only showing them",
      .at = offsetof(struct one_option, flag), .member = "apply" },
};

static const struct column due_columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("STATE", "state", .state = true),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("REASON", "reason", .most = 60),
};
static const struct answer_kind kind_due = KIND("due", "sandbox_id", due_columns);

const struct verb verb_expire = {
    .name = "expire",
    .summary = "show which sandboxes are due, and reap them with --apply",
    .text = "The daemon does this regularly; this verb shows it, or does it at once.\n"
            "\n"
            "  sandboxer expire\n"
            "  sandboxer expire --apply\n",
    OPTIONS(options, struct one_option),
    REQUEST("POST", "/v1/expire", .body = BODY_JSON, .doing = "listing expired sandboxes",
            .kind = &kind_due, .list = true),
};
