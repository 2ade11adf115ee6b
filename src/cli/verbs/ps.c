/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/verbs/verbs.h"

struct ps_options {
    struct common common;
    const char *forget;
};

static const struct option_spec options[] = {
    { "forget", 0, "PROCESS", "first forget one that has ended, and its output",
      .kind = OPTION_COUNT, .at = offsetof(struct ps_options, forget) },
};

static int forget_process(struct api_call *c, void *options_, char **argv)
{
    const struct ps_options *o = options_;
    AUTO(api_call_done) struct api_call forget;

    api_call_init(&forget, c->verb, c->common, "DELETE");
    if (!o->forget)
        return 0;
    api_call_path(&forget, "/v1/sandboxes/%s/processes/%s", argv[0], o->forget);
    return api_call_run(&forget);
}

const struct verb verb_ps = {
    .name = "ps",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "list the processes that were started in a sandbox",
    .text = "Their numbers are for 'attach', 'kill' and 'logs --process'.\n"
            "\n"
            "  sandboxer ps sbx_4k7\n"
            "  sandboxer ps sbx_4k7 --forget 3\n",
    OPTIONS(options, struct ps_options),
    REQUEST("GET", "/v1/sandboxes/%s/processes", .prepare = forget_process, .kind = &kind_process,
            .list = true),
};
