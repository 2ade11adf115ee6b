#include "step/talk.h"

#include "base/own.h"
#include "mcp/rpc.h"

enum { HELLO_ID = 1, CALL_ID = 2 };

/* --- Saying --- */

static int finish(struct json_writer *w, struct buf *out, struct err *e)
{
    int r = json_writer_finish(w, e);

    if (r >= 0 && buf_add_c(out, '\n') < 0)
        r = err_set(e, ERR_TOO_BIG, "there is more to send than may be");
    return r;
}

/* Members that say who we are, by the names that they have in a revision. */
static void introduce(struct json_writer *w, enum mcp_version v, const char *version,
                      const char *capabilities, const char *info)
{
    json_key(w, str_from(version));
    json_put_str(w, str_from(mcp_version_names[v]));
    json_key(w, str_from(capabilities));
    json_begin_object(w);
    json_end_object(w);
    json_key(w, str_from(info));
    json_begin_object(w);
    json_key(w, STR("name"));
    json_put_str(w, STR("sandboxer"));
    json_key(w, STR("version"));
    json_put_str(w, STR(SANDBOXER_VERSION));
    json_end_object(w);
}

int talk_begin(struct talk *t, struct buf *out, struct err *e)
{
    struct json_writer w;

    t->stage = TALK_HELLO;
    json_writer_init(&w, out, JSON_COMPACT);
    rpc_begin_ask(&w, HELLO_ID, "initialize");
    json_begin_object(&w);
    introduce(&w, MCP_LAST_OLD, "protocolVersion", "capabilities", "clientInfo");
    json_end_object(&w);
    json_end_object(&w);
    return finish(&w, out, e);
}

static int say_initialized(struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    rpc_begin_call(&w, "notifications/initialized");
    json_begin_object(&w);
    json_end_object(&w);
    json_end_object(&w);
    return finish(&w, out, e);
}

static int say_call(const struct talk *t, struct buf *out, struct err *e)
{
    struct json_writer w;

    json_writer_init(&w, out, JSON_COMPACT);
    rpc_begin_ask(&w, CALL_ID, "tools/call");
    json_begin_object(&w);
    if (mcp_is_new(t->version)) {
        json_key(&w, STR("_meta"));
        json_begin_object(&w);
        introduce(&w, t->version, MCP_META "protocolVersion", MCP_META "clientCapabilities",
                  MCP_META "clientInfo");
        json_end_object(&w);
    }
    json_key(&w, STR("name"));
    json_put_str(&w, str_from(t->tool));
    json_key(&w, STR("arguments"));
    json_put_tree(&w, t->question);
    json_end_object(&w);
    json_end_object(&w);
    return finish(&w, out, e);
}

/* We offer nothing, so that nothing but a ping can be asked of us. */
static int reply(const struct rpc_message *m, struct buf *out, struct err *e)
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
    return finish(&w, out, e);
}

/* --- Hearing --- */

static struct str text_of(const struct json *object, struct str key)
{
    const struct json *v = object && object->type == JSON_OBJECT ? json_get(object, key) : NULL;

    return v && v->type == JSON_STR ? v->s : STR("");
}

/* The first text among a result's contents. */
static struct str first_text(const struct json *result)
{
    const struct json *list = json_get(result, STR("content"));

    if (!list || list->type != JSON_ARRAY)
        return STR("");
    for (const struct json *c = json_first(list); c != json_end(list); c++)
        if (str_eq(text_of(c, STR("type")), STR("text")))
            return text_of(c, STR("text"));
    return STR("");
}

static int refuse(const char *what, struct str why, struct err *e)
{
    return err_set(e, ERR_UPSTREAM, "%s: %.*s", what, (int)(why.n < 120 ? why.n : 120), why.p);
}

