#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/verbs.h"

static int put_image(const struct verb *v, const void *options, char **argv, struct json_writer *w)
{
    (void)v;
    (void)options;
    body_text(w, "image", argv[1]);
    return 0;
}

static int print(const struct call *c, const void *options, const struct json *v)
{
    struct str ref = show_string(v, "ref");
    char pause[ANSWER_PAUSE_MAX];

    (void)options;
    answer_pause(v, pause);
    return answer_done(c, v, STR_FMT " committed%s%s", STR_ARG(ref),
                       pause[0] ? "; the sandbox " : "", pause);
}

static int run(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes/",
                                          .after = "/commit",
                                          .body = put_image,
                                          .kind = &kind_image,
                                          .doing = "committing",
                                          .print = print };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_commit = {
    .name = "commit",
    .arguments = "ID IMAGE",
    .summary = "make an image of a sandbox that was created from one",
    .text =
        "Its files become a layer on those of its image, and programs are run as in the sandbox, "
        "but for\n"
        "the variables that it was created with: an image is for everybody. How long it stood "
        "still is shown.\n"
        "One on the system of this machine cannot become an image: 'snapshot' keeps what it "
        "wrote.\n"
        "\n"
        "  id=$(sandboxer create -q --image web:1)\n"
        "  sandboxer commit $id web:2\n",
    .run = run,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 2,
    .max_arguments = 2,
    .complete = COMPLETE_SANDBOX,
};
