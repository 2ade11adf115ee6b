/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "harness/tap.h"
#include "edge/mcp/job.h"
#include "unit/edge/mcp/world.h"

static bool has(struct str text, const char *part)
{
    return text.n && strstr(text.p, part);
}

#define HAS(text, part)                                                                            \
    do {                                                                                           \
        struct str text_ = (text);                                                                 \
        if (!has(text_, part))                                                                     \
            FAIL("there is no '%s' in '" STR_FMT "'", part, STR_ARG(text_));                       \
    } while (0)

static void ignore_user(void *user)
{
}

TEST(all_peers_of_one_holder_have_one_share_of_sessions)
{
    struct mcp_session *s;
    char peer[16];
    int n = 0, r = 0;

    world_open();
    for (; r >= 0 && n < MCP_SESSIONS_MAX; n++) {
        snprintf(peer, sizeof peer, "hog-%d", n % 8);
        r = mcp_session_new(&world_server, peer, peer, ignore_user, &s, NULL);
    }
    CHECK_INT(r, -ERR_BUSY);
    CHECK_INT(n - 1, MCP_SESSIONS_PEER_MAX);
    CHECK_INT(mcp_session_new(&world_server, "you", peer, ignore_user, &s, NULL), -ERR_BUSY);
    snprintf(peer, sizeof peer, "other");
    CHECK_INT(mcp_session_new(&world_server, "you", peer, ignore_user, &s, NULL), 0);
}

TEST(a_family_leaves_sessions_to_others_of_its_holder)
{
    struct mcp_session *s;
    char peer[16];
    int n = 0, r = 0;

    world_open();
    for (; r >= 0 && n < MCP_SESSIONS_MAX; n++) {
        snprintf(peer, sizeof peer, "hog-p%d", n % 8);
        r = mcp_session_new(&world_server, peer, peer, ignore_user, &s, NULL);
    }
    CHECK_INT(r, -ERR_BUSY);
    CHECK_INT(n - 1, MCP_SESSIONS_PEER_MAX / 8 * 7);
    snprintf(peer, sizeof peer, "hog-1");
    CHECK_INT(mcp_session_new(&world_server, peer, peer, ignore_user, &s, NULL), 0);
}

TEST(a_revision_is_agreed_on_once)
{
    world_open();
    HAS(world_say(OLD("1", "tools/list", "{}")), "initialize first");
    HAS(world_say(OLD("1", "ping", "{}")), "\"result\":{}");
    HAS(world_say(INIT("2025-06-18")), "\"protocolVersion\":\"2025-06-18\"");
    CHECK_INT(world_session->version, MCP_2025_06_18);
    HAS(world_say(INIT("2025-06-18")), "-32600");
    HAS(world_say(OLD("1", "tools/list", "{}")), "\"name\":\"echo\"");
}

TEST(what_is_not_known_gets_our_newest_with_sessions)
{
    world_open();
    HAS(world_say(INIT("2031-01-01")), "\"protocolVersion\":\"2025-11-25\"");
}

TEST(both_eras_stand_side_by_side)
{
    world_open();
    HAS(world_say(NEW("1", "server/discover", "{}", "")), "\"supportedVersions\":[\"2026-07-28\"");
    HAS(world_say(NEW("1", "ping", "{}", "")), "-32601");
    HAS(world_say(NEW("1", "initialize", "{}", "")), "-32601");
    HAS(world_say(INIT("2025-11-25")), "\"protocolVersion\":\"2025-11-25\"");
    HAS(world_say(OLD("1", "server/discover", "{}")), "-32601");
    HAS(world_say(NEW("1", "tools/list", "{}", "")), "\"cacheScope\"");
    CHECK(!has(world_say(OLD("1", "tools/list", "{}")), "cacheScope"));
    HAS(world_say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                  "\"io.modelcontextprotocol/protocolVersion\":\"2031-01-01\"}}}"),
        "\"requested\":\"2031-01-01\"");
    HAS(world_say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                  "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}"),
        "-32602");
}

