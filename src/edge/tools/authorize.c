/* SPDX-License-Identifier: Apache-2.0 */
/* Authorizes requests: checks the rights of the token, then the tool policy. Asynchronous, because
 * held calls and used quotas are stored before the verdict is reported. */
#include <stdio.h>
#include <stdlib.h>

#include "edge/tools/approved_calls.h"
#include "base/own.h"
#include "edge/tools/arguments.h"
#include "edge/tools/workspace.h"

/* The right of a token that each tool requires. */
static const struct {
    const char *tool;
    enum token_verb verb;
} verbs[] = {
    { "sandbox_create", VERB_CREATE }, { "sandbox_exec", VERB_EXEC },
    { "sandbox_read", VERB_FILES },    { "sandbox_write", VERB_FILES },
    { "sandbox_install", VERB_EXEC },  { "sandbox_destroy", VERB_DESTROY },
    { "sandbox_list", VERB_READ },     { "sandbox_diff", VERB_FILES },
    { "sandbox_sync", VERB_FILES },
};

bool mcp_token_allows(const struct caller *who, const char *tool, struct mcp_verdict *ret)
{
    ret->kind = MCP_DENY;
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        if (strcmp(verbs[i].tool, tool) != 0)
            continue;
        if (caller_may(who, verbs[i].verb))
            return true;
        snprintf(ret->reason, sizeof ret->reason,
                 "this token does not allow '%s': ask its owner for one that does",
                 token_verb_names[verbs[i].verb]);
        return false;
    }
    snprintf(ret->reason, sizeof ret->reason, "the tool %s is not available", tool);
    return false;
}

/* --- the policy --- */

enum { TOOL_MAX = 64 };

struct tool_authorization {
    struct mcp_request *request; /* referenced */
    struct trust_op op;
    struct trust_capabilities sandbox, declares;
    struct create_plan plan;
    void (*go)(struct mcp_request *r); /* NULL: a tool call */
};

static void free_authorization(struct tool_authorization *x)
{
    create_plan_done(&x->plan);
    free(x);
}

static const struct {
    enum mcp_verdict_kind kind;
    const char *advice;
} kinds[VERDICT_KIND_COUNT_] = {
    [VERDICT_ALLOW] = { MCP_ALLOW, "Do not repeat this call unchanged." },
    [VERDICT_DENY] = { MCP_DENY, "Do not repeat this call unchanged." },
    [VERDICT_RATE_LIMIT] = { MCP_RATE_LIMIT, "Wait, or make fewer calls." },
    [VERDICT_REQUIRE_APPROVAL] = { MCP_REQUIRE_APPROVAL,
                                   "It then runs automatically; call the tool again with "
                                   "_meta \"" MCP_REQUEST_ID "\" to get its result." },
};

static void fill_mcp_verdict(const struct verdict *v, struct mcp_verdict *ret)
{
    ret->kind = kinds[v->kind].kind;
    if (v->request_id[0])
        snprintf(ret->reason, sizeof ret->reason,
                 "%.160s. A master must approve it: sandboxer approvals approve %s. %s", v->reason,
                 v->request_id, kinds[v->kind].advice);
    else
        snprintf(ret->reason, sizeof ret->reason, "%s. %s", v->reason, kinds[v->kind].advice);
    memcpy(ret->request_id, v->request_id, sizeof ret->request_id);
    memcpy(ret->audit_id, v->audit_id, sizeof ret->audit_id);
    ret->granted = v->granted;
}

void mcp_deny(struct mcp_request *r, const char *tool, struct mcp_verdict *v)
{
    struct mcp_refusal x = { .tool = str_from(tool), .code = (int)v->kind, .reason = v->reason };

    if (mcp_is_finished(r))
        return;
    mcp_client_refused(r->session->user, &x);
    memcpy(v->audit_id, x.audit_id, sizeof v->audit_id);
    mcp_refuse(r, v);
}

static void deliver_verdict(struct mcp_request *r, const struct mcp_verdict *v,
                            void (*go)(struct mcp_request *r))
{
    if (mcp_is_finished(r))
        return;
    r->on_cancel = NULL;
    r->granted = v->granted;
    if (v->kind == MCP_ALLOW)
        memcpy(r->audit_id, v->audit_id, sizeof r->audit_id);
    if (!go)
        mcp_decided(r, v);
    else if (v->kind == MCP_ALLOW)
        go(r);
    else
        mcp_refuse(r, v);
}

/* An invalid sandbox id is reported as an error result of the tool, so that the model can correct
 * it. */
static void fail_wrong_id(struct mcp_request *r, const struct mcp_verdict *v)
{
    const struct json *id = json_get(r->arguments, STR("sandbox_id"));

    if (mcp_is_finished(r))
        return;
    r->on_cancel = NULL;
    r->judged = true; /* the verdict has an audit record */
    memcpy(r->audit_id, v->audit_id, sizeof r->audit_id);
    if (id && id->type == JSON_STR)
        mcp_fail_no_sandbox(r, id->s);
    else
        mcp_tool_fail(
            r,
            "The arguments do not fit: sandbox_id: %s. sandbox_list shows your sandboxes; "
            "sandbox_create makes a new one.",
            id ? "must be a text" : "is missing");
}

