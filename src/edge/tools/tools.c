/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/tools/workspace.h"

#include <stdio.h>

#include "edge/core/route.h"
#include "control/owner/owner_share.h"
#include "edge/mcp/line.h"

#define INSTRUCTIONS                                                                               \
    "Run programs where they can do no harm. Make a sandbox with sandbox_create, put files in it " \
    "with sandbox_write, run commands with sandbox_exec, look at results with sandbox_read, and "  \
    "end it with sandbox_destroy when you are done. A sandbox has no network unless it was asked " \
    "for; its files are gone when it ends."

#define WORKSPACE_INSTRUCTIONS                                                                     \
    "You have a sandbox with a copy of the user's directory, in which you can run "                \
    "programs without harm to the user's machine: leave out sandbox_id to use it. "                \
    "Commands start in the copy. Edit files there, with sandbox_write or commands: the "           \
    "copy is made once, and later changes of the user's directory do not reach it. A hint "        \
    "of sandbox_exec names such changes: make them in the sandbox, too. "                          \
    "sandbox_diff shows what you changed; nothing of it is in the user's directory until "         \
    "sandbox_sync has brought it back. Files that the user changed meanwhile, and files "          \
    "that programs of the user's machine run by themselves, are only brought back by the "         \
    "user. The sandbox ends with the session. sandbox_create makes other sandboxes, "              \
    "without the directory."

enum { ID_SHOWN_MAX = 40 };

/* A sandbox in the arguments of a tool that is not live: the store may know how it ended. */
struct lost_sandbox {
    struct mcp_request *request; /* referenced; this struct is on its arena */
    struct find_op op;
};

static void on_lost_found(struct find_op *op, int r, const struct err *e)
{
    struct lost_sandbox *x = container_of(op, struct lost_sandbox, op);
    struct mcp_request *request = x->request;
    struct err ended;

    if (r >= 0 && op->record) {
        (void)record_fail_ended(op->record, ERR_CONFLICT, &ended);
        mcp_tool_fail(request, "The %s. sandbox_create makes a new one.", ended.msg);
    } else {
        mcp_tool_fail(
            request,
            "There is no sandbox '%.*s'. sandbox_list shows yours; sandbox_create makes a new "
            "one.",
            op->id.n < ID_SHOWN_MAX ? (int)op->id.n : ID_SHOWN_MAX, op->id.n ? op->id.p : "");
    }
    find_op_done(op);
    mcp_request_unref(request);
}

void mcp_fail_no_sandbox(struct mcp_request *r, struct str id)
{
    struct lost_sandbox *x = arena_alloc(&r->arena, sizeof *x);

    if (!x) {
        mcp_tool_fail(r, "There is no such sandbox. sandbox_list shows yours.");
        return;
    }
    *x = (struct lost_sandbox){
        .request = mcp_request_ref(r),
        .op = { .caller = mcp_caller(r->session), .id = id, .done = on_lost_found }
    };
    control_find(mcp_client_of(r)->control, &x->op);
}

struct sandbox *mcp_sandbox(struct mcp_request *r, const char *id)
{
    struct sandbox *s;

    if (!control_find_now(mcp_client_of(r)->control, mcp_caller(r->session), str_from(id), &s)) {
        mcp_fail_no_sandbox(r, str_from(id));
        return NULL;
    }
    sandbox_touch(s);
    return s;
}

/* --- shared functions of tools --- */

void mcp_query_done(void *query)
{
    arena_done(&((struct store_query *)query)->arena);
}

bool mcp_box_query_after(struct mcp_box_query *b, struct str cursor)
{
    struct str time, id = str_cut(cursor, '.', &time);

    return !cursor.p || (str_to_i64(time, &b->query.after.created_ns) && id_valid("sbx_", id) &&
                         str_copy(id, b->query.after.id, sizeof b->query.after.id));
}

int mcp_box_query_start(struct mcp_box_query *b, struct mcp_request *r, size_t limit,
                        store_answer_fn *done, struct err *e)
{
    const struct caller *who = mcp_caller(r->session);
    int res;

    b->query.states = ((1u << SANDBOX_STATE_COUNT_) - 1) & ~(1u << SANDBOX_DESTROYED);
    b->query.labels = who->labels;
    b->query.limit = (int)limit + 1;
    b->request = mcp_request_ref(r);
    res = control_list(mcp_client_of(r)->control, who, &b->query, done, e);
    if (res < 0)
        mcp_request_unref(r);
    return res;
}

bool mcp_arguments(struct mcp_request *r, const struct json *v, void *out)
{
    struct err e;

    if (json_bind(v, r->tool->fields, r->tool->field_count, out, &r->arena, &e) >= 0)
        return true;
    mcp_tool_fail(r, "The arguments do not fit: %s. See the tool's input schema.", e.msg);
    return false;
}

