/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

static const struct option_spec snapshot_options[] = {
    { "name", 0, "NAME", "name of the snapshot", .at = offsetof(struct one_option, text),
      .member = "name" },
};

const struct verb verb_snapshot = {
    .name = "snapshot",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "take a snapshot of a sandbox's files",
    .text = "Stores all files of the sandbox as of one moment: the sandbox is frozen meanwhile,\n"
            "and the duration is shown. Not included: /run, /dev/shm, memory and processes.\n"
            "'restore' creates a sandbox from a snapshot.\n"
            "\n"
            "  sandboxer snapshot sbx_4k7 --name before-upgrade\n",
    OPTIONS(snapshot_options, struct one_option),
    REQUEST("POST", "/v1/sandboxes/%s/snapshot", .body = BODY_JSON, .doing = "taking a snapshot",
            .kind = &kind_snapshot),
};