TEST(an_argument_with_a_preset_is_not_required)
{
    static const struct json_field fields[] = {
        { "box", JSON_KIND_STR, .required = true, .doc = "Always." },
        { "text", JSON_KIND_STR, .required = true },
    };
    static const struct mcp_tool tools[] = {
        { .name = "with", .description = "d", JSON_FIELDS(fields) },
        { .name = "without", .description = "d", .hints = MCP_NO_PRESET, JSON_FIELDS(fields) },
    };
    static const struct mcp_offer offer = { .name = "other",
                                            .tools = tools,
                                            .n_tools = COUNT_OF(tools),
                                            .preset = "box",
                                            .preset_doc = "Or the usual one." };
    struct str heard;

    world_open();
    world_session->offer = &offer;
    HAS(world_say(INIT("2025-11-25")), "\"name\":\"other\"");
    heard = world_say(OLD("1", "tools/list", "{}"));
    HAS(heard, "\"name\":\"with\"");
    HAS(heard, "\"description\":\"Or the usual one.\"},\"text\":{\"type\":\"string\"}},"
               "\"required\":[\"text\"]");
    HAS(heard, "\"description\":\"Always.\"},\"text\":{\"type\":\"string\"}},"
               "\"required\":[\"box\",\"text\"]");
    HAS(world_say(OLD("2", "tools/call", "{\"name\":\"echo\"}")), "there is no tool");
}

TEST(tools_answer_in_two_forms_and_fail_for_the_model)
{
    world_open();
    world_say(INIT("2025-11-25"));
    CHECK_STR(
        world_say(OLD("\"a\"", "tools/call", "{\"name\":\"echo\",\"arguments\":{\"text\":\"x\"}}")),
        "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
        "\"{\\\"said\\\":\\\"x\\\"}\"}],\"structuredContent\":{\"said\":\"x\"}}}\n");
    HAS(world_say(OLD("2", "tools/call", "{\"name\":\"echo\"}")), "\"isError\":true");
    HAS(world_say(OLD("2", "tools/call", "{\"name\":\"echo\",\"arguments\":[]}")), "-32602");
    HAS(world_say(OLD("2", "tools/call", "{\"name\":\"none\"}")), "-32602");
    HAS(world_say(OLD("2", "tools/call", "{}")), "-32602");
}

TEST(a_verdict_is_an_error_that_says_its_kind)
{
    world_open();
    world_say(INIT("2025-11-25"));
    CHECK_STR(world_say(OLD("1", "tools/call", "{\"name\":\"gated\"}")),
              "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32002,\"message\":\"ask a "
              "master\",\"data\":{\"kind\":\"require_approval\",\"request_id\":\"apr_1\"}}}\n");
}

#define SLOW "{\"name\":\"slow\",\"arguments\":{\"text\":\"x\"}}"
#define CANCEL                                                                                     \
    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}"

TEST(a_verdict_may_come_later)
{
    world_open();
    world_say(INIT("2025-11-25"));
    CHECK_STR(world_say(OLD("1", "tools/call", SLOW)), "");
    CHECK_INT(world_users, 1);
    HAS(world_say(OLD("2", "ping", "{}")), "\"id\":2,\"result\":{}");
    world_decide(MCP_ALLOW);
    HAS(world_heard(), "\"id\":1,\"result\":{\"content\"");
    CHECK_INT(world_users, 0);
    world_say(OLD("1", "tools/call", SLOW));
    world_decide(MCP_RATE_LIMIT);
    CHECK_STR(world_heard(),
              "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32001,\"message\":\"it is "
              "decided\",\"data\":{\"kind\":\"rate_limit\",\"audit_id\":\"aud_1\"}}}\n");
    CHECK_INT(world_refusals, 0); /* whoever decided has it on record */
}

TEST(nobody_waits_for_a_verdict_that_nobody_wants)
{
    world_open();
    world_say(INIT("2025-11-25"));
    world_say(OLD("1", "tools/call", SLOW));
    CHECK(world_asked);
    CHECK_STR(world_say(CANCEL), "");
    CHECK(!world_asked);
    world_say(OLD("2", "tools/call", SLOW));
    mcp_out_gone(&world_out, true); /* the connection is lost */
    CHECK(!world_asked);
    world_say(OLD("3", "tools/call", SLOW));
    CHECK(world_asked);
    mcp_session_end(world_session);
    CHECK(!world_asked);
    mcp_server_done(&world_server);
    world_turn();
    CHECK_INT(world_users, 0);
}

