#include "cli/answer.h"
#include "cli/verbs.h"

static int run(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "GET",
                                          .before = "/v1/sandboxes/",
                                          .after = "/processes",
                                          .kind = &kind_process,
                                          .list = true };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_ps = {
    .name = "ps",
    .arguments = "ID",
    .summary = "list the processes that were started in a sandbox",
    .text = "Their numbers are for 'attach', 'kill' and 'logs --process'.\n"
            "\n"
            "  sandboxer ps sbx_4k7\n",
    .run = run,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
