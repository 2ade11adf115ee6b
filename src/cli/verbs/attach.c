/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
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

/* 0, and whether it has a terminal. */
static int query_process_tty(const struct verb *v, const struct common *common, char **argv,
                             bool *ret)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, common, "GET");
    api_call_path(&c, "/v1/sandboxes/%s/processes/%s", argv[0], argv[1]);
    status = api_call_run(&c);
    *ret = status == 0 && answer_is(&c, "tty");
    return status;
}

static int run_attach(const struct verb *v, int argc, char **argv)
{
    struct attach_options o = { 0 };
    bool tty;
    int status;

    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    status = query_process_tty(v, &o.common, argv, &tty);
    if (status)
        return status;
    return remote_attach(v, &o.common, argv[0], argv[1], o.interactive, tty && o.interactive,
                         !o.no_replay);
}

const struct verb verb_attach = {
    .name = "attach",
    .arguments = "ID PROCESS",
    .summary = "follow a background process to its end",
    .text = "Shows the stored output, then new output. Detaching does not end the process. The\n"
            "exit status is that of the process, as with 'exec'.\n"
            "\n"
            "  sandboxer attach sbx_4k7 3\n",
    OPTIONS(attach_options),
    .run = run_attach,
    .flags = VERB_REMOTE | VERB_COMMAND,
    .n_arguments = { 2, 2 },
    .complete = COMPLETE_SANDBOX,
};
