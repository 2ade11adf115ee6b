/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that a handler needs from the client: elicitation, sampling, roots.
 *
 * In the revisions with sessions the engine sends requests on the request's stream and calls the
 * handler again with the responses. The stateless revision has no such requests: the engine answers
 * with the list of needed inputs, and the client repeats its request with the responses and with
 * the signed requestState of that answer. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "lib/crypto/secret.h"
#include "lib/json/reader.h"
#include "edge/mcp/internal.h"

/* The analyser reports members of an intrusive list as leaked. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wanalyzer-malloc-leak"
#endif

enum { PARAMS_MAX = 64 << 10, STATE_TEXT_MAX = 4 << 10, RESPONSE_MAX = 1 << 20, DEPTH = 32 };
enum { SIGNED_HEAD = CRYPTO_SHA256_SIZE + sizeof(int64_t) };
#define STATE_LIFE (INT64_C(3600) * NS_PER_S)

/* --- kinds of inputs --- */

static const struct {
    const char *method;
    unsigned can;
    const char *name;
} kinds[] = {
    { "elicitation/create", MCP_CAN_ELICIT, "elicitation" },
    { "sampling/createMessage", MCP_CAN_SAMPLE, "sampling" },
    { "roots/list", MCP_CAN_ROOTS, "roots" },
};

static size_t input_kind(const char *method)
{
    size_t i = 0;

    while (i + 1 < COUNT_OF(kinds) && strcmp(kinds[i].method, method) != 0)
        i++;
    return i;
}

bool mcp_client_supports(const struct mcp_request *r, const char *method)
{
    return r->can & kinds[input_kind(method)].can;
}

const struct json *mcp_input(struct mcp_request *r, const char *key, const char *method,
                             struct str params)
{
    const struct json *sent = r->responses ? json_get(r->responses, str_from(key)) : NULL;
    struct mcp_input *i = r->inputs;

    while (i < r->inputs + r->n_inputs && strcmp(i->key, key) != 0)
        i++;
    if (i < r->inputs + r->n_inputs)
        return i->response;
    if (sent && sent->type == JSON_OBJECT)
        return sent;
    if (r->n_inputs == MCP_INPUTS_MAX)
        return NULL;
    *i = (struct mcp_input){ .key = key, .method = method, .params = BUF_INIT(PARAMS_MAX) };
    buf_add(&i->params, params);
    r->n_inputs++;
    return NULL;
}

void mcp_inputs_done(struct mcp_request *r)
{
    for (size_t i = 0; i < r->n_inputs; i++)
        buf_done(&r->inputs[i].params);
    r->n_inputs = 0;
}

/* --- requestState: the handler's note, signed, kept by the client --- */

const char *mcp_param_name(const struct mcp_request *r)
{
    struct str name = mcp_param_str(r, "name"), uri = mcp_param_str(r, "uri");

    return name.p ? name.p : uri.p ? uri.p : "";
}

/* Binds the note to the peer, the name or URI of the request, and the expiry time. */
static void sign_request_state(const struct mcp_request *r, int64_t until, struct str note,
                               unsigned char out[static CRYPTO_SHA256_SIZE])
{
    AUTO(buf_done) struct buf text = BUF_INIT(MCP_STATE_MAX + 2 * MCP_URI_MAX);
    const struct mcp_server *s = r->session->server;

    buf_addf(&text, "%s%c%s%c%lld%c", r->session->peer, 0, mcp_param_name(r), 0, (long long)until,
             0);
    buf_add(&text, note);
    crypto_hmac_sha256((struct str){ (const char *)s->key, sizeof s->key }, buf_str(&text), out);
}

static void write_request_state(struct json_writer *w, const struct mcp_request *r)
{
    AUTO(buf_done) struct buf raw = BUF_INIT(SIGNED_HEAD + MCP_STATE_MAX);
    AUTO(buf_done) struct buf text = BUF_INIT(STATE_TEXT_MAX);
    unsigned char code[CRYPTO_SHA256_SIZE];
    int64_t until = clock_wall() + STATE_LIFE;

    sign_request_state(r, until, str_from(r->note), code);
    buf_add(&raw, (struct str){ (const char *)code, sizeof code });
    buf_add(&raw, (struct str){ (const char *)&until, sizeof until });
    buf_add(&raw, str_from(r->note));
    crypto_base64url(buf_str(&raw), &text);
    json_field_str(w, "requestState", buf_str(&text));
}

