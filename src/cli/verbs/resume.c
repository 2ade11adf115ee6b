/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

const struct verb verb_resume = {
    .name = "resume",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "resume a paused or stopped sandbox",
    .text = "Its processes continue. If they were lost, because the machine was restarted, the\n"
            "sandbox is rebuilt under the same id with all its files, and its state's reason\n"
            "reports that.\n"
            "\n"
            "  sandboxer resume sbx_4k7\n",
    REQUEST("POST", "/v1/sandboxes/%s/resume", .doing = "resuming the sandbox",
            .kind = &kind_sandbox_changed),
};
