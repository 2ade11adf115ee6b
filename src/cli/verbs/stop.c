/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/answer.h"
#include "cli/verbs/verbs.h"

static int run_stop(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes/",
                                          .after = "/stop",
                                          .kind = &kind_sandbox,
                                          .doing = "stopping the sandbox" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_stop = {
    .name = "stop",
    .arguments = "ID",
    .summary = "end the processes of a sandbox, with its files on disk",
    .text = "Like pause, but the processes end: only the files' disk space remains in use.\n"
            "`sandboxer resume` rebuilds the sandbox under the same id with all its files.\n"
            "\n"
            "  sandboxer stop sbx_4k7\n",
    .run = run_stop,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