static bool take_request_state(struct mcp_request *r, struct str given)
{
    AUTO(buf_done) struct buf raw = BUF_INIT(STATE_TEXT_MAX);
    unsigned char code[CRYPTO_SHA256_SIZE];
    struct str note;
    int64_t until;

    if (given.n > STATE_TEXT_MAX || crypto_unbase64url(given, &raw, NULL) < 0 ||
        raw.n < SIGNED_HEAD)
        return false;
    memcpy(&until, raw.p + sizeof code, sizeof until);
    note = (struct str){ raw.p + SIGNED_HEAD, raw.n - SIGNED_HEAD };
    sign_request_state(r, until, note, code);
    return crypto_equal((struct str){ raw.p, sizeof code },
                        (struct str){ (const char *)code, sizeof code }) &&
           until > clock_wall() && str_copy(note, r->note, sizeof r->note);
}

int mcp_inputs_read(struct mcp_request *r)
{
    const struct json *responses = mcp_param(r, "inputResponses");
    const struct json *state = mcp_param(r, "requestState");

    if (!mcp_is_new(r->version) || r->responses)
        return 0;
    if (responses && responses->type != JSON_OBJECT) {
        mcp_fail(r, RPC_INVALID_PARAMS, "inputResponses: must be an object");
        return -1;
    }
    if (state && (state->type != JSON_STR || !take_request_state(r, state->s))) {
        mcp_fail(r, RPC_INVALID_PARAMS, "requestState: invalid for this request, or expired");
        return -1;
    }
    r->responses = responses;
    return 0;
}

/* --- asking --- */

static void write_input_params(struct json_writer *w, const struct mcp_input *i)
{
    const struct json_limits limits = { .bytes = PARAMS_MAX, .depth = DEPTH };
    AUTO(arena_done) struct arena a = ARENA_INIT(16 * PARAMS_MAX);
    const struct json *v;

    if (json_read(buf_str(&i->params), limits, &a, &v, NULL) >= 0) {
        json_put_tree(w, v);
        return;
    }
    json_begin_object(w);
    json_end_object(w);
}

void mcp_write_inputs(struct json_writer *w, const struct mcp_request *r)
{
    json_field_begin_object(w, "inputRequests");
    for (size_t n = 0; n < r->n_inputs; n++) {
        const struct mcp_input *i = &r->inputs[n];

        if (i->response)
            continue;
        json_field_begin_object(w, i->key);
        mcp_write_str(w, "method", i->method);
        json_key(w, STR("params"));
        write_input_params(w, i);
        json_end_object(w);
    }
    json_end_object(w);
}

static void write_missing_capabilities(struct json_writer *w, const void *what)
{
    const struct mcp_request *r = what;

    json_begin_object(w);
    json_field_begin_object(w, "requiredCapabilities");
    for (size_t k = 0; k < COUNT_OF(kinds); k++)
        for (size_t n = 0; n < r->n_inputs; n++)
            if (input_kind(r->inputs[n].method) == k && !(r->can & kinds[k].can)) {
                json_field_begin_object(w, kinds[k].name);
                json_end_object(w);
                break;
            }
    json_end_object(w);
    json_end_object(w);
}

static bool check_client_inputs(struct mcp_request *r)
{
    for (size_t n = 0; n < r->n_inputs; n++)
        if (!mcp_client_supports(r, r->inputs[n].method)) {
            mcp_fail_with(r,
                          mcp_is_new(r->version) ? (int)MCP_NO_CAPABILITY : (int)RPC_INVALID_PARAMS,
                          "this request requires client capabilities that were not announced",
                          write_missing_capabilities, r);
            return false;
        }
    return true;
}

