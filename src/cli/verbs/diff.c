/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("CHANGE", "change"),
    COLUMN("KIND", "kind"),
    COLUMN("PATH", "path"),
};
static const struct answer_kind kind = { "changes", "path", columns, COUNT_OF(columns) };

static int run_diff(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, &common, "GET");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    api_call_path(&c, "/v1/sandboxes/%s/diff", argv[0]);
    if (argc > 1)
        api_call_query(&c, "snapshot", argv[1]);
    status = api_call_run(&c);
    return status ? status : answer_list(&c, c.answer, &kind);
}

const struct verb verb_diff = {
    .name = "diff",
    .arguments = "ID [SNAPSHOT]",
    .summary = "show the changes of a sandbox since its creation, or against a snapshot",
    .text = "Paths begin at the sandbox's root. Files that every new sandbox has are left out, and "
            "so are\n"
            "/run, /dev, /proc and /sys. With a snapshot, the sandbox is compared with a new "
            "sandbox of that\n"
            "snapshot: content, kind, mode and owner, not times.\n"
            "\n"
            "  sandboxer diff sbx_4k7\n"
            "  sandboxer diff sbx_4k7 before-upgrade\n",
    .run = run_diff,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 2,
    .complete = COMPLETE_SANDBOX,
};
