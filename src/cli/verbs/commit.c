/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

static int print_commit(const struct api_call *c, const void *options, char **argv)
{
    struct str ref = show_string(c->answer, "ref");
    char pause[ANSWER_PAUSE_MAX];

    if (c->common->quiet)
        return answer_record(c, c->answer, &kind_image);
    answer_pause(c->answer, pause);
    return answer_done(c, c->answer, STR_FMT " committed%s%s", STR_ARG(ref),
                       pause[0] ? "; the sandbox " : "", pause);
}

const struct verb verb_commit = {
    .name = "commit",
    ARGUMENTS("ID IMAGE", 2, 2, COMPLETE_SANDBOX),
    .summary = "make an image of a sandbox that was created from one",
    .text = "The sandbox's files become a layer on those of its image, with the same defaults\n"
            "for programs. Variables that the sandbox was created with are not included, because\n"
            "an image is shared. The time for which the sandbox was frozen is shown. A sandbox\n"
            "on the system of this machine cannot become an image; use 'snapshot'.\n"
            "\n"
            "  id=$(sandboxer create -q --image web:1)\n"
            "  sandboxer commit $id web:2\n",
    REQUEST("POST", "/v1/sandboxes/%s/commit", .body = BODY_JSON, .members = { "image" },
            .doing = "committing", .kind = &kind_image, .print = print_commit),
};
