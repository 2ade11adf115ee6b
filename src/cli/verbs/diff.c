/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("CHANGE", "change"),
    COLUMN("KIND", "kind"),
    COLUMN("PATH", "path"),
};
static const struct answer_kind kind = KIND("changes", "path", columns);

const struct verb verb_diff = {
    .name = "diff",
    ARGUMENTS("ID [SNAPSHOT]", 1, 2, COMPLETE_SANDBOX),
    .summary = "show the changes of a sandbox since its creation, or against a snapshot",
    .text = "Paths begin at the sandbox's root. Files that every new sandbox has are left out,\n"
            "and so are /run, /dev, /proc and /sys. With a snapshot, the sandbox is compared\n"
            "with a new sandbox of that snapshot: content, kind, mode and owner, not times.\n"
            "\n"
            "  sandboxer diff sbx_4k7\n"
            "  sandboxer diff sbx_4k7 before-upgrade\n",
    REQUEST("GET", "/v1/sandboxes/%s/diff", .query = "snapshot", .kind = &kind, .list = true),
};