TEST(what_comes_while_a_client_is_met_waits_in_its_order)
{
    struct str text;

    world_open();
    world_shy = true;
    CHECK_STR(world_say(INIT("2025-11-25")), "");
    CHECK_STR(world_say(OLD("1", "tools/list", "{}")), "");
    CHECK_STR(world_say(OLD("2", "tools/call", "{\"name\":\"echo\"}")), "");
    CHECK_STR(world_say(OLD("3", "tools/list", "{}")), "");
    CHECK_STR(world_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                        "\"requestId\":3}}"),
              "");
    HAS(world_say(OLD("9", "ping", "{}")), "\"id\":9"); /* which needs nobody */
    CHECK_INT(world_meetings, 1);
    mcp_met(world_session, 0, NULL);
    text = world_heard();
    HAS(text, "\"protocolVersion\"");
    HAS(text, "\"id\":1,\"result\"");
    HAS(text, "\"id\":2,\"result\"");
    CHECK(!has(text, "\"id\":3"));
    CHECK(strstr(text.p, "\"id\":0") < strstr(text.p, "\"id\":1"));
    HAS(world_say(OLD("4", "tools/list", "{}")), "\"id\":4");
    CHECK_INT(world_meetings, 1);
}

TEST(whoever_cannot_be_met_is_told)
{
    struct err e;

    world_open();
    world_shy = true;
    world_say(INIT("2025-11-25"));
    mcp_met(world_session, err_set(&e, ERR_QUOTA, "too many"), &e);
    HAS(world_heard(), "-32603,\"message\":\"no session could be created: too many\"");
}

TEST(refusals_are_on_record_once)
{
    world_open();
    world_say(INIT("2025-11-25"));
    world_say(OLD("1", "tools/call", "{\"name\":\"none\"}"));
    CHECK_INT(world_refusals, 1);
    HAS(str_from(world_refusal), "-32602 none: there is no tool");
    world_say(OLD("1", "tools/call", "{\"name\":\"echo\"}"));
    CHECK_INT(world_refusals, 2);
    HAS(str_from(world_refusal), "0 echo: say a text");
    world_say(OLD("1", "no/such", "{}")); /* how clients find out what we are */
    CHECK_INT(world_refusals, 2);
}

static unsigned jobs;
static char job_text[256];

static void job_done(struct mcp_job *j, const struct json *result, const char *error)
{
    const struct json *data = result ? json_get(result, STR("structuredContent")) : NULL;
    const struct json *said = data ? json_get(data, STR("said")) : NULL;

    jobs++;
    snprintf(job_text, sizeof job_text, "%s", said ? said->s.p : error ? error : "failed");
}

static void user_gone(void *user)
{
    ++*(unsigned *)user;
}

TEST(a_job_is_a_call_that_nobody_is_asked_about)
{
    struct json text = { .type = JSON_STR, .key = STR("text"), .s = STR("x") };
    struct json args = { .type = JSON_OBJECT, .list = { &text, 1 } };
    struct mcp_job j = { .done = job_done };
    unsigned gone = 0;

    world_open();
    world_shy = true;
    mcp_job_start(&world_server, &gone, user_gone, STR("gated"), &args, &j);
    CHECK_INT(jobs, 1);
    CHECK_STR(str_from(job_text), "x");
    mcp_job_start(&world_server, &gone, user_gone, STR("none"), &args, &j);
    CHECK_INT(jobs, 2);
    HAS(str_from(job_text), "there is no tool");
    mcp_job_start(&world_server, &gone, user_gone, STR("hold"), &args, &j);
    CHECK_INT(jobs, 2);
    mcp_server_done(&world_server); /* in the middle of it */
    CHECK_INT(jobs, 3);
    HAS(str_from(job_text), "interrupted");
    for (int i = 0; i < 3; i++) /* requests are freed, then their sessions */
        world_turn();
    CHECK_INT(gone, 3);
    CHECK_INT(world_meetings, 0);
}

