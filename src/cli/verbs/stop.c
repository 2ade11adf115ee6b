/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

const struct verb verb_stop = {
    .name = "stop",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "end the processes of a sandbox, with its files on disk",
    .text = "Like pause, but the processes end: only the files' disk space remains in use.\n"
            "`sandboxer resume` rebuilds the sandbox under the same id with all its files.\n"
            "\n"
            "  sandboxer stop sbx_4k7\n",
    REQUEST("POST", "/v1/sandboxes/%s/stop", .doing = "stopping the sandbox",
            .kind = &kind_sandbox_changed),
};
