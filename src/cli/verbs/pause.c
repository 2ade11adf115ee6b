/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

const struct verb verb_pause = {
    .name = "pause",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "freeze a sandbox, with its files on disk",
    .text = "Its processes are frozen, and its lifetime does not count down. Its files are kept\n"
            "on disk, also through a restart of the machine. A sandbox may be paused for at most\n"
            "ttl.paused of the configuration.\n"
            "\n"
            "  sandboxer pause sbx_4k7\n",
    REQUEST("POST", "/v1/sandboxes/%s/pause", .doing = "pausing the sandbox",
            .kind = &kind_sandbox_changed),
};
