/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/edge/mcp/world.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "harness/tap.h"

struct loop world_loop;
struct mcp_server world_server;
struct mcp_session *world_session;
struct mcp_request *world_held;
struct mcp_request *world_asked;
unsigned world_unwatched, world_pokes;
unsigned world_cancelled, world_ended, world_meetings, world_refusals, world_users;
bool world_shy;
char world_refusal[256];

static struct buf heard = BUF_INIT(WORLD_MAX);
static struct err e;

/* --- what the client hears --- */

static int heard_message(struct mcp_out *o, struct str message)
{
    buf_add(&heard, message);
    buf_add_c(&heard, '\n');
    return 0;
}

static void heard_answer(struct mcp_out *o, const struct json *id, struct str message, int status)
{
    if (message.n)
        heard_message(o, message);
}

static const struct mcp_out_ops ops = { .send = heard_message, .answer = heard_answer };
struct mcp_out world_out = { .ops = &ops };

/* --- what is offered --- */

static void write_said(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    json_key(w, STR("said"));
    json_put_str(w, str_from(what));
    json_end_object(w);
}

static void echo(struct mcp_request *r, const struct json *v)
{
    const struct json *text = json_get(v, STR("text"));

    if (text && text->type == JSON_STR)
        mcp_tool_reply(r, write_said, text->s.p);
    else
        mcp_tool_fail(r, "say a text");
}

static void let_go(struct mcp_request *r)
{
    world_cancelled++;
    world_held = NULL;
}

static void hold(struct mcp_request *r, const struct json *v)
{
    world_held = r;
    r->on_cancel = let_go;
    mcp_progress(r, 1, 0, STR("held"), NULL, NULL);
}

static void ask(struct mcp_request *r, const struct json *v)
{
    const struct json *a =
        mcp_input(r, "name", "elicitation/create", STR("{\"message\":\"Who?\"}"));
    const struct json *content = a ? json_get(a, STR("content")) : NULL;
    const struct json *name = content ? json_get(content, STR("name")) : NULL;

    if (!a)
        snprintf(r->note, sizeof r->note, "asked");
    else
        mcp_tool_reply(r, write_said, name && name->type == JSON_STR ? name->s.p : "nobody");
}

static void stop_asking(struct mcp_request *r)
{
    world_asked = NULL;
    mcp_request_unref(r);
}

static void forbid(struct mcp_request *r)
{
    struct mcp_verdict v = { .kind = MCP_ALLOW };

    if (strcmp(r->tool->name, "slow") == 0) {
        world_asked = mcp_request_ref(r);
        r->on_cancel = stop_asking;
        return;
    }
    if (strcmp(r->tool->name, "gated") == 0)
        v = (struct mcp_verdict){ .kind = MCP_REQUIRE_APPROVAL,
                                  .reason = "ask a master",
                                  .request_id = "apr_1" };
    mcp_decided(r, &v);
}

void world_decide(enum mcp_verdict_kind kind)
{
    struct mcp_request *r = world_asked;
    struct mcp_verdict v = { .kind = kind, .reason = "it is decided", .audit_id = "aud_1" };

    world_asked = NULL;
    mcp_decided(r, &v);
    mcp_request_unref(r);
    world_turn();
}

/* Who it is takes a while where the world is shy. */
static void meet(struct mcp_session *s, struct str client)
{
    world_meetings++;
    if (!world_shy)
        mcp_met(s, 0, NULL);
}

static void in_use(struct mcp_session *s, bool yes)
{
    world_users = yes;
}

static void refused(void *user, struct mcp_refusal *x)
{
    world_refusals++;
    snprintf(world_refusal, sizeof world_refusal, "%d %.*s: %s", x->code, (int)x->tool.n, x->tool.p,
             x->reason);
}

static void source_end(struct mcp_source *x)
{
    world_unwatched++;
}

static void source_poke(struct mcp_source *x)
{
    world_pokes++;
}

struct mcp_source world_source = { .end = source_end, .poke = source_poke };

static void watch(struct mcp_request *r, struct str uri)
{
    const struct mcp_verdict no = { .kind = MCP_DENY, .reason = "not you", .audit_id = "aud_2" };

    if (str_eq(uri, STR("test://secret"))) {
        mcp_refuse(r, &no);
    } else if (str_eq(uri, STR("test://slow"))) {
        world_asked = mcp_request_ref(r);
        r->on_cancel = stop_asking;
    } else if (str_eq(uri, STR("test://live"))) {
        mcp_watched_by(r, &world_source);
    } else {
        mcp_watched(r, str_eq(uri, STR("test://a")));
    }
}

void world_watch(bool there)
{
    struct mcp_request *r = world_asked;

    world_asked = NULL;
    mcp_watched(r, there);
    mcp_request_unref(r);
}

static void ended(struct mcp_session *s)
{
    world_ended++;
}

static const struct mcp_tool tools[] = {
    { .name = "echo", .description = "d", .call = echo },
    { .name = "hold", .description = "d", .call = hold },
    { .name = "ask", .description = "d", .call = ask },
    { .name = "gated", .description = "d", .call = echo },
    { .name = "slow", .description = "d", .call = echo },
    { .name = "job", .description = "d", .call = hold, .hints = MCP_MUST_BE_TASK },
};

/* All hogs are one. */
static const char *holder(void *user)
{
    const char *name = user;

    return !name ? "me" : strncmp(name, "hog", 3) == 0 ? "hog" : name;
}

/* Of the hogs, "hog-p…" are a part. */
static const char *family(void *user)
{
    const char *name = user;

    return name && strncmp(name, "hog-p", 5) == 0 ? "hog-p" : "";
}

static const struct mcp_offer offer = {
    .name = "world",
    .version = "1",
    .tools = tools,
    .n_tools = COUNT_OF(tools),
    .lists_change = true,
    .authorize = forbid,
    .meet = meet,
    .in_use = in_use,
    .refused = refused,
    .watch = watch,
    .holder = holder,
    .family = family,
    .session_ended = ended,
};

static void nothing(void *user)
{
}

void world_open(void)
{
    CHECK_OK(loop_init(&world_loop, &e), e);
    CHECK_OK(mcp_server_init(&world_server, &world_loop, &offer, NULL, &e), e);
    CHECK_OK(mcp_session_new(&world_server, "me", NULL, nothing, &world_session, &e), e);
    world_session->back = &world_out;
}

void world_turn(void)
{
    CHECK_OK(loop_run_once(&world_loop, 0, &e), e);
}

struct str world_heard(void)
{
    static struct buf last = BUF_INIT(WORLD_MAX);

    buf_clear(&last);
    buf_add(&last, buf_str(&heard));
    buf_clear(&heard);
    return last.p ? buf_str(&last) : STR("");
}

struct str world_say(const char *text)
{
    AUTO(buf_done) struct buf id = BUF_INIT(4096);
    struct rpc_frame *f;
    enum rpc_code code;

    CHECK_OK(rpc_read(str_from(text), WORLD_MAX, &f, &code, &id, &e), e);
    for (size_t i = 0; i < f->n; i++)
        mcp_take(world_session, &world_out, f, i);
    rpc_frame_unref(f);
    world_turn();
    return world_heard();
}
