/* SPDX-License-Identifier: Apache-2.0 */
/* What llhttp (Node.js) refuses in its strict mode we refuse too, and what both take is the same
 * request: method, target, framing, and where its body ends. Two readings of the same bytes are how
 * requests are smuggled. */
#include <llhttp.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/http/body.h"
#include "lib/http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct h1_limits limits = { H1_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX };
static struct h1_request ours;

/* What llhttp saw. */
struct seen {
    struct str target;
    struct str body_end; /* p: behind the last byte of the body */
    uint64_t body, length;
    unsigned flags;
    bool head, whole, keep_alive;
};

static void must(bool good)
{
    if (!good)
        abort();
}

static int on_url(llhttp_t *p, const char *at, size_t n)
{
    struct seen *s = p->data;

    must(!s->target.p); /* all of it is in one buffer */
    s->target = (struct str){ at, n };
    return 0;
}

static int on_head(llhttp_t *p)
{
    struct seen *s = p->data;

    s->head = true;
    s->flags = p->flags;
    s->length = p->content_length;
    s->keep_alive = llhttp_should_keep_alive(p);
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    struct seen *s = p->data;

    s->body += n;
    return 0;
}

static int on_whole(llhttp_t *p)
{
    struct seen *s = p->data;

    s->whole = true;
    return HPE_PAUSED;
}

/* How many bytes it took; the error is HPE_OK for a request that goes on. */
static size_t ask_llhttp(struct str in, llhttp_t *p, struct seen *s, llhttp_errno_t *ret)
{
    static llhttp_settings_t settings;

    llhttp_settings_init(&settings);
    settings.on_url = on_url;
    settings.on_headers_complete = on_head;
    settings.on_body = on_body;
    settings.on_message_complete = on_whole;
    llhttp_init(p, HTTP_REQUEST, &settings);
    p->data = s;
    *ret = llhttp_execute(p, in.p, in.n);
    if (*ret == HPE_PAUSED_UPGRADE)
        *ret = HPE_OK;
    if (*ret == HPE_PAUSED && s->whole)
        *ret = HPE_OK;
    return *ret == HPE_OK && !llhttp_get_error_pos(p) ? in.n
                                                      : (size_t)(llhttp_get_error_pos(p) - in.p);
}

static void check_head(const llhttp_t *p, const struct seen *s)
{
    unsigned framing = s->flags & (F_CHUNKED | F_CONTENT_LENGTH);

    must(h1_method_of(str_from(llhttp_method_name((llhttp_method_t)p->method))) == ours.method);
    must(str_eq(s->target, ours.target));
    must(p->http_major == 1 && p->http_minor == ours.head.minor);
    must(framing == (ours.head.framing == H1_CHUNKED  ? F_CHUNKED
                     : ours.head.framing == H1_LENGTH ? F_CONTENT_LENGTH
                                                      : 0));
    must(ours.head.framing != H1_LENGTH || ours.head.length == s->length);
    must(!ours.head.keep_alive || s->keep_alive || p->upgrade);
}

/* Our reading of the body: 1 if it is whole, 0 if more must come, or an error. */
static int read_body(struct str *in, uint64_t *ret_n)
{
    struct body b;
    struct str data;
    int r;

    body_start(&b, ours.head.framing, ours.head.length);
    do
        r = body_next(&b, in, &data, NULL);
    while (r == BODY_DATA);
    *ret_n = b.seen;
    return r < 0 ? r : r == BODY_END;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = { (const char *)data, size }, rest;
    struct seen s = { 0 };
    llhttp_errno_t error;
    llhttp_t p;
    uint64_t body;
    size_t took;
    int status, r = h1_parse_request(&(struct h1_scan){ 0 }, in, &limits, &ours, &status, NULL);

    /* Methods are an open set, of which llhttp knows some and we know fewer. */
    if (size > 4096 || r <= 0 || ours.method == H1_OTHER)
        return 0;
    took = ask_llhttp(in, &p, &s, &error);
    must(s.head);
    check_head(&p, &s);
    if (ours.head.upgrade || ours.method == H1_CONNECT)
        return 0; /* what follows is another protocol */
    rest = (struct str){ in.p + r, in.n - (size_t)r };
    r = read_body(&rest, &body);
    if (r < 0)
        return 0;
    must(error == HPE_OK && s.whole == (r > 0) && s.body == body);
    must(!s.whole || took == (size_t)(rest.p - in.p));
    return 0;
}
