/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/reload.h"
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("ID", "id"),
    COLUMN("VERSION", "version"),
    COLUMN("AVAILABLE", "available"),
    COLUMN("WHY NOT", "unavailable_reason", .most = 60),
    COLUMN("DESCRIPTION", "description", .most = 60),
    COLUMN("PROFILE", "", .alone = true, .block = true),
};
static const struct answer_kind kind = KIND("profiles", "id", columns);

const struct verb verb_profiles_list = {
    .name = "profiles list",
    .summary = "list the profiles, and which of them this host can serve",
    .text = "  sandboxer profiles list\n",
    REQUEST("GET", "/v1/profiles", .kind = &kind, .list = true),
};

const struct verb verb_profiles_get = {
    .name = "profiles get",
    ARGUMENTS("PROFILE", 1, 1, COMPLETE_PROFILE),
    .summary = "show a profile",
    .text = "  sandboxer profiles get profile.agent-dev -o yaml\n",
    REQUEST("GET", "/v1/profiles/%s", .kind = &kind),
};

static const struct column problem_columns[] = {
    COLUMN("LINE", "line"),
    COLUMN("FIELD", "field"),
    COLUMN("PROBLEM", "message"),
};
static const struct answer_kind problems = KIND("problems", "message", problem_columns);

const struct verb verb_profiles_validate = {
    .name = "profiles validate",
    ARGUMENTS("FILE", 1, 1, COMPLETE_FILE),
    .summary = "check a profile that you are writing",
    .text = "Shows every mistake, and where it is (of egress rules, the first); the exit\n"
            "status is 1 then. '-' is stdin.\n"
            "\n"
            "  sandboxer profiles validate my-profile.yaml\n",
    REQUEST_AS(VERB_REMOTE | VERB_FORMAT, "POST", "/v1/profiles/validate", .body = BODY_YAML,
               .kind = &problems, .list = true, .print = request_print_validated,
               .finish = request_finish_validated),
};

const struct verb verb_profiles_reload = {
    .name = "profiles reload",
    .summary = "let the daemon read the profiles again, and show what changed",
    .text = "A file with a mistake is reported, and the exit status is 1; the other profiles are\n"
            "taken. For administrators: root, and the daemon's user.\n"
            "\n"
            "  sandboxer profiles reload\n",
    REQUEST("POST", "/v1/profiles/reload", .print = reload_print, .finish = reload_finish),
};
