/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/run_steps/tool_call.h"

#include "base/own.h"
#include "harness/tap.h"

#define HELLO(version)                                                                             \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"" version "\"}}"
#define NO_HELLO                                                                                   \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"no such method\"}}"
#define RESULT(text) "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":" text "}"

static const struct json nothing = { .type = JSON_OBJECT };

/* The answer to a call whose result is this, or the error's message. */
static const char *answer(const char *hello, const char *result)
{
    static char said[512];
    AUTO(buf_done) struct buf out = BUF_INIT(1 << 16), text = BUF_INIT(sizeof said - 1);
    struct tool_call t = { .tool = "look", .question = &nothing, .answer = &text };
    struct err e = { 0 };

    CHECK_OK(tool_call_begin(&t, &out, &e), e);
    if (tool_call_receive(&t, str_from(hello), &out, &e) < 0 ||
        (result && tool_call_receive(&t, str_from(result), &out, &e) < 0))
        return memcpy(said, e.msg, sizeof e.msg);
    if (t.stage != TOOL_CALL_DONE)
        return "not done";
    memcpy(said, text.p, text.n);
    said[text.n] = '\0';
    return said;
}

TEST(a_call_is_made_after_the_hello)
{
    AUTO(buf_done) struct buf out = BUF_INIT(4096), text = BUF_INIT(64);
    struct tool_call t = { .tool = "look", .question = &nothing, .answer = &text };
    struct err e = { 0 };

    CHECK_OK(tool_call_begin(&t, &out, &e), e);
    buf_clear(&out);
    CHECK_OK(tool_call_receive(&t, STR(HELLO("2025-06-18")), &out, &e), e);
    CHECK_STR(buf_str(&out),
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\",\"params\":{}}\n"
              "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":"
              "{\"name\":\"look\",\"arguments\":{}}}\n");
    CHECK_INT(t.version, MCP_2025_06_18);
}

TEST(who_knows_no_hello_is_asked_without)
{
    AUTO(buf_done) struct buf out = BUF_INIT(4096), text = BUF_INIT(64);
    struct tool_call t = { .tool = "look", .question = &nothing, .answer = &text };
    struct err e = { 0 };

    CHECK_OK(tool_call_begin(&t, &out, &e), e);
    buf_clear(&out);
    CHECK_OK(tool_call_receive(&t, STR(NO_HELLO), &out, &e), e);
    CHECK(strstr(out.p, "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"") !=
          NULL);
    CHECK(strstr(out.p, "notifications/initialized") == NULL);
    CHECK_STR(str_from(answer(NO_HELLO, RESULT("{\"resultType\":\"complete\","
                                               "\"structuredContent\":{\"a\":1}}"))),
              "{\"a\":1}");
    CHECK(strstr(answer(NO_HELLO, RESULT("{\"resultType\":\"input_required\"}")),
                 "input_required") != NULL);
}

TEST(an_answer_is_structured_or_text)
{
    CHECK_STR(str_from(answer(HELLO("2025-11-25"), RESULT("{\"structuredContent\":{\"a\":1}}"))),
              "{\"a\":1}");
    CHECK_STR(
        str_from(answer(HELLO("2024-11-05"), RESULT("{\"content\":[{\"type\":\"image\"},"
                                                    "{\"type\":\"text\",\"text\":\"{}\"}]}"))),
        "{}");
}

TEST(what_is_no_answer_is_an_error)
{
    const char *hello = HELLO("2025-11-25");

    CHECK(strstr(answer(HELLO("2026-07-28"), NULL), "protocol version") != NULL);
    CHECK(strstr(answer(NO_HELLO, "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":"
                                  "{\"code\":1,\"message\":\"never\"}}"),
                 "never") != NULL);
    CHECK(strstr(answer(hello, RESULT("[]")), "not an object") != NULL);
    CHECK(strstr(answer(hello, RESULT("{\"isError\":true}")), "failed") != NULL);
    CHECK(strstr(answer(hello, RESULT("{\"isError\":0,\"structuredContent\":{}}")), "failed") !=
          NULL);
    CHECK(strstr(answer(hello, "{}"), "invalid message") != NULL);
    CHECK_STR(str_from(answer(hello, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}")), "not done");
    CHECK_STR(str_from(answer(hello, HELLO("2025-11-25"))), "not done");
}

TEST(a_server_can_ask_for_nothing_but_a_ping)
{
    AUTO(buf_done) struct buf out = BUF_INIT(4096), text = BUF_INIT(64);
    struct tool_call t = { .tool = "look", .question = &nothing, .answer = &text };
    struct err e = { 0 };

    CHECK_OK(tool_call_receive(&t, STR("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}"),
                               &out, &e),
             e);
    CHECK_STR(buf_str(&out), "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}\n");
    buf_clear(&out);
    CHECK_OK(tool_call_receive(&t, STR("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"roots/list\"}"),
                               &out, &e),
             e);
    CHECK(strstr(out.p, "-32601") != NULL);
}

TEST(events_are_put_together)
{
    struct str rest =
        STR(": hello\n\nevent: x\ndata: a\ndata:b\n\nid: 1\r\ndata: c\r\n\r\ndata: d");
    AUTO(buf_done) struct buf out = BUF_INIT(64);

    CHECK(tool_call_next_event(&rest, &out));
    CHECK_STR(buf_str(&out), "a\nb");
    CHECK(tool_call_next_event(&rest, &out));
    CHECK_STR(buf_str(&out), "c");
    CHECK(tool_call_next_event(&rest, &out));
    CHECK_STR(buf_str(&out), "d");
    CHECK(!tool_call_next_event(&rest, &out));
}
