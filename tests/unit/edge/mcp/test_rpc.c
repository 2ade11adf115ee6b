/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "harness/tap.h"
#include "edge/mcp/rpc.h"

static struct err e;

static int read_text(const char *text, struct rpc_frame **f, enum rpc_code *code, struct buf *id)
{
    buf_init(id, 4096);
    return rpc_read(str_from(text), 1 << 16, f, code, id, &e);
}

TEST(requests_notifications_and_responses_are_told_apart)
{
    static const struct {
        const char *text;
        enum rpc_kind kind;
        bool id;
    } rows[] = {
        { "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"}", RPC_REQUEST, true },
        { "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"a\",\"params\":{}}", RPC_REQUEST, true },
        { "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", RPC_NOTIFICATION, false },
        { "{\"jsonrpc\":\"2.0\",\"id\":18446744073709551615,\"result\":{}}", RPC_RESPONSE, true },
        { "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"m\"}}",
          RPC_RESPONSE, false },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rpc_frame *f;
        enum rpc_code code;
        struct buf id;

        CHECK_OK(read_text(rows[i].text, &f, &code, &id), e);
        CHECK_INT(f->n, 1);
        CHECK(!f->batch);
        CHECK_INT(f->messages[0].kind, rows[i].kind);
        CHECK((f->messages[0].id != NULL) == rows[i].id);
        CHECK_INT(f->requests, rows[i].kind == RPC_REQUEST);
        rpc_frame_unref(f);
    }
}

TEST(what_is_no_message_is_refused_with_its_code_and_id)
{
    static const struct {
        const char *text, *id;
        enum rpc_code code;
    } rows[] = {
        { "", "", RPC_PARSE_ERROR },
        { "{", "", RPC_PARSE_ERROR },
        { "{\"a\":1,\"a\":2}", "", RPC_PARSE_ERROR },
        { "{} {}", "", RPC_PARSE_ERROR },
        { "1", "", RPC_INVALID_REQUEST },
        { "[]", "", RPC_INVALID_REQUEST },
        { "[1]", "", RPC_INVALID_REQUEST },
        { "{}", "", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}", "", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"a\"}", "", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"a\"}", "", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.1\",\"id\":4,\"method\":\"a\"}", "4", RPC_INVALID_REQUEST },
        { "{\"id\":\"q\\\"\",\"method\":\"a\"}", "\"q\\\"\"", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"\"}", "4", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":5}", "4", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"a\",\"params\":[]}", "4",
          RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":4}", "4", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":1,\"error\":{}}", "4", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":5}", "4", RPC_INVALID_REQUEST },
        { "{\"jsonrpc\":\"2.0\",\"result\":1}", "", RPC_INVALID_REQUEST },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct rpc_frame *f = NULL;
        enum rpc_code code;
        struct buf id;

        if (read_text(rows[i].text, &f, &code, &id) >= 0)
            FAIL("'%s' was taken", rows[i].text);
        CHECK_INT(code, rows[i].code);
        CHECK_STR(buf_str(&id), rows[i].id);
        CHECK(!f && e.msg[0]);
        buf_done(&id);
    }
}

TEST(limits_hold)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20), id = BUF_INIT(4096);
    struct rpc_frame *f;
    enum rpc_code code;

    buf_add_c(&text, '[');
    for (int i = 0; i <= RPC_BATCH_MAX; i++)
        buf_addf(&text, "%s{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", i ? "," : "");
    buf_add_c(&text, ']');
    CHECK(rpc_read(buf_str(&text), 1 << 20, &f, &code, &id, &e) < 0);
    CHECK_INT(code, RPC_INVALID_REQUEST);
    CHECK(rpc_read(buf_str(&text), 100, &f, &code, &id, &e) == -ERR_TOO_BIG);
    buf_clear(&text);
    buf_addf(&text, "{\"jsonrpc\":\"2.0\",\"id\":\"%0*d\",\"method\":\"a\"}", RPC_ID_MAX + 1, 0);
    CHECK(rpc_read(buf_str(&text), 1 << 20, &f, &code, &id, &e) < 0);
}

static int read_many(const char *unit, size_t n)
{
    AUTO(buf_done) struct buf text = BUF_INIT(8 << 20), id = BUF_INIT(4096);
    struct rpc_frame *f;
    enum rpc_code code;
    int r;

    buf_add(&text, STR("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"x\":["));
    for (size_t i = 0; i < n; i++)
        buf_addf(&text, "%s%s", i ? "," : "", unit);
    buf_add(&text, STR("]}}"));
    r = rpc_read(buf_str(&text), 8 << 20, &f, &code, &id, &e);
    if (r >= 0)
        rpc_frame_unref(f);
    else
        CHECK_INT(code, RPC_PARSE_ERROR);
    return r;
}

TEST(a_message_is_long_by_its_texts_and_not_by_its_values)
{
    static char text[1 << 20];

    memset(text, 'x', sizeof text - 1);
    text[0] = text[sizeof text - 2] = '"';
    CHECK_OK(read_many(text, 7), e);
    CHECK_OK(read_many("0", 10000), e);
    CHECK_INT(read_many("0", 100000), -ERR_TOO_BIG);
    CHECK_INT(read_many("{}", 100000), -ERR_TOO_BIG);
}

TEST(a_batch_is_counted)
{
    struct rpc_frame *f;
    enum rpc_code code;
    struct buf id;

    CHECK_OK(read_text("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"},{\"jsonrpc\":\"2.0\","
                       "\"method\":\"b\"}]",
                       &f, &code, &id),
             e);
    CHECK(f->batch && f->n == 2 && f->requests == 1);
    rpc_frame_unref(f);
}

TEST(an_error_leaves_out_an_id_that_nobody_knows)
{
    AUTO(buf_done) struct buf out = BUF_INIT(4096);

    rpc_write_error(&out, STR(""), RPC_PARSE_ERROR, "no\n");
    CHECK_STR(buf_str(&out),
              "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,\"message\":\"no\\n\"}}");
    buf_clear(&out);
    rpc_write_error(&out, STR("\"a\""), RPC_INVALID_REQUEST, "x");
    CHECK_STR(buf_str(&out),
              "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"error\":{\"code\":-32600,\"message\":\"x\"}}");
}
