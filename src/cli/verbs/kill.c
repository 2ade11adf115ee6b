/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/signals.h"
#include "cli/verbs/verbs.h"

struct kill_options {
    struct common common;
    const char *signal, *scope;
};

#define AT(member) .at = offsetof(struct kill_options, member)

static const struct option_spec options[] = {
    { "signal", 's', "SIGNAL", "a name or number (default: TERM); KILL ends the whole tree",
      AT(signal), .member = "signal" },
    { "scope", 0, "SCOPE", "process, group or tree (default: group)", AT(scope),
      .words = "process group tree", .member = "scope" },
};

static int choose_signal(struct api_call *c, void *options_, char **argv)
{
    struct kill_options *o = options_;
    const char *name = o->signal ? signal_name(signal_number(str_from(o->signal))) : "TERM";

    if (!name)
        return verb_misused(c->verb, "--signal: '%s' is not the name or number of a signal",
                            o->signal);
    o->signal = name;
    if (!o->scope)
        o->scope = "group";
    return 0;
}

static int print_sent(const struct api_call *c, const void *options_, char **argv)
{
    const struct kill_options *o = options_;

    return answer_done(c, c->answer, "sent %s to process %s of %s", o->signal, argv[1], argv[0]);
}

const struct verb verb_kill = {
    .name = "kill",
    ARGUMENTS("ID PROCESS", 2, 2, COMPLETE_SANDBOX),
    .summary = "send a signal to a process in a sandbox",
    .text = "  sandboxer kill sbx_4k7 3\n"
            "  sandboxer kill -s KILL sbx_4k7 3\n",
    OPTIONS(options, struct kill_options),
    REQUEST("POST", "/v1/sandboxes/%s/processes/%s/signal", .body = BODY_JSON,
            .prepare = choose_signal, .print = print_sent),
};