TEST(cancelling_stops_and_answers_nothing)
{
    world_open();
    world_say(INIT("2025-11-25"));
    HAS(world_say(
            OLD("1", "tools/call", "{\"name\":\"hold\",\"_meta\":{\"progressToken\":\"p\"}}")),
        "\"progressToken\":\"p\",\"progress\":1,\"message\":\"held\"");
    HAS(world_say(OLD("1", "ping", "{}")), "another request");
    CHECK_STR(world_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
                        "\"requestId\":1}}"),
              "");
    CHECK_INT(world_cancelled, 1);
    HAS(world_say(OLD("1", "ping", "{}")), "\"result\":{}");
}

TEST(the_end_of_a_session_cancels_and_is_told_once)
{
    world_open();
    world_say(INIT("2025-11-25"));
    world_say(OLD("1", "tools/call", "{\"name\":\"hold\"}"));
    mcp_session_end(world_session);
    mcp_server_done(&world_server);
    world_turn();
    CHECK_INT(world_cancelled, 1);
    CHECK_INT(world_ended, 1);
}

TEST(a_client_with_a_session_is_asked_and_the_tool_goes_on)
{
    world_open();
    world_say(INIT("2025-11-25"));
    CHECK_STR(world_say(OLD("7", "tools/call", "{\"name\":\"ask\"}")),
              "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"elicitation/create\",\"params\":{"
              "\"message\":\"Who?\"}}\n");
    CHECK_STR(world_say("{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}"), ""); /* nobody asked */
    HAS(world_say("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"accept\",\"content\":{"
                  "\"name\":\"Ann\"}}}"),
        "\"id\":7,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"said\\\":\\\"Ann\\\"}"
        "\"");
    world_say(OLD("8", "tools/call", "{\"name\":\"ask\"}"));
    HAS(world_say("{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-1,\"message\":\"no\"}}"),
        "\"isError\":true");
}

/* The state as the last answer gave it. */
static const char *state_of(struct str text)
{
    static char state[2048];
    const char *at = text.n ? strstr(text.p, "\"requestState\":\"") : NULL;

    CHECK(at && sscanf(at + 16, "%2047[^\"]", state) == 1);
    return state;
}

#define ASKING(more) NEW("1", "tools/call", "{\"elicitation\":{}}", ",\"name\":\"ask\"" more)

TEST(a_stateless_client_asks_again_with_the_answer)
{
    char text[4096], state[2048];
    struct str heard;

    world_open();
    HAS(world_say(NEW("1", "tools/call", "{}", ",\"name\":\"ask\"")), "-32021");
    heard = world_say(ASKING(""));
    HAS(heard, "\"resultType\":\"input_required\"");
    snprintf(state, sizeof state, "%s", state_of(heard));
    snprintf(text, sizeof text,
             ASKING(",\"requestState\":\"%s\",\"inputResponses\":{\"x\":1,\"name\":{\"content\":{"
                    "\"name\":\"Bob\"}}}"),
             state);
    HAS(world_say(text), "\"said\":\"Bob\"");
    snprintf(text, sizeof text, ASKING(",\"requestState\":\"%s\",\"inputResponses\":{}"), state);
    HAS(world_say(text), "input_required");
    state[4] = state[4] == 'A' ? 'B' : 'A';
    snprintf(text, sizeof text, ASKING(",\"requestState\":\"%s\""), state);
    HAS(world_say(text), "-32602");
    HAS(world_say(ASKING(",\"requestState\":\"\"")), "-32602");
    HAS(world_say(ASKING(",\"inputResponses\":7")), "-32602");
}

TEST(a_state_is_good_for_one_tool_of_one_client)
{
    char text[4096];

    world_open();
    snprintf(text, sizeof text,
             NEW("1", "tools/call", "{}", ",\"name\":\"echo\",\"requestState\":\"%s\""),
             state_of(world_say(ASKING(""))));
    HAS(world_say(text), "-32602");
}

#define TASKS "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"

