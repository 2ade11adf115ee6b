/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/verbs/verbs.h"
#include "lib/http/h1.h"

static const struct column columns[] = {
    COLUMN("ID", "request_id"),
    COLUMN("STATE", "state", .state = true),
    COLUMN("TOOL", "tool"),
    COLUMN("SANDBOX", "sandbox_id"),
    COLUMN("OWNER", "owner", .most = 20),
    COLUMN("TIER", "tier"),
    COLUMN("ASKED", "created_at", .show = show_age),
    COLUMN("EXPIRES", "expires_at", .show = show_until),
    COLUMN("DECIDED BY", "decided_by", .alone = true),
    COLUMN("REASON", "reason", .alone = true),
    COLUMN("RULE", "rule", .alone = true),
    COLUMN("PEER", "peer", .alone = true),
    COLUMN("POLICY", "policy_version", .alone = true),
    COLUMN("REQUEST", "request", .alone = true),
    COLUMN("ARGUMENTS", "args", .alone = true, .block = true),
    COLUMN("RESULT", "result", .alone = true, .block = true),
};
static const struct answer_kind kind = { "approvals", "request_id", columns, COUNT_OF(columns) };

/* --- list --- */

struct approvals_list_options {
    struct common common;
    bool all;
};

static const struct option_spec list_options[] = {
    { "all", 'a', NULL, "those that are decided, too", .kind = OPTION_FLAG,
      .at = offsetof(struct approvals_list_options, all) },
};

static int run_approvals_list(const struct verb *v, int argc, char **argv)
{
    static struct approvals_list_options o;
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, &o.common, "GET");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    api_call_path(&c, "/v1/approvals");
    api_call_query(&c, "all", o.all ? "true" : NULL);
    status = api_call_run(&c);
    return status ? status : answer_list(&c, c.answer, &kind);
}

const struct verb verb_approvals_list = {
    .name = "approvals list",
    .arguments = "",
    .summary = "list calls of tools that wait for a master",
    .text = "  sandboxer approvals list\n"
            "  sandboxer approvals list --all\n",
    .options = list_options,
    .n_options = COUNT_OF(list_options),
    .run = run_approvals_list,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

/* --- show --- */

static int run_approvals_show(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "GET",
                                          .before = "/v1/approvals/",
                                          .kind = &kind };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_approvals_show = {
    .name = "approvals show",
    .arguments = "ID",
    .summary = "show one, with its arguments and its result",
    .text = "  sandboxer approvals show req_4k7\n",
    .run = run_approvals_show,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_APPROVAL,
};

/* --- deciding --- */

struct decide_options {
    struct common common;
    const char *reason, *grant, *uses;
    bool self;
};

#define AT(member) .at = offsetof(struct decide_options, member)
#define MASTER_TEXT                                                                                \
    "You cannot decide about your own request: another user must, or you with a master token in\n" \
    "SANDBOXER_MASTER.\n"                                                                          \
    "\n"

static const struct option_spec approve_options[] = {
    { "reason", 0, "TEXT", "for the record", .kind = OPTION_TEXT, AT(reason) },
    { "grant", 0, "DURATION", "let more calls of the tool on the sandbox pass for so long",
      .kind = OPTION_DURATION, AT(grant) },
    { "uses", 0, "N", "how many of them", .kind = OPTION_TEXT, AT(uses) },
    { "self", 0, NULL, "approve your own request, on a terminal, if trust.self_approval is on",
      .kind = OPTION_FLAG, AT(self) },
};

static const struct option_spec reject_options[] = {
    { "reason", 0, "TEXT", "reason, reported to the caller", .kind = OPTION_TEXT, AT(reason) },
};

/* Writes a number as a number; other text is left for the daemon to reject. */
static void write_uses(struct json_writer *w, const char *uses)
{
    uint64_t n;

    if (!uses)
        return;
    json_key(w, STR("uses"));
    if (str_to_u64(str_from(uses), &n))
        json_put_uint(w, n);
    else
        json_put_lossy(w, str_from(uses));
}

/* NULL: the variable is not set. */
static int read_master_variable(const char **ret, struct err *e)
{
    const char *token = getenv("SANDBOXER_MASTER");

    if (token && !h1_is_value(str_from(token)))
        return err_set(e, ERR_INVALID,
                       "SANDBOXER_MASTER is not a valid token (it contains a control character)");
    *ret = token && token[0] ? token : NULL;
    return 0;
}

static int post_approval_decision(const struct verb *v, int argc, char **argv, const char *how,
                                  const char *done)
{
    static struct decide_options o;
    AUTO(api_call_done) struct api_call c;
    struct json_writer *w;
    const char *master;
    struct err e;
    int status;

    api_call_init(&c, v, &o.common, "POST");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (read_master_variable(&master, &e) < 0)
        return api_call_failed(&c, &e);
    if (o.self && isatty(STDIN_FILENO) != 1)
        return verb_misused(v, "--self is for a person: standard input is not a terminal");
    api_call_path(&c, "/v1/approvals/%s/%s", argv[0], how);
    api_call_field(&c, "Sandboxer-Master", master);
    w = api_call_json(&c);
    json_begin_object(w);
    body_text(w, "reason", o.reason);
    body_text(w, "grant", o.grant);
    write_uses(w, o.uses);
    body_flag(w, "self", o.self);
    json_end_object(w);
    status = api_call_run(&c);
    return status ? status : answer_done(&c, c.answer, "%s %s", argv[0], done);
}

static int run_approve(const struct verb *v, int argc, char **argv)
{
    return post_approval_decision(v, argc, argv, "approve", "approved");
}

const struct verb verb_approvals_approve = {
    .name = "approvals approve",
    .arguments = "ID",
    .summary = "approve a held call: it runs once, unchanged",
    .text = MASTER_TEXT "  sandboxer approvals approve req_4k7\n"
                        "  sandboxer approvals approve req_4k7 --grant 10m --uses 5\n",
    .options = approve_options,
    .n_options = COUNT_OF(approve_options),
    .run = run_approve,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_APPROVAL,
};

static int run_reject(const struct verb *v, int argc, char **argv)
{
    return post_approval_decision(v, argc, argv, "reject", "rejected");
}

const struct verb verb_approvals_reject = {
    .name = "approvals reject",
    .arguments = "ID",
    .summary = "refuse a call that waits for a master",
    .text = MASTER_TEXT "  sandboxer approvals reject req_4k7 --reason 'not that host'\n",
    .options = reject_options,
    .n_options = COUNT_OF(reject_options),
    .run = run_reject,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_APPROVAL,
};
