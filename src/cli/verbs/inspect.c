/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs/verbs.h"

static const struct column host_columns[] = { COLUMN("HOST", "", .block = true) };
static const struct answer_kind kind_telemetry = KIND("host", "host", host_columns);

const struct verb verb_inspect_host = {
    .name = "inspect host",
    .summary = "show the host's resources and their use",
    .text = "  sandboxer inspect host\n"
            "  sandboxer inspect host -o json | jq .memory_bytes\n",
    REQUEST_AS(VERB_REMOTE | VERB_FORMAT, "GET", "/v1/inspect/host", .kind = &kind_telemetry),
};

const struct verb verb_inspect_stale = {
    .name = "inspect stale",
    .summary = "show leftovers of dead sandboxes",
    .text = "'sandboxer reap-stale --apply' removes it.\n"
            "\n"
            "  sandboxer inspect stale\n",
    REQUEST("GET", "/v1/inspect/stale", .kind = &kind_stale, .list = true),
};
