/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/request.h"
#include "cli/verbs/verbs.h"

const struct verb verb_pause = {
    .name = "pause",
    .arguments = "ID",
    .summary = "freeze a sandbox, with its files on disk",
    .text = "Its processes are frozen, and its lifetime does not count down. Its files are kept\n"
            "on disk, also through a restart of the machine. A sandbox may be paused for at most\n"
            "ttl.paused of the configuration.\n"
            "\n"
            "  sandboxer pause sbx_4k7\n",
    REQUEST("POST", "/v1/sandboxes/%s/pause", .doing = "pausing the sandbox",
            .kind = &kind_sandbox),
    .flags = VERB_ASKS,
    .n_arguments = { 1, 1 },
    .complete = COMPLETE_SANDBOX,
};
