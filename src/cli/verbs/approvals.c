/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/approval_watch.h"
#include "cli/held_call.h"
#include "cli/verbs/verbs.h"

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
static const struct answer_kind kind = KIND("approvals", "request_id", columns);

static const struct option_spec list_options[] = {
    { "all", 'a', NULL, "those that are decided, too", .at = offsetof(struct one_option, flag),
      .query = "all" },
};

const struct verb verb_approvals_list = {
    .name = "approvals list",
    .summary = "list calls of tools that wait for a master",
    .text = "  sandboxer approvals list\n"
            "  sandboxer approvals list --all\n",
    OPTIONS(list_options, struct one_option),
    REQUEST("GET", "/v1/approvals", .kind = &kind, .list = true),
};

const struct verb verb_approvals_show = {
    .name = "approvals show",
    ARGUMENTS("ID", 1, 1, COMPLETE_APPROVAL),
    .summary = "show one, with its arguments and its result",
    .text = "  sandboxer approvals show req_4k7\n",
    REQUEST("GET", "/v1/approvals/%s", .kind = &kind),
};

/* --- deciding --- */

struct decide_options {
    struct common common;
    const char *reason, *grant, *uses;
    bool self;
};

#define AT(member) .at = offsetof(struct decide_options, member)
#define SELF_TEXT                                                                                  \
    "You cannot decide about your own request, unless trust.self_approval is on and you run the\n" \
    "daemon; else set SANDBOXER_MASTER to a master token.\n"                                       \
    "\n"
#define MASTER_TEXT                                                                                \
    "You cannot decide about your own request. Do it as another user, or with a master token:\n"   \
    "\n"                                                                                           \
    "  export SANDBOXER_MASTER=$(sandboxer token create -q --role master NAME)\n"                  \
    "\n"                                                                                           \
    "The user who runs the daemon may, with --self, where trust.self_approval is on: the "         \
    "request\n"                                                                                    \
    "is shown on the terminal, with a question.\n"                                                 \
    "\n"
#define SELF_OPTION                                                                                \
    {                                                                                              \
        "self", 0, NULL, "decide your own request, on a terminal, if trust.self_approval is on",   \
            AT(self), .member = "self"                                                             \
    }

static const struct option_spec approve_options[] = {
    { "reason", 0, "TEXT", "for the record", AT(reason), .member = "reason" },
    { "grant", 0, "DURATION", "let more calls of the tool on the sandbox pass for so long",
      .kind = OPTION_DURATION, AT(grant), .member = "grant" },
    { "uses", 0, "N", "how many of them", AT(uses) },
    SELF_OPTION,
};

static const struct option_spec reject_options[] = {
    { "reason", 0, "TEXT", "reason, reported to the caller", AT(reason), .member = "reason" },
    SELF_OPTION,
};

static int prepare_decision(struct api_call *c, void *options, char **argv)
{
    const struct decide_options *o = options;
    bool approves = c->verb == &verb_approvals_approve;
    int status = held_call_add_master(c);
    uint64_t n;

    if (status == 0 && o->self)
        status = held_call_confirm(c->verb, c->common, argv[0], approves ? "approve" : "reject");
    if (status)
        return status;
    if (str_to_u64(str_from(o->uses), &n))
        json_field_uint(&c->json, "uses", n);
    else if (o->uses) /* left for the daemon to reject */
        json_field_text(&c->json, "uses", o->uses);
    return 0;
}

#define DECISION(how, past)                                                                        \
    REQUEST("POST", "/v1/approvals/%s/" how, .body = BODY_JSON, .prepare = prepare_decision,       \
            .done = past)

const struct verb verb_approvals_approve = {
    .name = "approvals approve",
    ARGUMENTS("ID", 1, 1, COMPLETE_APPROVAL),
    .summary = "approve a held call: it runs once, unchanged",
    .text = MASTER_TEXT "  sandboxer approvals approve req_4k7\n"
                        "  sandboxer approvals approve req_4k7 --grant 10m --uses 5\n",
    OPTIONS(approve_options, struct decide_options),
    DECISION("approve", "approved"),
};

const struct verb verb_approvals_reject = {
    .name = "approvals reject",
    ARGUMENTS("ID", 1, 1, COMPLETE_APPROVAL),
    .summary = "refuse a call that waits for a master",
    .text = MASTER_TEXT "  sandboxer approvals reject req_4k7 --reason 'not that host'\n",
    OPTIONS(reject_options, struct decide_options),
    DECISION("reject", "rejected"),
};

/* --- watching --- */

struct watch_options {
    struct common common;
    const char *exec;
};

static const struct option_spec watch_options[] = {
    { "exec", 0, "COMMAND", "run this with sh for each held call, with the call as JSON on stdin",
      .at = offsetof(struct watch_options, exec) },
};

static int run_approvals_watch(struct api_call *c, void *options, int argc, char **argv)
{
    const struct watch_options *o = options;

    return approval_watch(c->verb, c->common, o->exec);
}

const struct verb verb_approvals_watch = {
    .name = "approvals watch",
    .summary = "show held calls as they come, and decide on a terminal",
    .text =
        "On a terminal each call is shown with its caller, arguments, sandbox and network, and\n"
        "a key decides: y approves, n rejects, t approves and lets the same pass for 10\n"
        "minutes, s skips, q ends. When a shown call ends by itself, keys count again after\n"
        "Enter, so that none meant for it decides the next one. It connects again when the\n"
        "daemon restarts.\n"
        "\n"
        "Without a terminal, or with -o, it prints a line or a document for each call, and\n"
        "decides nothing: input ends it with exit status 2.\n"
        "\n"
        "COMMAND runs in your session, one at a time and for 30 seconds at most; nothing of a\n"
        "call is among its arguments.\n"
        "\n" SELF_TEXT "  sandboxer approvals watch\n"
        "  sandboxer approvals watch --exec 'notify-send \"an agent waits\"'\n"
        "  sandboxer approvals watch -o json | jq -r .request_id\n",
    OPTIONS(watch_options, struct watch_options),
    .run = run_approvals_watch,
    .flags = VERB_REMOTE | VERB_FORMAT,
};