static void on_tool_judged(struct trust_op *op, int r, const struct err *e)
{
    struct tool_authorization *x = container_of(op, struct tool_authorization, op);
    struct mcp_request *q = x->request;
    void (*go)(struct mcp_request *) = x->go;
    struct mcp_verdict v = { .kind = MCP_DENY };
    bool wrong_id = r >= 0 && !go && op->verdict.kind == VERDICT_DENY &&
                    str_ends(str_from(op->verdict.rule), STR(".args.sandbox_id"));
    char tool[TOOL_MAX];

    str_copy(op->ask.tool, tool, sizeof tool);
    if (r < 0)
        snprintf(v.reason, sizeof v.reason, "the policy could not be evaluated: %s", e->msg);
    else
        fill_mcp_verdict(&op->verdict, &v);
    q->state = NULL;
    free_authorization(x);
    if (r < 0)
        mcp_deny(q, tool, &v);
    else if (wrong_id)
        fail_wrong_id(q, &v);
    else
        deliver_verdict(q, &v, go);
    mcp_request_unref(q);
}

static void cancel_authorization(struct mcp_request *r)
{
    struct tool_authorization *x = take_ptr(r->state);

    trust_op_cancel(&x->op);
    mcp_request_unref(r);
    free_authorization(x);
}

/* The declared capabilities of the sandbox in the arguments, if it is one of the client's, else
 * NULL. */
static const struct trust_capabilities *sandbox_capabilities(const struct mcp_client *m,
                                                             const struct json *args,
                                                             struct trust_capabilities *ret)
{
    const struct json *id = args ? json_get(args, STR("sandbox_id")) : NULL;
    struct sandbox *s;

    if (!id || id->type != JSON_STR || !control_find_now(m->control, &m->caller, id->s, &s))
        return NULL;
    trust_capabilities_of(s, trust_checks_filesystem(m->api->trust), ret);
    if (m->peer->workspace.network && mcp_workspace_is(m, sandbox_view(s).record->id))
        ret->approved_for = m->peer->record.id;
    sandbox_unref(s);
    return ret;
}

/* The capabilities of the sandbox that a sandbox_create call would make; NULL for other tools, or
 * if the arguments are invalid, which the tool reports. */
static const struct trust_capabilities *planned_capabilities(struct mcp_request *r,
                                                             const struct mcp_equal *what,
                                                             struct tool_authorization *x)
{
    const struct mcp_client *m = mcp_client_of(r);
    struct tool_create in = { 0 };
    const struct create_op op = { .caller = &m->caller, .request = &in.request };

    if (strcmp(what->tool, "sandbox_create") != 0 || !r->tool || !what->args ||
        json_bind(what->args, r->tool->fields, r->tool->field_count, &in, &r->arena, NULL) < 0 ||
        create_request_check(&in.request, &r->arena, NULL) < 0 ||
        control_plan(m->control, &op, &x->plan, NULL) < 0)
        return NULL;
    trust_capabilities_planned(&x->plan, &x->declares);
    return &x->declares;
}

static void query_tool_policy(struct mcp_request *r, const struct mcp_equal *what)
{
    const struct mcp_client *m = mcp_client_of(r);
    struct tool_authorization *x = new0(sizeof *x);

    x->request = mcp_request_ref(r);
    x->go = what->go;
    x->op.ask = (struct trust_question){
        .tool = str_from(what->tool),
        .args = what->args,
        .sandbox = sandbox_capabilities(m, what->args, &x->sandbox),
        .declares = planned_capabilities(r, what, x),
        .peer = m->peer,
        .role = r->trust.less ? (enum role)r->trust.role : m->peer->record.role,
        .not_held = what->can_wait ? NULL : "only calls of tools and reads of files wait",
    };
    x->op.done = on_tool_judged;
    r->state = x;
    r->on_cancel = cancel_authorization;
    trust_request(m->api->trust, &x->op);
}

bool mcp_may_call(struct mcp_request *r, const char *tool)
{
    struct caller who = mcp_client_of(r)->caller;
    struct mcp_verdict v = { 0 };

    if (r->trust.less)
        who.verbs &= r->trust.verbs;
    if (mcp_token_allows(&who, tool, &v))
        return true;
    mcp_deny(r, tool, &v);
    return false;
}

void mcp_authorize_as(struct mcp_request *r, const struct mcp_equal *x)
{
    if (mcp_may_call(r, x->tool))
        query_tool_policy(r, x);
}

static void authorize_filled_call(struct mcp_request *r)
{
    mcp_authorize_as(
        r, &(struct mcp_equal){ .tool = r->tool->name, .args = r->arguments, .can_wait = true });
}

void mcp_authorize(struct mcp_request *r)
{
    if (!mcp_approval_asked(r))
        mcp_workspace_fill(r, authorize_filled_call);
}
