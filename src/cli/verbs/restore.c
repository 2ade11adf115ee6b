/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

struct restore_options {
    struct common common;
    const char *name, *profile, *ttl;
    struct option_list labels;
};

#define AT(member) .at = offsetof(struct restore_options, member)

static const struct option_spec restore_options[] = {
    { "name", 0, "NAME", "a name that commands take in the place of its id", AT(name),
      .member = "name" },
    { "profile", 'p', "PROFILE", "another profile than the snapshot's, on the same system",
      AT(profile), .member = "profile", .complete = COMPLETE_PROFILE },
    { "ttl", 0, "DURATION", "lifetime: 30m, 2h (default: the profile's)", .kind = OPTION_DURATION,
      AT(ttl), .member = "ttl" },
    { "label", 'l', "KEY=VALUE", "a label to find it by; can be repeated", .kind = OPTION_PAIRS,
      AT(labels), .member = "labels" },
};

const struct verb verb_restore = {
    .name = "restore",
    ARGUMENTS("SNAPSHOT", 1, 1, COMPLETE_SNAPSHOT),
    .summary = "create a sandbox from a snapshot",
    .text = "The sandbox is a new one, with its own id, hostname and machine-id; the snapshot is\n"
            "unchanged.\n"
            "\n"
            "  id=$(sandboxer restore -q before-upgrade)\n",
    OPTIONS(restore_options, struct restore_options),
    REQUEST("POST", "/v1/sandboxes", .body = BODY_JSON, .members = { "snapshot" },
            .doing = "creating a sandbox", .kind = &kind_sandbox_changed),
};
