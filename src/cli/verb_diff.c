#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs.h"

static const struct column columns[] = {
    COLUMN("CHANGE", "change"),
    COLUMN("KIND", "kind"),
    COLUMN("PATH", "path"),
};
static const struct kind kind = { "changes", "path", columns, COUNT_OF(columns) };

static int run(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = {
        .method = "GET", .before = "/v1/sandboxes/", .after = "/diff", .kind = &kind, .list = true
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_diff = {
    .name = "diff",
    .arguments = "ID",
    .summary = "show what a sandbox has changed since it was made",
    .text = "Paths are from the sandbox's root. What is the same in every new sandbox is left out, "
            "and so are\n"
            "/run, /dev, /proc and /sys.\n"
            "\n"
            "  sandboxer diff sbx_4k7\n",
    .run = run,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
