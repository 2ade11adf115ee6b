/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/preview_fields.h"

#include "base/own.h"

bool field_in(struct str name, const struct str *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (h1_same(name, names[i]))
            return true;
    return false;
}

bool field_begins_with(struct str s, struct str start)
{
    return s.n >= start.n && h1_same((struct str){ s.p, start.n }, start);
}

/* --- cookies --- */

static bool cookie_is_marked(struct str pair)
{
    return field_begins_with(pair, STR(PREVIEW_COOKIE));
}

/* Removes the prefix of one `name=value` of a request. False: the cookie is dropped. */
static bool unmark_cookie(const struct preview *p, struct str *pair)
{
    if (!p->mark.n)
        return !cookie_is_marked(*pair);
    if (!str_starts(*pair, p->mark))
        return false;
    *pair = (struct str){ pair->p + p->mark.n, pair->n - p->mark.n };
    return true;
}

static bool filter_cookies(const struct preview *p, struct str value, struct buf *out)
{
    struct str pair;

    while (value.n) {
        value = str_cut(value, ';', &pair);
        pair = str_trim(pair);
        if (!pair.n || !unmark_cookie(p, &pair) || !pair.n)
            continue;
        if (out->n)
            buf_add(out, STR("; "));
        buf_add(out, pair);
    }
    return out->n > 0;
}

bool preview_set_cookie(const struct preview *p, struct str value, struct buf *out)
{
    struct str pair, attribute, name;

    value = str_cut(value, ';', &pair);
    pair = str_trim(pair);
    if (!pair.n || (!p->mark.n && cookie_is_marked(pair)))
        return false;
    out->n = 0;
    buf_add(out, p->mark);
    buf_add(out, pair);
    while (value.n) {
        value = str_cut(value, ';', &attribute);
        attribute = str_trim(attribute);
        (void)str_cut(attribute, '=', &name);
        name = str_trim(name);
        if (!attribute.n || h1_same(name, STR("Domain")) ||
            (p->path.n && h1_same(name, STR("Path"))))
            continue;
        buf_add(out, STR("; "));
        buf_add(out, attribute);
    }
    if (p->path.n) {
        buf_add(out, STR("; Path="));
        buf_add(out, p->path);
    }
    return true;
}

/* --- the request --- */

/* Schemes whose credentials a browser remembers for an origin and sends by itself. */
static bool is_ambient_credential(struct str value)
{
    static const struct str schemes[] = { STR("Basic"), STR("Digest"), STR("Negotiate"),
                                          STR("NTLM") };
    struct str scheme;

    (void)str_cut(value, ' ', &scheme);
    return field_in(scheme, schemes, COUNT_OF(schemes));
}

/* The address of another sandbox's page may contain a signed link and must not leak. */
static bool referer_is_own(const struct preview *p, struct str value)
{
    static const struct str schemes[] = { STR("https://"), STR("http://") };
    struct str host;

    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        if (!field_begins_with(value, schemes[i]))
            continue;
        value = (struct str){ value.p + schemes[i].n, value.n - schemes[i].n };
        (void)str_cut(value, '/', &host);
        return p->kind == PREVIEW_BY_NAME && p->host.n && h1_same(host, p->host);
    }
    return false;
}

bool preview_request_field(const struct preview *p, const struct h1_field *f, struct buf *out)
{
    out->n = 0;
    if (h1_same(f->name, STR("Cookie")))
        return filter_cookies(p, f->value, out);
    if (h1_same(f->name, STR("Referer")) && !referer_is_own(p, f->value))
        return false;
    if (p->kind == PREVIEW_BY_PATH && h1_same(f->name, STR("Authorization")) &&
        is_ambient_credential(f->value))
        return false;
    buf_add(out, f->value);
    return true;
}

/* --- the answer --- */

/* Headers that change how a browser treats a whole origin, or, with Clear-Site-Data, the cookies of
 * parent domains. Sandboxer- headers are reserved for the daemon. */
static bool speaks_for_origin(const struct preview *p, struct str name)
{
    static const struct str always[] = { STR("Service-Worker-Allowed"), STR("Clear-Site-Data") };
    static const struct str shared[] = {
        STR("Strict-Transport-Security"),
        STR("Public-Key-Pins"),
        STR("Alt-Svc"),
        STR("NEL"),
        STR("Report-To"),
        STR("Reporting-Endpoints"),
        STR("WWW-Authenticate"),
        STR("Origin-Agent-Cluster"),
        STR("Accept-CH"),
        STR("Critical-CH"),
        STR("Referrer-Policy"),
        STR("Use-As-Dictionary"),
        STR("Speculation-Rules"),
        STR("Supports-Loading-Mode"),
        STR("Set-Login"),
    };

    return field_in(name, always, COUNT_OF(always)) || field_begins_with(name, STR("Sandboxer-")) ||
           (p->kind == PREVIEW_BY_PATH && field_in(name, shared, COUNT_OF(shared)));
}

static bool copy_cookie(const struct preview *p, const struct h1_field *f, struct arena *a,
                        struct h1_field *ret)
{
    struct buf text AUTO(buf_done) = BUF_INIT(H1_HEAD_MAX);
    char *copy = NULL;

    if (preview_set_cookie(p, f->value, &text))
        copy = arena_dup(a, buf_str(&text));
    *ret = (struct h1_field){ f->name, { copy, copy ? text.n : 0 } };
    return copy != NULL;
}

/* A sandboxed page has the origin "null": it may read the answers of its own preview. */
static size_t add_preview_fields(const struct preview *p, bool has_cors, struct str origin,
                                 struct h1_field *ret)
{
    size_t n = 0;

    if (p->kind != PREVIEW_BY_PATH)
        return 0;
    ret[n++] = (struct h1_field){ STR("Content-Security-Policy"), STR(PREVIEW_CSP) };
    ret[n++] = (struct h1_field){ STR("Referrer-Policy"), STR("no-referrer") };
    if (!has_cors && str_eq(origin, STR("null")))
        ret[n++] = (struct h1_field){ STR("Access-Control-Allow-Origin"), STR("null") };
    return n;
}

size_t preview_answer_fields(const struct preview *p, const struct h1_field *fields, size_t n,
                             struct str origin, struct arena *a, struct h1_field *ret)
{
    bool has_cors = false;
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (speaks_for_origin(p, fields[i].name))
            continue;
        has_cors |= h1_same(fields[i].name, STR("Access-Control-Allow-Origin"));
        if (!h1_same(fields[i].name, STR("Set-Cookie")))
            ret[kept++] = fields[i];
        else if (copy_cookie(p, &fields[i], a, &ret[kept]))
            kept++;
    }
    return kept + add_preview_fields(p, has_cors, origin, ret + kept);
}
