#include "api/mcp.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/route.h"
#include "mcp/line.h"

enum { CLIENT_MAX = 256 << 10 };

#define INSTRUCTIONS                                                                               \
    "Run programs where they can do no harm. Make a sandbox with sandbox_create, put files in it " \
    "with sandbox_write, run commands with sandbox_exec, look at results with sandbox_read, and "  \
    "end it with sandbox_destroy when you are done. A sandbox has no network unless it was asked " \
    "for; its files are gone when it ends."

/* --- who --- */

static void client_free(void *user)
{
    struct mcp_client *m = user;

    for (struct link *l; (l = list_take(&m->boxes));)
        free(container_of(l, struct mcp_box, link));
    arena_done(&m->arena);
    free(m);
}

/* The caller outlives the request it came with. */
static struct mcp_client *client_new(const struct call *c)
{
    struct mcp_client *m = calloc(1, sizeof *m);
    const struct json_map *from = &c->caller.labels;
    struct str provider = call_header(c, "Sandbox-Provider");
    const char *usual = getenv("SANDBOX_PROVIDER");

    if (!m)
        abort();
    m->control = c->api->control;
    m->caller = c->caller;
    m->caller.admin = false; /* a model administers nothing */
    m->caller.actor.kind = ACTOR_AGT;
    arena_init(&m->arena, CLIENT_MAX);
    m->labels = arena_array(&m->arena, from->n + 1, sizeof *m->labels);
    for (size_t i = 0; i < from->n; i++)
        m->labels[i] = (struct json_pair){ arena_dup(&m->arena, str_from(from->p[i].key)),
                                           arena_dup(&m->arena, str_from(from->p[i].value)) };
    m->caller.labels = (struct json_map){ m->labels, from->n };
    if (!str_copy(provider, m->provider, sizeof m->provider) || !provider.n)
        snprintf(m->provider, sizeof m->provider, "%s", usual ? usual : "");
    return m;
}

const struct caller *mcp_caller(struct mcp_session *s)
{
    struct mcp_client *m = s->user;
    const char *key = s->stateless ? s->peer : s->id;

    if (!m->bound)
        m->labels[m->caller.labels.n++] =
            (struct json_pair){ MCP_LABEL, arena_dup(&m->arena, str_from(key)) };
    m->bound = true;
    return &m->caller;
}

/* --- its sandboxes --- */

void mcp_remember(struct mcp_session *s, const char *id)
{
    struct mcp_client *m = s->user;
    struct mcp_box *b;

    if (s->stateless)
        return;
    b = calloc(1, sizeof *b);
    if (!b)
        abort();
    snprintf(b->id, sizeof b->id, "%s", id);
    list_append(&m->boxes, &b->link);
}

void mcp_forget(struct mcp_session *s, const char *id)
{
    struct mcp_client *m = s->user;

    for (struct link *l = list_first(&m->boxes); l; l = list_after(&m->boxes, l)) {
        struct mcp_box *b = container_of(l, struct mcp_box, link);

        if (strcmp(b->id, id) == 0) {
            link_leave(&b->link);
            free(b);
            return;
        }
    }
}

static void session_ended(struct mcp_session *s)
{
    struct mcp_client *m = s->user;
    struct sandbox *box;

    for (struct link *l; (l = list_take(&m->boxes));) {
        struct mcp_box *b = container_of(l, struct mcp_box, link);

        if (control_find_now(m->control, mcp_caller(s), str_from(b->id), &box)) {
            sandbox_destroy(box, &m->caller.actor, "its session ended", DESTROY_SYNC, NULL);
            sandbox_unref(box);
        }
        free(b);
    }
}

struct sandbox *mcp_sandbox(struct mcp_request *r, const char *id)
{
    struct sandbox *s;

    if (!control_find_now(mcp_client_of(r)->control, mcp_caller(r->session), str_from(id), &s)) {
        mcp_tool_fail(r,
                      "There is no sandbox '%.40s'. sandbox_list shows yours; sandbox_create makes "
                      "a new one.",
                      id);
        return NULL;
    }
    sandbox_touch(s);
    return s;
}

/* --- what tools share --- */

bool mcp_arguments(struct mcp_request *r, const struct json *v, void *out)
{
    struct err e;

    if (json_bind(v, r->tool->fields, r->tool->field_count, out, &r->arena, &e) >= 0)
        return true;
    mcp_tool_fail(r, "The arguments do not fit: %s. See the tool's input schema.", e.msg);
    return false;
}

static const char *advice(enum err_code code)
{
    switch (code) {
    case ERR_NOT_FOUND:
        return " Check the name, or make it first.";
    case ERR_CONFLICT:
        return " The sandbox may have ended: sandbox_list shows its state, sandbox_create makes a "
               "new one.";
    case ERR_BUSY:
        return " Try again in a moment.";
    case ERR_QUOTA:
        return " Destroy a sandbox that you do not need with sandbox_destroy.";
    case ERR_TIMEOUT:
        return " Try again, or with less at once.";
    case ERR_TOO_BIG:
        return " Do it in smaller parts.";
    default:
        return "";
    }
}

void mcp_fail_err(struct mcp_request *r, const char *doing, const struct err *e)
{
    mcp_tool_fail(r, "%s: %s.%s", doing, e->msg, advice(e->code));
}

const struct mcp_offer mcp_offer = {
    .name = "sandboxer",
    .title = "Sandboxer",
    .version = SANDBOXER_VERSION,
    .instructions = INSTRUCTIONS,
    .tools = mcp_tools,
    .n_tools = MCP_TOOL_COUNT,
    .prompts = mcp_prompts,
    .n_prompts = MCP_PROMPT_COUNT,
    .templates = mcp_templates,
    .n_templates = MCP_TEMPLATE_COUNT,
    .authorize = mcp_authorize,
    .list = mcp_list_sandboxes,
    .read = mcp_read_resource,
    .watchable = mcp_watchable,
    .complete = mcp_complete_argument,
    .session_ended = session_ended,
};

/* --- the path --- */

static void serve(struct call *c)
{
    struct api *a = c->api;
    struct mcp_client *m = client_new(c);
    char peer[MCP_PEER_MAX];
    struct http_exchange *x;

    snprintf(peer, sizeof peer, "%s", m->caller.actor.id);
    x = call_take_exchange(c);
    if (http_request(x)->method == H1_GET && mcp_line_wanted(x))
        mcp_line_accept(&a->mcp, x, peer, m, client_free, a->mcp_web.max);
    else
        mcp_web_serve(&a->mcp_web, x,
                      (struct mcp_who){ .peer = peer, .user = m, .free_user = client_free });
}

const struct route routes_mcp[] = {
    { H1_POST, VERB_READ, "/mcp", ROUTE_LONG | ROUTE_STREAM, serve, "Send a message of MCP",
      .answer = "application/json text/event-stream" },
    { H1_GET, VERB_READ, "/mcp", ROUTE_LONG, serve, "Listen to a session of MCP",
      .answer = "text/event-stream" },
    { H1_DELETE, VERB_READ, "/mcp", 0, serve, "End a session of MCP", .status = 204 },
    { .path = NULL },
};
