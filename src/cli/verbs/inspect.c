/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs/verbs.h"

static const struct column host_columns[] = { COLUMN("HOST", "", .block = true) };
static const struct answer_kind kind_telemetry = { "host", "host", host_columns,
                                                   COUNT_OF(host_columns) };

static int run_host(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "GET",
                                          .before = "/v1/inspect/host",
                                          .kind = &kind_telemetry };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_inspect_host = {
    .name = "inspect host",
    .arguments = "",
    .summary = "show the host's resources and their use",
    .text = "  sandboxer inspect host\n"
            "  sandboxer inspect host -o json | jq .memory_bytes\n",
    .run = run_host,
    .flags = VERB_REMOTE | VERB_FORMAT,
};

static int run_stale(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = {
        .method = "GET", .before = "/v1/inspect/stale", .kind = &kind_stale, .list = true
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_inspect_stale = {
    .name = "inspect stale",
    .arguments = "",
    .summary = "show leftovers of dead sandboxes",
    .text = "'sandboxer reap-stale --apply' removes it.\n"
            "\n"
            "  sandboxer inspect stale\n",
    .run = run_stale,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};
