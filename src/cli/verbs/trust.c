/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/validate.h"
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
static const struct answer_kind kind = { "trust", "version", columns, COUNT_OF(columns) };

static int run_trust_show(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "GET", .before = "/v1/trust", .kind = &kind };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_trust_show = {
    .name = "trust show",
    .arguments = "",
    .summary = "show the policy for tool calls",
    .text = "  sandboxer trust show\n",
    .run = run_trust_show,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

static int run_reload(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/trust/reload",
                                          .kind = &kind };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_trust_reload = {
    .name = "trust reload",
    .arguments = "",
    .summary = "read the policy for tools again",
    .text = "An invalid policy changes nothing. Calls that were held under another policy must be\n"
            "requested again.\n"
            "\n"
            "  sandboxer trust reload\n",
    .run = run_reload,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

/* --- validate --- */

static int run_trust_validate(const struct verb *v, int argc, char **argv)
{
    static const struct column shown[] = { COLUMN("PROBLEM", "problem") };
    static const struct answer_kind problem = { "problems", "problem", shown, COUNT_OF(shown) };
    static const struct file_validation x = { .what = "trust", .problem = &problem };

    return validate_file(v, argc, argv, &x);
}

const struct verb verb_trust_validate = {
    .name = "trust validate",
    .arguments = "FILE",
    .summary = "check a policy for tools that you are writing",
    .text = "Lists its mistakes with their lines; the exit status is 1 then. '-' is stdin.\n"
            "\n"
            "  sandboxer trust validate policy.yaml\n",
    .run = run_trust_validate,
    .flags = VERB_REMOTE | VERB_FORMAT,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_FILE,
};

/* --- explain --- */

struct trust_explain_options {
    struct common common;
    const char *role, *client;
    bool network;
};

#define AT(member) .at = offsetof(struct trust_explain_options, member)
static const struct option_spec explain_options[] = {
    { "role", 0, "ROLE", "role of the caller (default: journeyman)", .kind = OPTION_WORD, AT(role),
      .words = "apprentice journeyman master" },
    { "client", 0, "KIND", "name of the client", .kind = OPTION_TEXT, AT(client) },
    { "network", 0, NULL, "the sandbox reaches the network", .kind = OPTION_FLAG, AT(network) },
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
static const struct answer_kind verdict = { "verdicts", "verdict", verdict_columns,
                                            COUNT_OF(verdict_columns) };

/* Read here, so that a mistake in it is shown as one. */
static int write_explain_args(struct json_writer *w, const char *text, struct arena *a,
                              struct err *e)
{
    const struct json_limits limits = { .bytes = ARGS_BYTES_MAX, .depth = ARGS_DEPTH };
    const struct json *v;
    int r = text ? json_read(str_from(text), limits, a, &v, e) : 0;

    if (r < 0)
        return err_wrap(e, r, "the arguments");
    if (text) {
        json_key(w, STR("args"));
        json_put_tree(w, v);
    }
    return 0;
}

static void write_explain_capabilities(struct json_writer *w, bool network)
{
    if (!network)
        return;
    json_key(w, STR("capabilities"));
    json_begin_object(w);
    body_flag(w, "network", true);
    json_end_object(w);
}

static int run_trust_explain(const struct verb *v, int argc, char **argv)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(ARGS_MEMORY);
    struct trust_explain_options o = { 0 };
    AUTO(api_call_done) struct api_call c;
    struct json_writer *w;
    struct err e;
    int status;

    api_call_init(&c, v, &o.common, "POST");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    api_call_path(&c, "/v1/trust/explain");
    w = api_call_json(&c);
    json_begin_object(w);
    body_text(w, "tool", argv[0]);
    body_text(w, "role", o.role);
    body_text(w, "client", o.client);
    write_explain_capabilities(w, o.network);
    if (write_explain_args(w, argc > 1 ? argv[1] : NULL, &a, &e) < 0)
        return verb_misused(v, "%s", e.msg);
    json_end_object(w);
    status = api_call_run(&c);
    if (status == 0)
        status = answer_record(&c, c.answer, &verdict);
    if (status == 0 && !str_eq(show_string(c.answer, "verdict"), STR("allow")))
        status = EXIT_REPORTED;
    return status;
}

const struct verb verb_trust_explain = {
    .name = "trust explain",
    .arguments = "TOOL [ARGS]",
    .summary = "explain the policy's decision about a call",
    .text =
        "Nothing is called, used up or recorded. ARGS are JSON. The exit status is 1 if the call\n"
        "would not just pass.\n"
        "\n"
        "  sandboxer trust explain sandbox_list --role apprentice\n"
        "  sandboxer trust explain sandbox_exec '{\"sandbox_id\":\"sbx_4k7\"}' --network\n",
    .options = explain_options,
    .n_options = COUNT_OF(explain_options),
    .run = run_trust_explain,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 2,
};
