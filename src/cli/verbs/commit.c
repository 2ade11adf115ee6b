/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/verbs/verbs.h"

static int write_commit_body(const struct verb *v, const void *options, char **argv,
                             struct json_writer *w)
{
    body_text(w, "image", argv[1]);
    return 0;
}

static int print_commit(const struct api_call *c, const void *options, const struct json *v)
{
    struct str ref = show_string(v, "ref");
    char pause[ANSWER_PAUSE_MAX];

    answer_pause(v, pause);
    return answer_done(c, v, STR_FMT " committed%s%s", STR_ARG(ref),
                       pause[0] ? "; the sandbox " : "", pause);
}

static int run_commit(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes/",
                                          .after = "/commit",
                                          .body = write_commit_body,
                                          .kind = &kind_image,
                                          .doing = "committing",
                                          .print = print_commit };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_commit = {
    .name = "commit",
    .arguments = "ID IMAGE",
    .summary = "make an image of a sandbox that was created from one",
    .text = "The sandbox's files become a layer on those of its image, with the same defaults for "
            "programs.\n"
            "Variables that the sandbox was created with are not included, because an image is "
            "shared. The\n"
            "time for which the sandbox was frozen is shown. A sandbox on the system of this "
            "machine cannot\n"
            "become an image; use 'snapshot'.\n"
            "\n"
            "  id=$(sandboxer create -q --image web:1)\n"
            "  sandboxer commit $id web:2\n",
    .run = run_commit,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 2,
    .max_arguments = 2,
    .complete = COMPLETE_SANDBOX,
};
