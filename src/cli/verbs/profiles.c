/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/reload.h"
#include "cli/verbs/verbs.h"
#include "lib/json/build.h"

static const struct column columns[] = {
    COLUMN("ID", "id"),
    COLUMN("VERSION", "version"),
    COLUMN("AVAILABLE", "available"),
    COLUMN("WHY NOT", "unavailable_reason", .most = 60),
    COLUMN("DESCRIPTION", "description", .most = 60),
    COLUMN("PROFILE", "", .alone = true, .block = true),
};
static const struct answer_kind kind = KIND("profiles", "id", columns);

static const struct column usable_columns[] = {
    COLUMN("ID", "id"),
    COLUMN("VERSION", "version"),
    COLUMN("DESCRIPTION", "description", .most = 80),
};

enum { PROFILES_MEMORY = 16 << 20 };

struct list_profiles_options {
    struct common common;
    bool all;
};

static const struct option_spec list_profiles_options[] = {
    { "all", 'a', NULL, "also those that this host or this build cannot serve, with the reason",
      .at = offsetof(struct list_profiles_options, all) },
};

/* People see the profiles that a create can use; programs (-o) get them all. */
static int print_profiles(const struct api_call *c, const void *options, char **argv)
{
    static const struct answer_kind usable = { "profiles", "id", usable_columns,
                                               COUNT_OF(usable_columns) };
    const struct list_profiles_options *o = options;
    AUTO(arena_done) struct arena a = ARENA_INIT(PROFILES_MEMORY);
    AUTO(json_build_done) struct json_build rows = { 0 };
    const struct json *all = answer_rows(c->answer, &kind);
    struct json list;
    size_t hidden = 0;
    int status;

    if (o->all)
        return answer_list(c, c->answer, &kind);
    json_build_init(&rows, &a);
    for (const struct json *row = json_first(all); row != json_end(all); row++) {
        if (!show_true(row, "available"))
            hidden++;
        else if (json_build_push(&rows, row) < 0)
            return verb_failed(c->verb, "the list is too long");
    }
    if (json_build_close(&rows, 0, &list) < 0)
        return verb_failed(c->verb, "the list is too long");
    list.type = JSON_ARRAY;
    status = answer_list(c, &list, &usable);
    if (status == 0 && hidden && !c->common->quiet)
        cli_report("%zu more cannot be served here; 'sandboxer profiles list --all' shows why",
                   hidden);
    return status;
}

const struct verb verb_profiles_list = {
    .name = "profiles list",
    .summary = "list the profiles that this host can serve",
    .text = "With --all also those that it cannot serve, with the reason. -o prints them all.\n"
            "\n"
            "  sandboxer profiles list\n"
            "  sandboxer profiles list --all\n",
    OPTIONS(list_profiles_options, struct list_profiles_options),
    REQUEST("GET", "/v1/profiles", .kind = &kind, .list = true, .print = print_profiles),
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
