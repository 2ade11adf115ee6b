/* SPDX-License-Identifier: Apache-2.0 */
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
static const struct answer_kind kind = KIND("peers", "id", columns);

const struct verb verb_peers_list = {
    .name = "peers list",
    .summary = "list sessions of clients that call tools",
    .text = "  sandboxer peers list\n",
    REQUEST("GET", "/v1/peers", .kind = &kind, .list = true),
};

const struct verb verb_peers_end = {
    .name = "peers end",
    ARGUMENTS("ID", 1, 1, COMPLETE_NOTHING),
    .summary = "end a session, and its sandboxes with it",
    .text = "  sandboxer peers end peer_4k7\n",
    REQUEST("DELETE", "/v1/peers/%s", .done = "ended"),
};