TEST(a_task_is_asked_about_and_cancelled)
{
    char id[64], text[1024];
    struct str heard;

    world_open();
    HAS(world_say(NEW("1", "tools/call", "{}", ",\"name\":\"job\"")), "-32021");
    heard = world_say(NEW("1", "tools/call", TASKS, ",\"name\":\"job\""));
    HAS(heard, "\"resultType\":\"task\"");
    CHECK(sscanf(strstr(heard.p, "\"taskId\":\"") + 10, "%63[^\"]", id) == 1);
    snprintf(text, sizeof text, NEW("2", "tasks/get", TASKS, ",\"taskId\":\"%s\""), id);
    HAS(world_say(text), "\"status\":\"working\"");
    mcp_tool_fail(world_held, "bad luck");
    world_turn();
    HAS(world_say(text), "\"status\":\"completed\"");
    HAS(world_say(text), "\"isError\":true");
    world_say(NEW("3", "tools/call", TASKS, ",\"name\":\"job\""));
    mcp_server_done(&world_server);
    CHECK_INT(world_cancelled, 1);
}

/* The last job's end; its id is kept. */
static void end_job(mcp_write_fn *write, const void *what, char id[static 64])
{
    struct str heard = world_say(NEW("1", "tools/call", TASKS, ",\"name\":\"job\""));

    HAS(heard, "\"resultType\":\"task\"");
    CHECK(sscanf(strstr(heard.p, "\"taskId\":\"") + 10, "%63[^\"]", id) == 1);
    mcp_tool_reply(world_held, write, what);
    world_turn();
}

static void write_text(struct json_writer *w, const void *what)
{
    const struct str *text = what;

    json_begin_object(w);
    json_key(w, STR("said"));
    json_put_str(w, *text);
    json_end_object(w);
}

static struct str task_get(const char *id)
{
    char text[1024];

    snprintf(text, sizeof text, NEW("2", "tasks/get", TASKS, ",\"taskId\":\"%s\""), id);
    return world_say(text);
}

TEST(only_so_many_tasks_of_a_peer_are_kept)
{
    char first[64], id[64];

    world_open();
    end_job(write_text, &(struct str){ "once", 4 }, first);
    HAS(task_get(first), "{\"said\":\"once\"}");
    for (int i = 0; i < 64; i++)
        end_job(write_text, &(struct str){ "again", 5 }, id);
    CHECK_INT(world_server.n_tasks, 64);
    HAS(task_get(first), "there is no task '");
    HAS(task_get(id), "{\"said\":\"again\"}");
    for (int i = 0; i < 64; i++) /* that are not over */
        world_say(NEW("1", "tools/call", TASKS, ",\"name\":\"job\""));
    HAS(world_say(NEW("1", "tools/call", TASKS, ",\"name\":\"job\"")),
        "the limit of tasks is reached");
    CHECK_INT(world_server.n_tasks, 64);
    mcp_server_done(&world_server);
}

/* One client of a family or a holder after the other, each with as many tasks as it may have. */
static unsigned fill_with_tasks(const char *peers)
{
    size_t before = world_server.n_tasks;

    for (int n = 0; n < 32; n++) {
        snprintf(world_session->key, sizeof world_session->key, "%s%d", peers, n);
        for (int i = 0; i < 64; i++)
            world_say(NEW("1", "tools/call", TASKS, ",\"name\":\"job\""));
    }
    return (unsigned)(world_server.n_tasks - before);
}

TEST(all_clients_of_one_holder_have_one_share_of_tasks)
{
    char id[64];

    world_open();
    snprintf(world_session->key, sizeof world_session->key, "other");
    snprintf(world_session->holder, sizeof world_session->holder, "other");
    end_job(write_text, &(struct str){ "mine", 4 }, id);
    snprintf(world_session->holder, sizeof world_session->holder, "hog");
    snprintf(world_session->family, sizeof world_session->family, "part");
    CHECK_INT(fill_with_tasks("p"), 224);
    world_session->family[0] = '\0';
    CHECK_INT(fill_with_tasks("q"), 32);
    snprintf(world_session->key, sizeof world_session->key, "other");
    snprintf(world_session->holder, sizeof world_session->holder, "other");
    HAS(task_get(id), "{\"said\":\"mine\"}");
    HAS(world_say(NEW("1", "tools/call", TASKS, ",\"name\":\"job\"")), "\"resultType\":\"task\"");
    mcp_server_done(&world_server);
}

