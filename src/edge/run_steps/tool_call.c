/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/run_steps/tool_call.h"

#include "base/own.h"
#include "edge/mcp/rpc.h"

enum { HELLO_ID = 1, CALL_ID = 2 };

/* --- messages to the server --- */

static int finish_message(struct json_writer *w, struct buf *out, struct err *e)
{
    int r = json_writer_finish(w, e);

    if (r >= 0 && buf_add_c(out, '\n') < 0)
        r = err_set(e, ERR_TOO_BIG, "the message to the server is longer than %zu bytes", out->max);
    return r;
}

/* Writes the client's version, capabilities and name, as members whose keys depend on the
 * revision. */
static void write_client_info(struct json_writer *w, enum mcp_version v, const char *version,
                              const char *capabilities, const char *info)
{
    json_field_cstr(w, version, mcp_version_names[v]);
    json_field_begin_object(w, capabilities);
    json_end_object(w);
    json_field_begin_object(w, info);
    json_field_cstr(w, "name", "sandboxer");
    json_field_cstr(w, "version", SANDBOXER_VERSION);
    json_end_object(w);
}

int tool_call_begin(struct tool_call *t, struct buf *out, struct err *e)
{
    struct json_writer w;

    t->stage = TOOL_CALL_HELLO;
    json_writer_init(&w, out, JSON_COMPACT);
    rpc_begin_request(&w, HELLO_ID, "initialize");
    json_begin_object(&w);
    write_client_info(&w, MCP_LAST_OLD, "protocolVersion", "capabilities", "clientInfo");
    json_end_object(&w);
    json_end_object(&w);
    return finish_message(&w, out, e);
}

static int write_initialized(struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    rpc_begin_notification(&w, "notifications/initialized");
    json_begin_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    return finish_message(&w, out, e);
}

static int write_call_message(const struct tool_call *t, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    rpc_begin_request(&w, CALL_ID, "tools/call");
    json_begin_object(&w);
    if (mcp_is_new(t->version)) {
        json_field_begin_object(&w, "_meta");
        write_client_info(&w, t->version, MCP_META "protocolVersion", MCP_META "clientCapabilities",
                          MCP_META "clientInfo");
        json_end_object(&w);
    }
    json_field_cstr(&w, "name", t->tool);
    json_field_tree(&w, "arguments", t->question);
    json_end_object(&w);
    json_end_object(&w);
    return finish_message(&w, out, e);
}

/* Answers a request of the server. The client has no capabilities, so only ping is valid. */
static int reply_to_server(const struct rpc_message *m, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    if (str_eq(m->method, STR("ping"))) {
        rpc_begin_result(&w, m->id);
        json_begin_object(&w);
    } else {
        rpc_begin_error(&w, m->id, RPC_NO_METHOD, STR("this client has no such method"));
    }
    json_end_object(&w);
    json_end_object(&w);
    return finish_message(&w, out, e);
}

/* --- messages from the server --- */

static struct str object_text(const struct json *object, struct str key)
{
    const struct json *v = object && object->type == JSON_OBJECT ? json_get(object, key) : NULL;

    return v && v->type == JSON_STR ? v->s : STR("");
}

/* The first text in the contents of a result. */
static struct str first_text(const struct json *result)
{
    const struct json *list = json_get(result, STR("content"));

    if (!list || list->type != JSON_ARRAY)
        return STR("");
    for (const struct json *c = json_first(list); c != json_end(list); c++)
        if (str_eq(object_text(c, STR("type")), STR("text")))
            return object_text(c, STR("text"));
    return STR("");
}

static int fail_upstream(const char *what, struct str why, struct err *e)
{
    return err_set(e, ERR_UPSTREAM, "%s: %.*s", what, (int)(why.n < 120 ? why.n : 120), why.p);
}

static int receive_hello(struct tool_call *t, const struct json *result, struct buf *out,
                         struct err *e)
{
    struct str name = object_text(result, STR("protocolVersion"));
    int r;

