#include "cli/answer.h"
#include "cli/verbs.h"

static int run_pause(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes/",
                                          .after = "/pause",
                                          .kind = &kind_sandbox,
                                          .doing = "pausing the sandbox" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_pause = {
    .name = "pause",
    .arguments = "ID",
    .summary = "let a sandbox stand still, with its files safe",
    .text = "Nothing in it runs, and its time stands still. What it has written is kept on disk, "
            "also\n"
            "through a restart of the machine. A sandbox may be paused for as long as ttl.paused "
            "of the\n"
            "configuration says.\n"
            "\n"
            "  sandboxer pause sbx_4k7\n",
    .run = run_pause,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};

static int run_resume(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes/",
                                          .after = "/resume",
                                          .kind = &kind_sandbox,
                                          .doing = "resuming the sandbox" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_resume = {
    .name = "resume",
    .arguments = "ID",
    .summary = "let a paused sandbox go on",
    .text = "Its programs go on where they stood. If they are gone, because the machine was "
            "restarted, it\n"
            "is made again under the same id with all its files, and the reason says so.\n"
            "\n"
            "  sandboxer resume sbx_4k7\n",
    .run = run_resume,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
