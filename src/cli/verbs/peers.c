/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("ID", "id"),
    COLUMN("OWNER", "owner", .most = 20),
    COLUMN("ROLE", "role"),
    COLUMN("CLIENT", "client", .most = 30),
    COLUMN("STATE", "state", .state = true),
    COLUMN("SANDBOXES", "sandboxes"),
    COLUMN("BEGAN", "created_at", .show = show_age),
    COLUMN("SEEN", "seen_at", .show = show_age),
    COLUMN("MADE IN AN HOUR", "made_last_hour", .alone = true),
    COLUMN("MINUTES IN A DAY", "minutes_last_day", .alone = true),
};
static const struct answer_kind kind = { "peers", "id", columns, COUNT_OF(columns) };

static int run_peers_list(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = {
        .method = "GET", .before = "/v1/peers", .kind = &kind, .list = true
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_peers_list = {
    .name = "peers list",
    .arguments = "",
    .summary = "list sessions of clients that call tools",
    .text = "  sandboxer peers list\n",
    .run = run_peers_list,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

static int run_peers_end(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "DELETE",
                                          .before = "/v1/peers/",
                                          .done = "ended" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_peers_end = {
    .name = "peers end",
    .arguments = "ID",
    .summary = "end a session, and its sandboxes with it",
    .text = "  sandboxer peers end peer_4k7\n",
    .run = run_peers_end,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
};
