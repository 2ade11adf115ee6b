/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/show_sandbox.h"
#include "cli/verbs/verbs.h"

struct extend_options {
    struct common common;
    const char *duration;
};

static const struct option_spec options[] = {
    { "duration", 'd', "DURATION", "new lifetime from now on: 30m, 2h", .kind = OPTION_DURATION,
      .at = offsetof(struct extend_options, duration), .member = "duration" },
};

/* With the new deadline, which may be an earlier one than was asked for. */
static const struct column columns[] = {
    COLUMN("ID", "sandbox_id"),
    COLUMN("NAME", "name"),
    COLUMN("TTL ENDS", "ttl_expires_at", .show = show_until),
    COLUMN("NEXT", "", .show = show_next_command),
};
static const struct answer_kind kind = KIND("", "sandbox_id", columns);

static int check_duration(struct api_call *c, void *options_, char **argv)
{
    const struct extend_options *o = options_;

    return o->duration ? 0 : verb_misused(c->verb, "--duration is required, such as --duration 2h");
}

const struct verb verb_extend_ttl = {
    .name = "extend-ttl",
    ARGUMENTS("ID --duration DURATION", 1, 1, COMPLETE_SANDBOX),
    .summary = "let a sandbox live longer",
    .text = "It lives that long from now on, but never longer than its profile allows, and never\n"
            "shorter than it would have.\n"
            "\n"
            "  sandboxer extend-ttl sbx_4k7 --duration 2h\n",
    OPTIONS(options, struct extend_options),
    REQUEST("POST", "/v1/sandboxes/%s/extend-ttl", .body = BODY_JSON, .prepare = check_duration,
            .kind = &kind),
};