static void answer_with_inputs(struct mcp_request *r)
{
    struct json_writer *w = &r->w;

    buf_clear(&r->text);
    json_writer_init(w, &r->text, JSON_COMPACT);
    rpc_begin_result(w, r->m->id);
    json_begin_object(w);
    mcp_write_str(w, "resultType", "input_required");
    mcp_write_inputs(w, r);
    write_request_state(w, r);
    mcp_reply(r);
}

static void send_input_request(struct mcp_request *r, size_t n)
{
    AUTO(buf_done) struct buf text = BUF_INIT(2 * PARAMS_MAX);
    struct mcp_input_request *a = new0(sizeof *a);
    struct json_writer w;

    *a = (struct mcp_input_request){ .id = ++r->session->asked, .input = n, .request = r };
    json_writer_init(&w, &text, JSON_COMPACT);
    rpc_begin_request(&w, a->id, r->inputs[n].method);
    write_input_params(&w, &r->inputs[n]);
    json_end_object(&w);
    list_append(&r->session->asks, &a->link);
    if (json_writer_finish(&w, NULL) >= 0)
        mcp_send(r, buf_str(&text));
}

static bool is_input_requested(struct mcp_request *r, size_t n)
{
    struct list *asks = &r->session->asks;

    LIST_EACH (const struct mcp_input_request, a, asks, link) {
        if (a->request == r && a->input == n)
            return true;
    }
    return false;
}

static size_t count_missing_inputs(const struct mcp_request *r)
{
    size_t open = 0;

    for (size_t n = 0; n < r->n_inputs; n++)
        open += !r->inputs[n].response;
    return open;
}

void mcp_inputs_request(struct mcp_request *r)
{
    if (!count_missing_inputs(r) || !check_client_inputs(r))
        return;
    if (r->task)
        mcp_task_wait(r);
    else if (mcp_is_new(r->version))
        answer_with_inputs(r);
    else
        for (size_t n = 0; n < r->n_inputs; n++)
            if (!r->inputs[n].response && !is_input_requested(r, n))
                send_input_request(r, n);
}

void mcp_inputs_drop(struct mcp_request *r)
{
    struct list *asks = &r->session->asks;

    LIST_EACH_SAFE (struct mcp_input_request, a, asks, link) {
        if (a->request != r)
            continue;
        link_leave(&a->link);
        free(a);
    }
}

/* --- answers --- */

/* Copies the response into the request's arena: its frame is freed earlier. */
bool mcp_input_take(struct mcp_request *r, size_t n, const struct json *response)
{
    const struct json_limits limits = { .bytes = RESPONSE_MAX, .depth = DEPTH };
    AUTO(buf_done) struct buf text = BUF_INIT(RESPONSE_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_tree(&w, response);
    return json_writer_finish(&w, NULL) >= 0 &&
           json_read(buf_str(&text), limits, &r->arena, &r->inputs[n].response, NULL) >= 0;
}

static void on_input_response(struct mcp_request *r, size_t n, const struct rpc_message *m)
{
    struct str why = m->error ? mcp_text(m->error, "message") : STR("");

    mcp_request_ref(r);
    if (m->error)
        mcp_tool_fail(r, "the client refused %s: %.400s", r->inputs[n].method, why.p ? why.p : "");
    else if (m->result->type != JSON_OBJECT || !mcp_input_take(r, n, m->result))
        mcp_tool_fail(r, "the client's answer to %s is invalid", r->inputs[n].method);
    if (count_missing_inputs(r) == 0) {
        if (!mcp_is_finished(r))
            mcp_run_handler(r);
        if (!mcp_is_finished(r))
            mcp_inputs_request(r);
    }
    mcp_request_unref(r);
}

void mcp_answered(struct mcp_session *s, const struct rpc_message *m)
{
    LIST_EACH (struct mcp_input_request, a, &s->asks, link) {
        const struct mcp_input_request was = *a;

        if (!m->id || m->id->type != JSON_INT || (uint64_t)m->id->i != a->id)
            continue;
        link_leave(&a->link);
        free(a);
        on_input_response(was.request, was.input, m);
        return;
    }
}
