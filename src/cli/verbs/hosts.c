/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("NAME", "name"),
    COLUMN("ADDRESS", "address", .most = 50),
    COLUMN("SOURCE", "source"),
    COLUMN("ADDED", "added_at", .show = show_age),
    COLUMN("LABELS", "labels", .most = 40),
};
static const struct answer_kind kind = KIND("hosts", "name", columns);

const struct verb verb_hosts_list = {
    .name = "hosts list",
    .summary = "list the hosts where sandboxes can be placed",
    .text = "  sandboxer hosts list\n",
    REQUEST("GET", "/v1/hosts", .kind = &kind, .list = true),
};

static const struct option_spec add_options[] = {
    { "label", 'l', "KEY=VALUE", "a label of the host; can be repeated", .kind = OPTION_PAIRS,
      .at = offsetof(struct one_option, list), .member = "labels" },
};

const struct verb verb_hosts_add = {
    .name = "hosts add",
    ARGUMENTS("NAME ADDRESS", 2, 2, COMPLETE_NOTHING),
    .summary = "add a host",
    .text = "Only backends place sandboxes on other hosts, and this build has none that does:\n"
            "'sandboxer profiles list --all' shows which profiles wait for one.\n"
            "\n"
            "  sandboxer hosts add big ssh://builder@big.example.org --label gpu=yes\n",
    OPTIONS(add_options, struct one_option),
    REQUEST("POST", "/v1/hosts", .body = BODY_JSON, .members = { "name", "address" },
            .kind = &kind),
};

const struct verb verb_hosts_remove = {
    .name = "hosts remove",
    ARGUMENTS("NAME", 1, 1, COMPLETE_HOST),
    .summary = "remove a host",
    .text = "  sandboxer hosts remove big\n",
    REQUEST("DELETE", "/v1/hosts/%s", .done = "removed"),
};
