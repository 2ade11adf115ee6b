#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs.h"

struct ps_options {
    struct common common;
    const char *forget;
};

static const struct option_spec options[] = {
    { "forget", 0, "PROCESS", "first forget one that has ended, and its output",
      .kind = OPTION_COUNT, .at = offsetof(struct ps_options, forget) },
};

static int forget(const struct verb *v, const struct ps_options *o, const char *sandbox)
{
    AUTO(call_done) struct call c;

    call_init(&c, v, &o->common, "DELETE");
    call_path(&c, "/v1/sandboxes/%s/processes/%s", sandbox, o->forget);
    return call_run(&c);
}

static int run(const struct verb *v, int argc, char **argv)
{
    struct ps_options o = { 0 };
    AUTO(call_done) struct call c;
    int status;

    call_init(&c, v, &o.common, "GET");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    status = o.forget ? forget(v, &o, argv[0]) : 0;
    if (status)
        return status;
    call_path(&c, "/v1/sandboxes/%s/processes", argv[0]);
    status = call_run(&c);
    return status ? status : answer_list(&c, c.answer, &kind_process);
}

const struct verb verb_ps = {
    .name = "ps",
    .arguments = "ID",
    .summary = "list the processes that were started in a sandbox",
    .text = "Their numbers are for 'attach', 'kill' and 'logs --process'.\n"
            "\n"
            "  sandboxer ps sbx_4k7\n"
            "  sandboxer ps sbx_4k7 --forget 3\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
