/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/verbs/verbs.h"

struct extend_options {
    struct common common;
    const char *duration;
};

static const struct option_spec options[] = {
    { "duration", 'd', "DURATION", "new lifetime from now on: 30m, 2h", .kind = OPTION_DURATION,
      .at = offsetof(struct extend_options, duration) },
};

static int write_extension(const struct verb *v, const void *options_, char **argv,
                           struct json_writer *w)
{
    const struct extend_options *o = options_;

    if (!o->duration)
        return verb_misused(v, "--duration is required, such as --duration 2h");
    body_text(w, "duration", o->duration);
    return 0;
}

static int run_extend_ttl(const struct verb *v, int argc, char **argv)
{
    static struct extend_options o;
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes/",
                                          .after = "/extend-ttl",
                                          .options = &o,
                                          .body = write_extension,
                                          .kind = &kind_sandbox };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_extend_ttl = {
    .name = "extend-ttl",
    .arguments = "ID --duration DURATION",
    .summary = "let a sandbox live longer",
    .text = "It lives that long from now on, but never longer than its profile allows, and never\n"
            "shorter than it would have.\n"
            "\n"
            "  sandboxer extend-ttl sbx_4k7 --duration 2h\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run_extend_ttl,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
