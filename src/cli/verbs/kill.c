/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "lib/proc/signals.h"
#include "cli/verbs/verbs.h"

struct kill_options {
    struct common common;
    const char *signal, *scope;
};

#define AT(member) .at = offsetof(struct kill_options, member)

static const struct option_spec options[] = {
    { "signal", 's', "SIGNAL", "a name or number (default: TERM); KILL ends the whole tree",
      .kind = OPTION_TEXT, AT(signal) },
    { "scope", 0, "SCOPE", "process, group or tree (default: group)", .kind = OPTION_WORD,
      AT(scope), .words = "process group tree" },
};

static int run_kill(const struct verb *v, int argc, char **argv)
{
    struct kill_options o = { .signal = "TERM", .scope = "group" };
    AUTO(api_call_done) struct api_call c;
    struct json_writer *w;
    const char *name;
    int status;

    api_call_init(&c, v, &o.common, "POST");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    name = signal_name(signal_number(str_from(o.signal)));
    if (!name)
        return verb_misused(v, "--signal: '%s' is not the name or number of a signal", o.signal);
    api_call_path(&c, "/v1/sandboxes/%s/processes/%s/signal", argv[0], argv[1]);
    w = api_call_json(&c);
    json_begin_object(w);
    body_text(w, "signal", name);
    body_text(w, "scope", o.scope);
    json_end_object(w);
    status = api_call_run(&c);
    return status
               ? status
               : answer_done(&c, c.answer, "sent %s to process %s of %s", name, argv[1], argv[0]);
}

const struct verb verb_kill = {
    .name = "kill",
    .arguments = "ID PROCESS",
    .summary = "send a signal to a process in a sandbox",
    .text = "  sandboxer kill sbx_4k7 3\n"
            "  sandboxer kill -s KILL sbx_4k7 3\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run_kill,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 2,
    .max_arguments = 2,
    .complete = COMPLETE_SANDBOX,
};
