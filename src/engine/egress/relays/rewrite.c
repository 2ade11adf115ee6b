/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/relays/rewrite.h"

#include "base/own.h"

/* Hop-by-hop fields, and fields that we write. */
static const struct str dropped[] = {
    { "connection", 10 }, { "keep-alive", 10 },        { "te", 2 },
    { "trailer", 7 },     { "transfer-encoding", 17 }, { "content-length", 14 },
    { "upgrade", 7 },     { "http2-settings", 14 },
};

static const struct str dropped_of_requests[] = { { "host", 4 }, { "expect", 6 } };

/* Frameworks take these for the method or path of the request. */
static const struct str overrides[] = {
    { "x-http-method-override", 22 }, { "x-http-method", 13 },  { "x-method-override", 17 },
    { "x-original-method", 17 },      { "x-original-url", 14 }, { "x-rewrite-url", 13 },
};

static bool field_name_matches(struct str name, struct str listed)
{
    if (name.n != listed.n)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i] == '_' ? '-' : name.p[i];

        if ((c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c) != listed.p[i])
            return false;
    }
    return true;
}

static bool is_listed_field(struct str name, const struct str *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (field_name_matches(name, list[i]))
            return true;
    return false;
}
#define LISTED(name, list) is_listed_field(name, list, COUNT_OF(list))

bool rewrite_asks_upgrade(const struct h1_head *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (field_name_matches(h->fields[i].name, STR("upgrade")) &&
            !h1_same(h->fields[i].value, STR("h2c")))
            return true;
    return false;
}

/* Whether a Connection field names this field. */
static bool is_nominated(const struct h1_head *h, struct str name)
{
    for (size_t i = 0; i < h->n; i++)
        if (h1_same(h->fields[i].name, STR("connection")) && h1_list_has(h->fields[i].value, name))
            return true;
    return false;
}

static bool ends_here(const struct h1_head *h, struct str name)
{
    struct str proxy = STR("proxy-");

    return LISTED(name, dropped) || is_nominated(h, name) ||
           (name.n >= proxy.n && field_name_matches((struct str){ name.p, proxy.n }, proxy));
}

static char *write_head_text(char *at, struct str s)
{
    if (s.n)
        memcpy(at, s.p, s.n);
    return at + s.n;
}

static char *write_head_field(char *at, struct str name, struct str value)
{
    at = write_head_text(at, name);
    at = write_head_text(at, STR(": "));
    at = write_head_text(at, value);
    return write_head_text(at, STR("\r\n"));
}

static struct str format_decimal(uint64_t n, char digits[static 20])
{
    size_t at = 20;

    do
        digits[--at] = (char)('0' + n % 10);
    while (n /= 10);
    return (struct str){ digits + at, 20 - at };
}

static char *write_head_number(char *at, uint64_t n)
{
    char digits[20];

    return write_head_text(at, format_decimal(n, digits));
}

static char *write_framing_fields(char *at, enum h1_framing framing, uint64_t length)
{
    char digits[20];

    if (framing == H1_LENGTH)
        return write_head_field(at, STR("Content-Length"), format_decimal(length, digits));
    if (framing == H1_CHUNKED)
        return write_head_field(at, STR("Transfer-Encoding"), STR("chunked"));
    return at;
}

static char *write_host_field(char *at, const struct rewrite_to *to)
{
    bool bracketed = to->host->is_address && to->host->address.v6;

    at = write_head_text(at, STR("Host: "));
    if (bracketed)
        at = write_head_text(at, STR("["));
    at = write_head_text(at, str_from(to->host->name));
    if (bracketed)
        at = write_head_text(at, STR("]"));
    if (to->port != to->default_port)
        at = write_head_number(write_head_text(at, STR(":")), to->port);
    return write_head_text(at, STR("\r\n"));
}

/* An upper bound: our own fields, and the growth of each field. */
static size_t room_for(const struct h1_head *h, size_t first_line)
{
    size_t n = first_line + HOST_MAX + 256;

    for (size_t i = 0; i < h->n; i++)
        n += h->fields[i].name.n + h->fields[i].value.n + STR(": \r\n").n;
    return n;
}

int rewrite_request(const struct h1_request *q, const struct rewrite_to *to, struct buf *out)
{
    const struct h1_head *h = &q->head;
    char *start, *at;
    int r = buf_room(out, room_for(h, q->method_text.n + to->path.n + to->query.n), &start);

    if (r < 0)
        return r;
    at = write_head_text(write_head_text(start, q->method_text), STR(" "));
    at = write_head_text(at, to->path);
    if (to->query.p)
        at = write_head_text(write_head_text(at, STR("?")), to->query);
    at = write_host_field(write_head_text(at, STR(" HTTP/1.1\r\n")), to);
    for (size_t i = 0; i < h->n; i++) {
        struct str name = h->fields[i].name;

        if (!ends_here(h, name) && !LISTED(name, dropped_of_requests) &&
            !(to->inspected && LISTED(name, overrides)))
            at = write_head_field(at, name, h->fields[i].value);
    }
    at = write_framing_fields(at, h->framing, h->length);
    if (q->expects_continue)
        at = write_head_field(at, STR("Expect"), STR("100-continue"));
    if (!h->keep_alive)
        at = write_head_field(at, STR("Connection"), STR("close"));
    at = write_head_text(at, STR("\r\n"));
    buf_grew(out, (size_t)(at - start));
    return 0;
}

/* Content-Length is kept even if the body is not sent. */
static bool passes_down(const struct h1_response *p, const struct rewrite_answer *how,
                        struct str name)
{
    if (h1_same(name, STR("content-length")))
        return p->status == 304 ||
               (how->request == H1_HEAD && p->status >= 200 && p->status != 204);
    return !ends_here(&p->head, name);
}

int rewrite_response(const struct h1_response *p, const struct rewrite_answer *how, struct buf *out)
{
    const struct h1_head *h = &p->head;
    char *start, *at;
    int r = buf_room(out, room_for(h, p->reason.n), &start);

    if (r < 0)
        return r;
    at = write_head_number(write_head_text(start, STR("HTTP/1.1 ")), (uint64_t)p->status);
    at = write_head_text(write_head_text(write_head_text(at, STR(" ")), p->reason), STR("\r\n"));
    for (size_t i = 0; i < h->n; i++)
        if (passes_down(p, how, h->fields[i].name))
            at = write_head_field(at, h->fields[i].name, h->fields[i].value);
    at = write_framing_fields(at, how->framing, h->length);
    if (how->close)
        at = write_head_field(at, STR("Connection"), STR("close"));
    at = write_head_text(at, STR("\r\n"));
    buf_grew(out, (size_t)(at - start));
    return 0;
}
