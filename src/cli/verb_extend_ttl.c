#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/verbs.h"

struct extend_options {
    struct common common;
    const char *duration;
};

static const struct option_spec options[] = {
    { "duration", 'd', "DURATION", "how long it shall live from now on: 30m, 2h",
      .kind = OPTION_DURATION, .at = offsetof(struct extend_options, duration) },
};

static int run(const struct verb *v, int argc, char **argv)
{
    struct extend_options o = { 0 };
    AUTO(call_done) struct call c;
    struct json_writer *w;
    int status;

    call_init(&c, v, &o.common, "POST");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (!o.duration)
        return verb_misused(v, "say how long: --duration 2h");
    call_path(&c, "/v1/sandboxes/%s/extend-ttl", argv[0]);
    w = call_json(&c);
    json_begin_object(w);
    body_text(w, "duration", o.duration);
    json_end_object(w);
    status = call_run(&c);
    return status ? status : answer_record(&c, c.answer, &kind_sandbox);
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
    .run = run,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
