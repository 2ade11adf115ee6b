/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs/verbs.h"

struct ps_options {
    struct common common;
    const char *forget;
};

static const struct option_spec options[] = {
    { "forget", 0, "PROCESS", "first forget one that has ended, and its output",
      .kind = OPTION_COUNT, .at = offsetof(struct ps_options, forget) },
};

static int forget_process(const struct verb *v, const struct ps_options *o, const char *sandbox)
{
    AUTO(api_call_done) struct api_call c;

    api_call_init(&c, v, &o->common, "DELETE");
    api_call_path(&c, "/v1/sandboxes/%s/processes/%s", sandbox, o->forget);
    return api_call_run(&c);
}

static int run_ps(const struct verb *v, int argc, char **argv)
{
    struct ps_options o = { 0 };
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, &o.common, "GET");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    status = o.forget ? forget_process(v, &o, argv[0]) : 0;
    if (status)
        return status;
    api_call_path(&c, "/v1/sandboxes/%s/processes", argv[0]);
    status = api_call_run(&c);
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
    .run = run_ps,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