TEST(only_so_much_of_what_tasks_answer_is_kept)
{
    AUTO(buf_done) struct buf much = BUF_INIT(4 << 20);
    struct str text;
    char id[64];

    world_open();
    while (buf_add(&much, STR("0123456789abcdef")) >= 0)
        ;
    text = buf_str(&much);
    for (int i = 0; i < 5; i++)
        end_job(write_text, &text, id);
    CHECK_INT(world_server.n_tasks, 1); /* each is there twice */
    mcp_server_done(&world_server);
}

TEST(what_is_too_much_to_be_told_is_said_so)
{
    AUTO(buf_done) struct buf much = BUF_INIT(5 << 20);
    struct str text;
    char id[64];

    world_open();
    while (buf_add(&much, STR("0123456789abcdef")) >= 0)
        ;
    text = buf_str(&much);
    end_job(write_text, &text, id);
    HAS(task_get(id), "Request less at once");
    HAS(task_get(id), "\"isError\":true");
    mcp_server_done(&world_server);
}

TEST(more_resources_than_can_be_watched_are_not_looked_at)
{
    AUTO(buf_done) struct buf text = BUF_INIT(64 << 10);

    world_open();
    buf_add(&text,
            STR("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{"
                "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                "\"io.modelcontextprotocol/clientCapabilities\":{}},"
                "\"notifications\":{\"resourceSubscriptions\":[\"test://a\""));
    for (int i = 0; i < MCP_WATCHES_MAX; i++)
        buf_add(&text, STR(",\"test://b\""));
    buf_add(&text, STR("]}}}"));
    HAS(world_say(text.p), "at most 256 resources");
}

TEST(changes_are_told_to_those_who_listen)
{
    world_open();
    HAS(world_say(NEW("5", "subscriptions/listen", "{}",
                      ",\"notifications\":{\"toolsListChanged\":true,\"resourceSubscriptions\":["
                      "\"test://a\",\"test://b\"]}")),
        "\"notifications\":{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"test://a\"]},"
        "\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":5}");
    mcp_list_changed(&world_server, MCP_PROMPTS);
    CHECK_STR(world_heard(), "");
    mcp_list_changed(&world_server, MCP_TOOLS);
    HAS(world_heard(), "notifications/tools/list_changed");
    mcp_resource_changed(&world_server, STR("test://a"));
    HAS(world_heard(), "\"uri\":\"test://a\"");
    world_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
              "cancelled\",\"params\":{\"requestId\":5}}");
    mcp_resource_changed(&world_server, STR("test://a"));
    CHECK_STR(world_heard(), "");
}

TEST(what_is_refused_is_not_listened_to_and_says_why)
{
    struct str said;

    world_open();
    said = world_say(NEW("5", "subscriptions/listen", "{}",
                         ",\"notifications\":{\"resourceSubscriptions\":["
                         "\"test://secret\",\"test://b\",\"test://a\"]}"));
    HAS(said, "\"notifications\":{\"resourceSubscriptions\":[\"test://a\"]}");
    HAS(said, "\"sandboxer/refused\":[{\"uri\":\"test://secret\",\"kind\":\"deny\","
              "\"audit_id\":\"aud_2\",\"message\":\"not you\"}]");
    mcp_resource_changed(&world_server, STR("test://secret"));
    CHECK_STR(world_heard(), "");
    mcp_resource_changed(&world_server, STR("test://a"));
    HAS(world_heard(), "\"uri\":\"test://a\"");
}

TEST(whose_listening_is_decided_later_hears_nothing_before)
{
    world_open();
    CHECK_STR(world_say(NEW("5", "subscriptions/listen", "{}",
                            ",\"notifications\":{\"resourceSubscriptions\":["
                            "\"test://a\",\"test://slow\"]}")),
              "");
    mcp_resource_changed(&world_server, STR("test://a"));
    CHECK_STR(world_heard(), "");
    world_watch(true);
    HAS(world_heard(), "[\"test://a\",\"test://slow\"]");
    mcp_resource_changed(&world_server, STR("test://a"));
    HAS(world_heard(), "\"uri\":\"test://a\"");
    mcp_server_done(&world_server);
}

