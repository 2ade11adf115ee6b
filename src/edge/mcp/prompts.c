/* SPDX-License-Identifier: Apache-2.0 */
/* prompts/… and completion/complete. */
#include "base/own.h"
#include "edge/mcp/internal.h"

enum { VALUES_MAX = 100 };

static void write_prompt_arguments(struct json_writer *w, const struct mcp_argument *a)
{
    if (!a)
        return;
    json_field_begin_array(w, "arguments");
    for (; a->name; a++) {
        json_begin_object(w);
        mcp_write_str(w, "name", a->name);
        mcp_write_str(w, "description", a->description);
        json_field_bool(w, "required", a->required);
        json_end_object(w);
    }
    json_end_array(w);
}

void mcp_prompts_list(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->offer;
    struct json_writer *w;

    if (mcp_cursor(r) < 0)
        return;
    w = mcp_result_for(r, MCP_MS_STATIC);
    json_field_begin_array(w, "prompts");
    for (size_t i = 0; i < o->n_prompts; i++) {
        json_begin_object(w);
        mcp_write_str(w, "name", o->prompts[i].name);
        mcp_write_str(w, "title", o->prompts[i].title);
        mcp_write_str(w, "description", o->prompts[i].description);
        write_prompt_arguments(w, o->prompts[i].arguments);
        json_end_object(w);
    }
    json_end_array(w);
    mcp_reply(r);
}

static const struct mcp_prompt *prompt_find(const struct mcp_offer *o, struct str name)
{
    for (size_t i = 0; i < o->n_prompts; i++)
        if (str_eq(name, str_from(o->prompts[i].name)))
            return &o->prompts[i];
    return NULL;
}

/* Fails the request unless all arguments are strings and the required ones are present. */
static bool check_prompt_arguments(struct mcp_request *r, const struct mcp_prompt *p,
                                   const struct json *v)
{
    for (const struct json *m = v ? json_first(v) : NULL; v && m != json_end(v); m++)
        if (m->type != JSON_STR) {
            mcp_fail(r, RPC_INVALID_PARAMS, "arguments: '%.64s' must be a string", m->key.p);
            return false;
        }
    for (const struct mcp_argument *a = p->arguments; a && a->name; a++)
        if (a->required && !mcp_text(v, a->name).p) {
            mcp_fail(r, RPC_INVALID_PARAMS, "arguments: '%s' is missing", a->name);
            return false;
        }
    return true;
}

void mcp_prompts_get(struct mcp_request *r)
{
    struct str name = mcp_param_str(r, "name");
    const struct mcp_prompt *p = prompt_find(r->session->offer, name);
    const struct json *v = mcp_param(r, "arguments");

    if (!p)
        mcp_fail(r, RPC_INVALID_PARAMS, "there is no prompt '%.64s'; prompts/list names them",
                 name.p ? name.p : "");
    else if (v && v->type != JSON_OBJECT)
        mcp_fail(r, RPC_INVALID_PARAMS, "arguments: must be an object");
    else if (check_prompt_arguments(r, p, v) && mcp_inputs_read(r) >= 0)
        p->get(r, v);
}

void mcp_prompt_text(struct mcp_request *r, const char *description, struct str text)
{
    struct json_writer *w = mcp_result(r);

    mcp_write_str(w, "description", description);
    json_field_begin_array(w, "messages");
    json_begin_object(w);
    mcp_write_str(w, "role", "user");
    json_field_begin_object(w, "content");
    mcp_write_str(w, "type", "text");
    json_field_lossy(w, "text", text);
    json_end_object(w);
    json_end_object(w);
    json_end_array(w);
    mcp_reply(r);
}

/* --- completion --- */

/* Appends the value and a NUL to r->values; only counts values beyond VALUES_MAX. */
void mcp_offer_value(struct mcp_request *r, struct str value)
{
    size_t before = r->values.n;

    if (memchr(value.p, 0, value.n) || r->n_values++ >= VALUES_MAX)
        return;
    if (buf_add(&r->values, value) < 0 || buf_add_c(&r->values, '\0') < 0)
        r->values.n = before;
}

void mcp_completed(struct mcp_request *r)
{
    struct str rest = buf_str(&r->values), value;
    struct json_writer *w;

    if (mcp_is_finished(r))
        return;
    w = mcp_result(r);
    json_field_begin_object(w, "completion");
    json_field_begin_array(w, "values");
    while (rest.n) {
        rest = str_cut(rest, '\0', &value);
        json_put_lossy(w, value);
    }
    json_end_array(w);
    json_field_uint(w, "total", r->n_values);
    json_field_bool(w, "hasMore", r->n_values > VALUES_MAX);
    json_end_object(w);
    mcp_reply(r);
}

void mcp_complete(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->offer;
    const struct json *ref = mcp_object(r->m->params, "ref");
    const struct json *argument = mcp_object(r->m->params, "argument");
    struct str type = mcp_text(ref, "type"), name = mcp_text(argument, "name");
    struct str about =
        str_eq(type, STR("ref/prompt")) ? mcp_text(ref, "name") : mcp_text(ref, "uri");

    if (!about.p || !name.p || !mcp_text(argument, "value").p) {
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "completion needs a ref and an argument with name and value");
        return;
    }
    if (o->complete)
        o->complete(r, about, name, mcp_text(argument, "value"));
    else
        mcp_completed(r);
}
