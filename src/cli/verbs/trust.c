/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/verbs/verbs.h"
#include "lib/json/reader.h"

enum { ARGS_BYTES_MAX = 1 << 20, ARGS_MEMORY = 16 << 20, ARGS_DEPTH = 16 };

static const struct column columns[] = {
    COLUMN("VERSION", "version"),
    COLUMN("MODE", "mode"),
    COLUMN("SOURCE", "source"),
    COLUMN("LOADED", "loaded_at", .show = show_age),
    COLUMN("PROBLEM", "problem"),
    COLUMN("WITHOUT ONE", "failure"),
    COLUMN("TOOLS", "tools", .alone = true, .block = true),
};
static const struct answer_kind kind = KIND("trust", "version", columns);

const struct verb verb_trust_show = {
    .name = "trust show",
    .summary = "show the policy for tool calls",
    .text = "  sandboxer trust show\n",
    REQUEST("GET", "/v1/trust", .kind = &kind),
};

const struct verb verb_trust_reload = {
    .name = "trust reload",
    .summary = "read the policy for tools again",
    .text = "An invalid policy changes nothing. Calls that were held under another policy must\n"
            "be requested again.\n"
            "\n"
            "  sandboxer trust reload\n",
    REQUEST("POST", "/v1/trust/reload", .kind = &kind),
};

/* --- validate --- */

static const struct column problem_columns[] = { COLUMN("PROBLEM", "problem") };
static const struct answer_kind problem = KIND("problems", "problem", problem_columns);

const struct verb verb_trust_validate = {
    .name = "trust validate",
    ARGUMENTS("FILE", 1, 1, COMPLETE_FILE),
    .summary = "check a policy for tools that you are writing",
    .text = "Lists its mistakes with their lines; the exit status is 1 then. '-' is stdin.\n"
            "\n"
            "  sandboxer trust validate policy.yaml\n",
    REQUEST_AS(VERB_REMOTE | VERB_FORMAT, "POST", "/v1/trust/validate", .body = BODY_YAML,
               .kind = &problem, .print = request_print_validated,
               .finish = request_finish_validated),
};

/* --- explain --- */

struct trust_explain_options {
    struct common common;
    const char *role, *client;
    bool network;
};

#define AT(member) .at = offsetof(struct trust_explain_options, member)
static const struct option_spec explain_options[] = {
    { "role", 0, "ROLE", "role of the caller (default: journeyman)", AT(role), .member = "role",
      .words = "apprentice journeyman master" },
    { "client", 0, "KIND", "name of the client", AT(client), .member = "client" },
    { "network", 0, NULL, "the sandbox reaches the network", AT(network) },
};

static const struct column verdict_columns[] = {
    COLUMN("VERDICT", "verdict", .state = true),
    COLUMN("REASON", "reason"),
    COLUMN("RULE", "rule"),
    COLUMN("WOULD BE", "would"),
    COLUMN("CODE", "code"),
    COLUMN("AS", "as"),
    COLUMN("TIER", "tier"),
    COLUMN("NEEDS", "role"),
    COLUMN("APPROVAL", "approval"),
    COLUMN("EFFECT", "effect"),
    COLUMN("MODE", "mode"),
    COLUMN("POLICY", "policy_version"),
    COLUMN("CHECKS", "checks", .alone = true, .block = true),
};
static const struct answer_kind verdict = KIND("verdicts", "verdict", verdict_columns);

/* Reads the arguments here, so that a mistake in them is a usage error. */
static int write_explain_body(struct api_call *c, void *options, char **argv)
{
    const struct trust_explain_options *o = options;
    AUTO(arena_done) struct arena a = ARENA_INIT(ARGS_MEMORY);
    const struct json_limits limits = { .bytes = ARGS_BYTES_MAX, .depth = ARGS_DEPTH };
    const struct json *v;
    struct err e;

    if (o->network) {
        json_field_begin_object(&c->json, "capabilities");
        json_field_bool(&c->json, "network", true);
        json_end_object(&c->json);
    }
    if (!argv[1])
        return 0;
    if (json_read(str_from(argv[1]), limits, &a, &v, &e) < 0)
        return verb_misused(c->verb, "the arguments: %s", e.msg);
    json_field_tree(&c->json, "args", v);
    return 0;
}

static int finish_explain(const struct api_call *c, char **argv)
{
    return str_eq(show_string(c->answer, "verdict"), STR("allow")) ? 0 : EXIT_REPORTED;
}

const struct verb verb_trust_explain = {
    .name = "trust explain",
    ARGUMENTS("TOOL [ARGS]", 1, 2, COMPLETE_NOTHING),
    .summary = "explain the policy's decision about a call",
    .text = "Nothing is called, used up or recorded. ARGS are JSON. The exit status is 1 if the\n"
            "call would not just pass.\n"
            "\n"
            "  sandboxer trust explain sandbox_list --role apprentice\n"
            "  sandboxer trust explain sandbox_exec '{\"sandbox_id\":\"sbx_4k7\"}' --network\n",
    OPTIONS(explain_options, struct trust_explain_options),
    REQUEST("POST", "/v1/trust/explain", .body = BODY_JSON, .members = { "tool" },
            .prepare = write_explain_body, .kind = &verdict, .finish = finish_explain),
};