static const char advice_if_ended[] = " The sandbox may have ended: sandbox_list shows its state, "
                                      "sandbox_create makes a new one.";
static const char advice_if_paused[] =
    " It keeps its files. Ask the person who paused it to resume "
    "it, or make another with sandbox_create.";
static const char advice_if_full[] = " Destroy a sandbox that you do not need with "
                                     "sandbox_destroy, or tell the operator.";
static const char *const advice[ERR_CODE_COUNT_] = {
    [ERR_NOT_FOUND] = " Check the name, or make it first.",
    [ERR_CONFLICT] = advice_if_ended,
    [ERR_PAUSED] = advice_if_paused,
    [ERR_BUSY] = " Try again in a moment.",
    [ERR_QUOTA] = " Destroy a sandbox that you do not need with sandbox_destroy.",
    [ERR_FULL] = advice_if_full,
    [ERR_TIMEOUT] = " Try again, or with less at once.",
    [ERR_TOO_BIG] = " Do it in smaller parts.",
};

void mcp_fail_err(struct mcp_request *r, const char *doing, const struct err *e)
{
    const char *next = e->code == ERR_FULL && e->sys /* disk of the sandbox */
                           ? " Remove files that the sandbox does not need."
                           : advice[e->code];

    mcp_tool_fail(r, "%s: %s.%s", doing, e->msg, next ? next : "");
}

static const char *find_client_account(void *user)
{
    return ((const struct mcp_client *)user)->account.name;
}

static const char *find_client_family(void *user)
{
    return ((const struct mcp_client *)user)->account.part.p;
}

/* The members that both offers share. */
#define OFFER_MEMBERS                                                                              \
    .name = "sandboxer", .title = "Sandboxer", .version = SANDBOXER_VERSION, .tools = mcp_tools,   \
    .prompts = mcp_prompts, .n_prompts = MCP_PROMPT_COUNT, .templates = mcp_templates,             \
    .n_templates = MCP_TEMPLATE_COUNT, .meet = mcp_client_meet, .trust = mcp_client_trust,         \
    .in_use = mcp_client_in_use, .authorize = mcp_authorize, .refused = mcp_client_refused,        \
    .list = mcp_list_sandboxes, .read = mcp_read_resource, .watch = mcp_watch_resource,            \
    .complete = mcp_complete_argument, .holder = find_client_account,                              \
    .family = find_client_family, .session_ended = mcp_client_left

const struct mcp_offer mcp_offer = {
    OFFER_MEMBERS,
    .instructions = INSTRUCTIONS,
    .n_tools = MCP_PLAIN_TOOL_COUNT,
};

const struct mcp_offer mcp_workspace_offer = {
    OFFER_MEMBERS,
    .instructions = WORKSPACE_INSTRUCTIONS,
    .n_tools = MCP_TOOL_COUNT,
    .preset = "sandbox_id",
    .preset_doc = "The id of a sandbox; left out: the one with the copy of the user's directory.",
};

/* --- the route --- */

static void serve_mcp(struct call *c)
{
    struct api *a = c->api;
    char peer[MCP_PEER_MAX];
    struct http_exchange *x;
    struct mcp_client *m;

    if (call_header(c, CHECKPOINT_HEADER).n && (c->caller.by_token || !http_peer(c->x)->is_unix)) {
        (void)call_fail_with(c, 403, "denied",
                             CHECKPOINT_HEADER ": only a user on the unix socket may ask for "
                                               "checkpoints; leave it out");
        return;
    }
    m = mcp_client_of_call(c);
    if (!mcp_workspace_read(c, m)) {
        mcp_client_free(m);
        return;
    }
    snprintf(peer, sizeof peer, "%s", m->caller.actor.id);
    x = call_take_exchange(c);
    if (http_request(x)->method == H1_GET && mcp_line_wanted(x))
        mcp_line_accept(&a->mcp, m->workspace ? &mcp_workspace_offer : &mcp_offer, x, peer, m,
                        mcp_client_free, a->mcp_web.max);
    else
        mcp_web_serve(&a->mcp_web, x,
                      (struct mcp_who){ .peer = peer, .user = m, .free_user = mcp_client_free });
}

const struct route routes_mcp[] = {
    { H1_POST, VERB_READ, "/mcp", ROUTE_LONG | ROUTE_STREAM, serve_mcp, "Send an MCP message",
      .answer = "application/json text/event-stream" },
    { H1_GET, VERB_READ, "/mcp", ROUTE_LONG, serve_mcp, "Open the event stream of an MCP session",
      .answer = "text/event-stream" },
    { H1_DELETE, VERB_READ, "/mcp", 0, serve_mcp, "End an MCP session", .status = 204 },
    { .path = NULL },
};
