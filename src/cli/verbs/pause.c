/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/answer.h"
#include "cli/verbs/verbs.h"

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
    .summary = "freeze a sandbox, with its files on disk",
    .text = "Its processes are frozen, and its lifetime does not count down. Its files are kept on "
            "disk,\n"
            "also through a restart of the machine. A sandbox may be paused for at most ttl.paused "
            "of\n"
            "the configuration.\n"
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
    .summary = "resume a paused or stopped sandbox",
    .text = "Its processes continue. If they were lost, because the machine was restarted, the "
            "sandbox is\n"
            "rebuilt under the same id with all its files, and its state's reason reports that.\n"
            "\n"
            "  sandboxer resume sbx_4k7\n",
    .run = run_resume,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
