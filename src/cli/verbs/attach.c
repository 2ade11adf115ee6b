/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"
#include "cli/verbs/verbs.h"

struct attach_options {
    struct common common;
    bool interactive, no_replay;
};

static const struct option_spec attach_options[] = {
    { "interactive", 'i', NULL, "pass stdin on",
      .at = offsetof(struct attach_options, interactive) },
    { "no-replay", 0, NULL, "only new output", .at = offsetof(struct attach_options, no_replay) },
};

static int run_attach(struct api_call *c, void *options, int argc, char **argv)
{
    const struct attach_options *o = options;
    int status;

    api_call_path(c, "/v1/sandboxes/%s/processes/%s", argv[0], argv[1]);
    status = api_call_run(c);
    return status ? status
                  : remote_attach(c->verb, c->common, argv[0], argv[1], o->interactive,
                                  o->interactive && show_true(c->answer, "tty"), !o->no_replay);
}

const struct verb verb_attach = {
    .name = "attach",
    ARGUMENTS("ID PROCESS", 2, 2, COMPLETE_SANDBOX),
    .summary = "follow a background process to its end",
    .text = "Shows the stored output, then new output. Detaching does not end the process. The\n"
            "exit status is that of the process, as with 'exec'.\n"
            "\n"
            "  sandboxer attach sbx_4k7 3\n",
    OPTIONS(attach_options, struct attach_options),
    .run = run_attach,
    .flags = VERB_REMOTE | VERB_COMMAND,
};
