/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unsynced.h"

void unsynced_explain(const struct api_call *c, const char *id)
{
    if (!c->problem || !show_at(c->problem, "changes"))
        return;
    (void)answer_list(c, c->problem, &kind_workspace_change);
    if (c->common->quiet)
        return;
    cli_report(
        "bring the changes back:  sandboxer sync %s --force   (overwrites what has changed here; "
        "--accept PATH for a file that is held back)",
        id);
    cli_report("or keep them for later:  sandboxer destroy --keep %s   (a snapshot, deleted after "
               "retention.unsynced)",
               id);
    cli_report("or lose them:            sandboxer destroy --discard %s", id);
}

int unsynced_list(const struct api_call *c, const struct json *synced)
{
    const struct json *rows = answer_rows(synced, &kind_workspace_change);

    if (common_format(c->common) != FORMAT_TEXT || c->common->quiet || rows->type != JSON_ARRAY ||
        json_first(rows) == json_end(rows))
        return 0;
    return answer_list(c, synced, &kind_workspace_change);
}
