#include "cli/answer.h"
#include "cli/verbs.h"

static int run(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes/",
                                          .after = "/recreate",
                                          .kind = &kind_sandbox,
                                          .doing = "creating the sandbox anew" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_recreate = {
    .name = "recreate",
    .arguments = "ID",
    .summary = "destroy a sandbox and create another one from the same request",
    .text = "The new one has a new id.\n"
            "\n"
            "  id=$(sandboxer recreate -q sbx_4k7)\n",
    .run = run,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
