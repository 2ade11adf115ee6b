/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/answer.h"
#include "cli/verbs/verbs.h"

static int run_get(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "GET",
                                          .before = "/v1/sandboxes/",
                                          .kind = &kind_sandbox_whole };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_get = {
    .name = "get",
    .arguments = "ID",
    .summary = "show everything about a sandbox",
    .text = "A unique prefix is accepted wherever an id is expected.\n"
            "\n"
            "  sandboxer get sbx_4k7\n"
            "  sandboxer get sbx_4k7 -o json | jq -r .state\n",
    .run = run_get,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