    t->version = mcp_version_of(name);
    if (t->version == MCP_NONE || mcp_is_new(t->version))
        return fail_upstream("the server requires an unsupported protocol version", name, e);
    t->stage = TOOL_CALL_SENT;
    r = write_initialized(out, e);
    return r < 0 ? r : write_call_message(t, out, e);
}

static int receive_result(struct tool_call *t, const struct json *result, struct err *e)
{
    const struct json *failed = json_get(result, STR("isError"));
    const struct json *answer = json_get(result, STR("structuredContent"));
    struct str text = first_text(result), kind = object_text(result, STR("resultType"));
    struct json_writer w;

    if (failed && !(failed->type == JSON_BOOL && !failed->b))
        return fail_upstream("the tool failed", text, e);
    if (kind.n && !str_eq(kind, STR("complete")))
        return fail_upstream("the tool requires more input", kind, e);
    t->stage = TOOL_CALL_DONE;
    if (!answer) /* older servers have no structured content */
        return buf_add(t->answer, text) < 0
                   ? err_set(e, ERR_TOO_BIG, "the answer is longer than %zu bytes", t->answer->max)
                   : 0;
    json_writer_init(&w, t->answer, JSON_COMPACT);
    json_put_tree(&w, answer);
    return json_writer_finish(&w, e);
}

static int receive_response(struct tool_call *t, const struct rpc_message *m, struct buf *out,
                            struct err *e)
{
    int64_t wanted = t->stage == TOOL_CALL_HELLO ? HELLO_ID : CALL_ID;

    if (t->stage == TOOL_CALL_DONE || (m->id && (m->id->type != JSON_INT || m->id->i != wanted)))
        return 0;
    if (m->error && t->stage == TOOL_CALL_HELLO) { /* without a handshake */
        t->version = MCP_2026_07_28;
        t->stage = TOOL_CALL_SENT;
        return write_call_message(t, out, e);
    }
    if (m->error)
        return fail_upstream("the server returned an error", object_text(m->error, STR("message")),
                             e);
    if (m->result->type != JSON_OBJECT)
        return err_set(e, ERR_UPSTREAM, "the server's result is not an object");
    return t->stage == TOOL_CALL_HELLO ? receive_hello(t, m->result, out, e)
                                       : receive_result(t, m->result, e);
}

int tool_call_receive(struct tool_call *t, struct str text, struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf id = BUF_INIT(2 * RPC_ID_MAX * 6);
    struct rpc_frame *frame;
    enum rpc_code code;
    int r = rpc_read(text, STEP_MESSAGE_MAX, &frame, &code, &id, e);

    if (r < 0)
        return err_wrap(e, r, "invalid message from the server");
    for (size_t i = 0; i < frame->n && r >= 0; i++) {
        const struct rpc_message *m = &frame->messages[i];

        r = m->kind == RPC_REQUEST    ? reply_to_server(m, out, e)
            : m->kind == RPC_RESPONSE ? receive_response(t, m, out, e)
                                      : 0;
    }
    rpc_frame_unref(frame);
    return r;
}

/* --- server-sent events --- */

/* A line ends with \n, \r\n or \r. */
static struct str next_event_line(struct str *rest)
{
    size_t n = 0;
    struct str line;

    while (n < rest->n && rest->p[n] != '\n' && rest->p[n] != '\r')
        n++;
    line = (struct str){ rest->p, n };
    if (n + 1 < rest->n && rest->p[n] == '\r' && rest->p[n + 1] == '\n')
        n++;
    n += n < rest->n;
    *rest = (struct str){ rest->p + n, rest->n - n };
    return line;
}

static bool add_event_data(struct str line, struct buf *out)
{
    line = (struct str){ line.p + 5, line.n - 5 };
    if (line.n && line.p[0] == ' ')
        line = (struct str){ line.p + 1, line.n - 1 };
    return (!out->n || buf_add_c(out, '\n') == 0) && buf_add(out, line) == 0;
}

bool tool_call_next_event(struct str *rest, struct buf *out)
{
    buf_clear(out);
    while (rest->n) {
        struct str line = next_event_line(rest);

        if (line.n == 0 && out->n)
            return true;
        if (str_starts(line, STR("data:")) && !add_event_data(line, out))
            return false;
    }
    return out->n > 0;
}