static int hear_hello(struct talk *t, const struct json *result, struct buf *out, struct err *e)
{
    struct str name = text_of(result, STR("protocolVersion"));
    int r;

    t->version = mcp_version_of(name);
    if (t->version == MCP_NONE || mcp_is_new(t->version))
        return refuse("the server wants a revision that is not spoken here", name, e);
    t->stage = TALK_CALL;
    r = say_initialized(out, e);
    return r < 0 ? r : say_call(t, out, e);
}

static int hear_result(struct talk *t, const struct json *result, struct err *e)
{
    const struct json *failed = json_get(result, STR("isError"));
    const struct json *answer = json_get(result, STR("structuredContent"));
    struct str text = first_text(result), kind = text_of(result, STR("resultType"));
    struct json_writer w;

    if (failed && !(failed->type == JSON_BOOL && !failed->b))
        return refuse("the tool failed", text, e);
    if (kind.n && !str_eq(kind, STR("complete")))
        return refuse("the tool wants something more", kind, e);
    t->stage = TALK_DONE;
    if (!answer) /* servers from before there was structured content */
        return buf_add(t->answer, text) < 0 ? err_set(e, ERR_TOO_BIG, "it says more than it may")
                                            : 0;
    json_writer_init(&w, t->answer, JSON_COMPACT);
    json_put_tree(&w, answer);
    return json_writer_finish(&w, e);
}

/* A server that has no use for one says so. */
static int call_without_hello(struct talk *t, struct buf *out, struct err *e)
{
    t->version = MCP_2026_07_28;
    t->stage = TALK_CALL;
    return say_call(t, out, e);
}

static int hear_response(struct talk *t, const struct rpc_message *m, struct buf *out,
                         struct err *e)
{
    int64_t wanted = t->stage == TALK_HELLO ? HELLO_ID : CALL_ID;

    if (t->stage == TALK_DONE || (m->id && (m->id->type != JSON_INT || m->id->i != wanted)))
        return 0;
    if (m->error && t->stage == TALK_HELLO)
        return call_without_hello(t, out, e);
    if (m->error)
        return refuse("the server refuses", text_of(m->error, STR("message")), e);
    if (m->result->type != JSON_OBJECT)
        return err_set(e, ERR_UPSTREAM, "the server's result is no object");
    return t->stage == TALK_HELLO ? hear_hello(t, m->result, out, e) : hear_result(t, m->result, e);
}

static int hear_message(struct talk *t, const struct rpc_message *m, struct buf *out, struct err *e)
{
    switch (m->kind) {
    case RPC_REQUEST:
        return reply(m, out, e);
    case RPC_RESPONSE:
        return hear_response(t, m, out, e);
    default:
        return 0;
    }
}

int talk_hear(struct talk *t, struct str text, struct buf *out, struct err *e)
{
    AUTO(buf_done) struct buf id = BUF_INIT(2 * RPC_ID_MAX * 6);
    struct rpc_frame *frame;
    enum rpc_code code;
    int r = rpc_read(text, STEP_MESSAGE_MAX, &frame, &code, &id, e);

    if (r < 0)
        return err_wrap(e, r, "the server says what is no message");
    for (size_t i = 0; i < frame->n && r >= 0; i++)
        r = hear_message(t, &frame->messages[i], out, e);
    rpc_frame_unref(frame);
    return r;
}

/* --- Server-sent events --- */

/* A line ends with \n, \r\n or \r. */
static struct str next_line(struct str *rest)
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

static bool add_data(struct str line, struct buf *out)
{
    line = (struct str){ line.p + 5, line.n - 5 };
    if (line.n && line.p[0] == ' ')
        line = (struct str){ line.p + 1, line.n - 1 };
    return (!out->n || buf_add_c(out, '\n') == 0) && buf_add(out, line) == 0;
}

bool talk_next_event(struct str *rest, struct buf *out)
{
    buf_clear(out);
    while (rest->n) {
        struct str line = next_line(rest);

        if (line.n == 0 && out->n)
            return true;
        if (str_starts(line, STR("data:")) && !add_data(line, out))
            return false;
    }
    return out->n > 0;
}