TEST(who_leaves_while_it_is_decided_listens_to_nothing)
{
    world_open();
    world_say(NEW("5", "subscriptions/listen", "{}",
                  ",\"notifications\":{\"resourceSubscriptions\":["
                  "\"test://a\",\"test://slow\"]}"));
    world_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
              "cancelled\",\"params\":{\"requestId\":5}}");
    CHECK(!world_asked);
    mcp_resource_changed(&world_server, STR("test://a"));
    CHECK_STR(world_heard(), "");
    mcp_server_done(&world_server);
}

TEST(a_session_watches_what_can_be_watched)
{
    world_open();
    world_say(INIT("2025-11-25"));
    HAS(world_say(OLD("1", "resources/subscribe", "{\"uri\":\"test://b\"}")), "-32002");
    HAS(world_say(OLD("1", "resources/subscribe", "{\"uri\":\"test://secret\"}")),
        "\"data\":{\"kind\":\"deny\",\"audit_id\":\"aud_2\"}");
    HAS(world_say(OLD("1", "resources/subscribe", "{\"uri\":\"test://a\"}")), "\"result\":{}");
    mcp_resource_changed(&world_server, STR("test://a"));
    HAS(world_heard(), "notifications/resources/updated");
    world_say(OLD("1", "resources/unsubscribe", "{\"uri\":\"test://a\"}"));
    mcp_resource_changed(&world_server, STR("test://a"));
    CHECK_STR(world_heard(), "");
}

static size_t count(struct str text, const char *part)
{
    size_t n = 0;

    for (const char *at = text.p; text.n && (at = strstr(at, part)); at++)
        n++;
    return n;
}

#define LIVE "{\"uri\":\"test://live\"}"

TEST(a_source_is_told_of_once_in_a_while_and_to_the_last)
{
    size_t told = 0;

    world_open();
    world_say(INIT("2025-11-25"));
    mcp_source_changed(&world_source); /* before anybody watches */
    HAS(world_say(OLD("2", "resources/subscribe", LIVE)), "\"result\":{}");
    for (size_t i = 0; i < 100; i++)
        mcp_source_changed(&world_source);
    while (!told) {
        CHECK_OK(loop_run_once(&world_loop, -1, NULL), ((struct err){ 0 }));
        told = count(world_heard(), "resources/updated\",\"params\":" LIVE);
    }
    CHECK_INT(told, 1);
    mcp_resource_changed(&world_server, STR("test://live"));
    CHECK_INT(world_pokes, 1);
    CHECK_STR(world_heard(), ""); /* not so soon after the last */
    CHECK_INT(world_unwatched, 0);
    world_say(OLD("2", "resources/unsubscribe", LIVE));
    CHECK_INT(world_unwatched, 1);
    mcp_source_changed(&world_source);
    CHECK_STR(world_heard(), "");
}

TEST(a_source_ends_with_whoever_watches)
{
    world_open();
    world_say(INIT("2025-11-25"));
    world_say(OLD("2", "resources/subscribe", LIVE));
    world_say(OLD("3", "resources/subscribe", LIVE)); /* twice is once */
    CHECK_INT(world_unwatched, 1);
    world_say(NEW("5", "subscriptions/listen", "{}",
                  ",\"notifications\":{\"resourceSubscriptions\":[\"test://live\"]}"));
    world_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
              "\"requestId\":5}}");
    CHECK_INT(world_unwatched, 2);
    /* one that was granted while another is decided */
    world_say(
        NEW("6", "subscriptions/listen", "{}",
            ",\"notifications\":{\"resourceSubscriptions\":[\"test://live\",\"test://slow\"]}"));
    world_say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
              "\"requestId\":6}}");
    CHECK_INT(world_unwatched, 3);
    mcp_session_end(world_session);
    CHECK_INT(world_unwatched, 4);
}
