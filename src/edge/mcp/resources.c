/* SPDX-License-Identifier: Apache-2.0 */
/* resources/…: listing, reading and watching. */
#include "base/own.h"

#include <stdarg.h>
#include <stdio.h>

#include "lib/crypto/encode.h"
#include "edge/mcp/internal.h"

enum { JSON_MAX = 8 << 20 }; /* of a resource */

void mcp_resources_list(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->offer;
    const struct json *cursor = mcp_param(r, "cursor");
    struct json_writer *w;

    if (cursor && cursor->type != JSON_STR) {
        mcp_fail(r, RPC_INVALID_PARAMS,
                 "cursor: not a cursor of this server; leave it out to start over");
        return;
    }
    if (o->list) {
        o->list(r, cursor ? cursor->s : STR(""));
        return;
    }
    w = mcp_result_for(r, MCP_MS_STATIC);
    json_field_begin_array(w, "resources");
    json_end_array(w);
    mcp_reply(r);
}

void mcp_page_resource(struct json_writer *w, struct str uri, const char *name,
                       const char *description, const char *type)
{
    json_begin_object(w);
    json_field_str(w, "uri", uri);
    mcp_write_str(w, "name", name);
    mcp_write_str(w, "description", description);
    mcp_write_str(w, "mimeType", type);
    json_end_object(w);
}

void mcp_resources_templates(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->offer;
    struct json_writer *w;

    if (mcp_cursor(r) < 0)
        return;
    w = mcp_result_for(r, MCP_MS_STATIC);
    json_field_begin_array(w, "resourceTemplates");
    for (size_t i = 0; i < o->n_templates; i++) {
        const struct mcp_template *t = &o->templates[i];

        json_begin_object(w);
        mcp_write_str(w, "uriTemplate", t->uri);
        mcp_write_str(w, "name", t->name);
        mcp_write_str(w, "title", t->title);
        mcp_write_str(w, "description", t->description);
        mcp_write_str(w, "mimeType", t->type);
        json_end_object(w);
    }
    json_end_array(w);
    mcp_reply(r);
}

/* --- reading --- */

static int read_uri(struct mcp_request *r, struct str *ret)
{
    *ret = mcp_param_str(r, "uri");
    if (ret->n && ret->n < MCP_URI_MAX && !memchr(ret->p, 0, ret->n))
        return 0;
    mcp_fail(r, RPC_INVALID_PARAMS, "uri: must be a string of at most %d bytes", MCP_URI_MAX);
    return -1;
}

void mcp_resources_read(struct mcp_request *r)
{
    const struct mcp_offer *o = r->session->offer;
    struct str uri;

    if (read_uri(r, &uri) < 0 || mcp_inputs_read(r) < 0)
        return;
    if (o->read)
        o->read(r, uri);
    else
        mcp_fail_no_resource(r, uri);
}

static struct json_writer *begin_contents(struct mcp_request *r, struct str uri, const char *type)
{
    struct json_writer *w = mcp_result_for(r, MCP_MS_NOW);

    json_field_begin_array(w, "contents");
    json_begin_object(w);
    json_field_str(w, "uri", uri);
    mcp_write_str(w, "mimeType", type);
    return w;
}

static void end_contents(struct mcp_request *r)
{
    json_end_object(&r->w);
    json_end_array(&r->w);
    mcp_reply(r);
}

void mcp_read_text(struct mcp_request *r, struct str uri, const char *type, struct str text)
{
    struct json_writer *w;

    if (mcp_is_finished(r))
        return;
    w = begin_contents(r, uri, type);
    json_field_lossy(w, "text", text);
    end_contents(r);
}

void mcp_read_json(struct mcp_request *r, struct str uri, mcp_write_fn *write, const void *what)
{
    AUTO(buf_done) struct buf text = BUF_INIT(JSON_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    write(&w, what);
    json_writer_finish(&w, NULL);
    mcp_read_text(r, uri, "application/json", buf_str(&text));
}

void mcp_read_bytes(struct mcp_request *r, struct str uri, const char *type, struct str data)
{
    AUTO(buf_done) struct buf text = BUF_INIT(MCP_MESSAGE_MAX);
    struct json_writer *w;

    if (mcp_is_finished(r))
        return;
    crypto_base64(data, &text);
    w = begin_contents(r, uri, type);
    json_field_str(w, "blob", buf_str(&text));
    end_contents(r);
}

static void write_uri(struct json_writer *w, const void *what)
{
    const struct str *uri = what;

    json_begin_object(w);
    json_field_str(w, "uri", *uri);
    json_end_object(w);
}

void mcp_fail_uri(struct mcp_request *r, struct str uri, const char *fmt, ...)
{
    struct err e;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e.msg, sizeof e.msg, fmt, ap);
    va_end(ap);
    mcp_fail_with(r, mcp_is_new(r->version) ? (int)RPC_INVALID_PARAMS : (int)MCP_NO_RESOURCE, e.msg,
                  write_uri, &uri);
}

void mcp_fail_no_resource(struct mcp_request *r, struct str uri)
{
    mcp_fail_uri(r, uri,
                 "there is no resource with this URI; resources/list and resources/templates/list "
                 "name them");
}

/* --- watching --- */

void mcp_resources_subscribe(struct mcp_request *r)
{
    struct str uri;

    if (read_uri(r, &uri) >= 0)
        mcp_query_watch(r, uri);
}

void mcp_subscribed(struct mcp_request *r, struct mcp_source *x)
{
    struct err e;

    if (mcp_watch_add(r->session, NULL, mcp_param_str(r, "uri"), 0, x, &e) < 0) {
        if (x)
            x->end(x);
        mcp_fail(r, RPC_INTERNAL, "%s", e.msg);
        return;
    }
    mcp_result(r);
    mcp_reply(r);
}

void mcp_resources_unsubscribe(struct mcp_request *r)
{
    struct str uri;

    if (read_uri(r, &uri) < 0)
        return;
    mcp_watch_remove(r->session, uri);
    mcp_result(r);
    mcp_reply(r);
}
