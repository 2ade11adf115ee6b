/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/completion.h"
#include "cli/verbs/verbs.h"

static int run_completion(struct api_call *c, void *options, int argc, char **argv)
{
    if (!completion_print(stdout, argv[0]))
        return verb_misused(c->verb, "'%s' is not one of: %s", argv[0], completion_shells);
    return 0;
}

const struct verb verb_completion = {
    .name = "completion",
    ARGUMENTS("SHELL", 1, 1, COMPLETE_NOTHING),
    .summary = "print a completion script for bash, zsh or fish",
    .text = "  source <(sandboxer completion bash)\n"
            "  sandboxer completion zsh > \"${fpath[1]}/_sandboxer\"\n"
            "  sandboxer completion fish > ~/.config/fish/completions/sandboxer.fish\n",
    .run = run_completion,
};
