/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/h1.h"

#include "base/hex.h"
#include "base/own.h"

/* The elements that a byte may be part of. */
enum { TOKEN = 1, VALUE = 2, TARGET = 4, HOST = 8, DIGIT = 16 };

static const unsigned char classes[256] = {
    ['\t'] = VALUE,
    [' '] = VALUE,
    ['!'] = TOKEN | VALUE | TARGET,
    ['"'] = VALUE,
    ['#'] = TOKEN | VALUE,
    ['$' ... '\''] = TOKEN | VALUE | TARGET,
    ['(' ... ')'] = VALUE | TARGET,
    ['*' ... '+'] = TOKEN | VALUE | TARGET,
    [','] = VALUE | TARGET,
    ['-' ... '.'] = TOKEN | VALUE | TARGET | HOST,
    ['/'] = VALUE | TARGET,
    ['0' ... '9'] = TOKEN | VALUE | TARGET | HOST | DIGIT,
    [':' ... ';'] = VALUE | TARGET,
    ['<'] = VALUE,
    ['='] = VALUE | TARGET,
    ['>'] = VALUE,
    ['?' ... '@'] = VALUE | TARGET,
    ['A' ... 'Z'] = TOKEN | VALUE | TARGET | HOST,
    ['['] = VALUE | TARGET,
    ['\\'] = VALUE,
    [']'] = VALUE | TARGET,
    ['^'] = TOKEN | VALUE | TARGET,
    ['_'] = TOKEN | VALUE | TARGET | HOST,
    ['`'] = TOKEN | VALUE | TARGET,
    ['a' ... 'z'] = TOKEN | VALUE | TARGET | HOST,
    ['{'] = VALUE | TARGET,
    ['|'] = TOKEN | VALUE | TARGET,
    ['}'] = VALUE | TARGET,
    ['~'] = TOKEN | VALUE | TARGET,
    [0x80 ... 0xff] = VALUE,
};

static const struct {
    const char *name;
    enum h1_method method;
} methods[] = {
    { "GET", H1_GET },         { "HEAD", H1_HEAD },       { "POST", H1_POST },
    { "PUT", H1_PUT },         { "DELETE", H1_DELETE },   { "PATCH", H1_PATCH },
    { "OPTIONS", H1_OPTIONS }, { "CONNECT", H1_CONNECT }, { "TRACE", H1_TRACE },
};

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    { 100, "Continue" },
    { 101, "Switching Protocols" },
    { 102, "Processing" },
    { 200, "OK" },
    { 201, "Created" },
    { 202, "Accepted" },
    { 204, "No Content" },
    { 206, "Partial Content" },
    { 301, "Moved Permanently" },
    { 302, "Found" },
    { 303, "See Other" },
    { 304, "Not Modified" },
    { 307, "Temporary Redirect" },
    { 308, "Permanent Redirect" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 402, "Payment Required" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 406, "Not Acceptable" },
    { 407, "Proxy Authentication Required" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 410, "Gone" },
    { 411, "Length Required" },
    { 412, "Precondition Failed" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 415, "Unsupported Media Type" },
    { 416, "Range Not Satisfiable" },
    { 417, "Expectation Failed" },
    { 421, "Misdirected Request" },
    { 422, "Unprocessable Content" },
    { 426, "Upgrade Required" },
    { 428, "Precondition Required" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 451, "Unavailable For Legal Reasons" },
    { 500, "Internal Server Error" },
    { 501, "Not Implemented" },
    { 502, "Bad Gateway" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
    { 507, "Insufficient Storage" },
};

const char *h1_reason(int status)
{
    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

static bool is_all(struct str s, unsigned class)
{
    for (size_t i = 0; i < s.n; i++)
        if (!(classes[(unsigned char)s.p[i]] & class))
            return false;
    return true;
}

static char lower_character(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

bool h1_same(struct str a, struct str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower_character(a.p[i]) != lower_character(b.p[i]))
            return false;
    return true;
}

bool h1_is_token(struct str s)
{
    return s.n > 0 && is_all(s, TOKEN);
}

bool h1_is_value(struct str s)
{
    return is_all(s, VALUE) && str_trim(s).n == s.n;
}

enum h1_method h1_method_of(struct str token)
{
    for (size_t i = 0; i < COUNT_OF(methods); i++)
        if (str_eq(token, str_from(methods[i].name)))
            return methods[i].method;
    return H1_OTHER;
}

static struct str str_part(struct str s, size_t from, size_t to)
{
    return (struct str){ s.p + from, to - from };
}

const struct h1_field *h1_find(const struct h1_head *h, struct str name)
{
    for (size_t i = 0; i < h->n; i++)
        if (h1_same(h->fields[i].name, name))
            return &h->fields[i];
    return NULL;
}

struct str h1_value(const struct h1_head *h, struct str name)
{
    const struct h1_field *f = h1_find(h, name);

    return f ? f->value : (struct str){ 0 };
}

size_t h1_count(const struct h1_head *h, struct str name)
{
    size_t count = 0;

    for (size_t i = 0; i < h->n; i++)
        count += h1_same(h->fields[i].name, name);
    return count;
}

bool h1_list_has(struct str list, struct str token)
{
    while (list.p) {
        struct str item;

        list = str_cut(list, ',', &item);
        if (h1_same(str_trim(item), token))
            return true;
    }
    return false;
}

/* --- Hosts --- */

static bool parse_authority_port(struct str s, uint16_t *ret)
{
    uint64_t port;

    if (s.n > 5 || !str_to_u64(s, &port) || port == 0 || port > UINT16_MAX || s.p[0] == '0')
        return false;
    *ret = (uint16_t)port;
    return true;
}

/* Only distinguishes addresses from other text; the dialling code parses the address. */
static bool resembles_ipv6(struct str s)
{
    bool colon = false;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == ':')
            colon = true;
        else if (hex_digit(s.p[i]) < 0 && s.p[i] != '.')
            return false;
    }
    return colon && s.n <= 45;
}

/* Of labels, none of them empty but for what a last dot leaves. */
static bool is_host_name(struct str s)
{
    if (s.n == 0 || s.n > H1_HOST_MAX || s.p[0] == '.' || !is_all(s, HOST))
        return false;
    for (size_t i = 1; i < s.n; i++)
        if (s.p[i] == '.' && s.p[i - 1] == '.')
            return false;
    return true;
}

bool h1_parse_host(struct str s, struct h1_host *ret)
{
    struct h1_host h = { 0 };
    struct str rest;

    if (!s.p)
        return false;
    if (s.n > 0 && s.p[0] == '[') {
        size_t end = str_find(s, ']');

        if (end == s.n || !resembles_ipv6(str_part(s, 1, end)))
            return false;
        h.name = str_part(s, 1, end);
        h.is_ipv6 = true;
        rest = str_part(s, end + 1, s.n);
    } else {
        size_t end = str_find(s, ':');

        h.name = str_part(s, 0, end);
        if (!is_host_name(h.name))
            return false;
        rest = str_part(s, end, s.n);
    }
    if (rest.n > 0 && rest.p[0] != ':')
        return false;
    if (rest.n > 1 && !parse_authority_port(str_part(rest, 1, rest.n), &h.port))
        return false;
    *ret = h;
    return true;
}

bool h1_host_same(struct h1_host a, struct h1_host b, uint16_t default_port)
{
    uint16_t ap = a.port ? a.port : default_port, bp = b.port ? b.port : default_port;

    return ap == bp && a.is_ipv6 == b.is_ipv6 && h1_same(a.name, b.name);
}

/* --- Finding the end of a head --- */

/* An error with the status a server gives for it. */
#define refuse(status, code, value, ...) (*(status) = (value), err_set(e, (code), __VA_ARGS__))

static int check_lengths(const struct h1_scan *s, size_t length, const struct h1_limits *l,
                         int *status, struct err *e)
{
    /* The first line also holds a method, a version and two blanks. */
    if (!s->first_done_ && length > l->target + H1_METHOD_MAX + STR(" HTTP/1.1\r\n ").n)
        return refuse(status, ERR_TOO_BIG, 414, "the request target is longer than %zu bytes",
                      l->target);
    if (length > l->head)
        return refuse(status, ERR_TOO_BIG, 431, "the head is longer than %zu bytes", l->head);
    return 0;
}

/* Looks at the bytes that have not been looked at: the head's length, 0, or an error. */
static int scan_head(struct h1_scan *s, struct str in, const struct h1_limits *l, int *status,
                     struct err *e)
{
    size_t i;

    for (i = s->seen_; i < in.n && i < l->head; i++) {
        unsigned char c = (unsigned char)in.p[i];

        if (classes[c] & VALUE)
            continue;
        if (c == '\r' && (i + 1 == in.n || in.p[i + 1] == '\n')) {
            if (i + 1 == in.n)
                break; /* looked at again together with what follows */
            continue;
        }
        if (c != '\n' || i == 0 || in.p[i - 1] != '\r')
            return refuse(status, ERR_INVALID, 400,
                          "byte %zu of the head is a control character, or a line does not end "
                          "in CR LF",
                          i);
        if (s->line_ + 1 == i) {
            if (!s->first_done_)
                return refuse(status, ERR_INVALID, 400, "the head begins with an empty line");
            s->seen_ = i + 1;
            return (int)(i + 1);
        }
        s->first_done_ = true;
        s->line_ = i + 1;
    }
    s->seen_ = i;
    return check_lengths(s, in.n, l, status, e);
}

/* --- Fields --- */

/* Takes a line, without its CR LF, off the front: the scan has seen that they are there. */
static struct str take_head_line(struct str *in)
{
    size_t end = (size_t)((const char *)memchr(in->p, '\r', in->n) - in->p);
    struct str line = str_part(*in, 0, end);

    *in = str_part(*in, end + 2, in->n);
    return line;
}

/* --- What the fields say about the message as a whole --- */

struct framing {
    struct str length, coding;
    size_t lengths, codings, upgrades;
    bool close;
};

static bool resembles_field(struct str name, struct str framing)
{
    if (name.n != framing.n)
        return false;
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i] == '_' ? '-' : lower_character(name.p[i]);

        if (c != framing.p[i])
            return false;
    }
    return true;
}

/* Connection lists the fields that a proxy removes; framing fields cannot be removed. */
static int read_connection(struct str list, struct h1_head *h, struct framing *f, int *status,
                           struct err *e)
{
    while (list.p) {
        struct str item;

        list = str_cut(list, ',', &item);
        item = str_trim(item);
        if (item.n > 0 && !h1_is_token(item))
            return refuse(status, ERR_INVALID, 400, "Connection is not a list of tokens");
        if (h1_same(item, STR("host")) || h1_same(item, STR("content-length")) ||
            h1_same(item, STR("transfer-encoding")))
            return refuse(status, ERR_INVALID, 400, "Connection names a field that must stay");
        if (h1_same(item, STR("close")))
            f->close = true;
        if (h1_same(item, STR("upgrade")))
            h->upgrade = true;
    }
    return 0;
}

/* A tab before or behind a value, which some take for a part of it. The value is a slice of a line:
 * a colon is before it, and CR behind. */
static bool has_tab(struct str value)
{
    for (const char *p = value.p; p[-1] != ':'; p--)
        if (p[-1] == '\t')
            return true;
    for (const char *p = value.p + value.n; *p != '\r'; p++)
        if (*p == '\t')
            return true;
    return false;
}

/* How often a field counts that says how long the body is: a doubtful spelling is never a good one,
 * like Content_Length. */
static size_t framing_weight(const struct h1_field *field)
{
    return memchr(field->name.p, '_', field->name.n) || has_tab(field->value) ? 2 : 1;
}

static int read_head_field(const struct h1_field *field, struct h1_head *h, struct framing *f,
                           int *status, struct err *e)
{
    struct str name = field->name;

    if (resembles_field(name, STR("content-length"))) {
        f->lengths += framing_weight(field);
        f->length = field->value;
    } else if (resembles_field(name, STR("transfer-encoding"))) {
        f->codings += framing_weight(field);
        f->coding = field->value;
    } else if (h1_same(name, STR("connection"))) {
        return read_connection(field->value, h, f, status, e);
    } else if (h1_same(name, STR("upgrade"))) {
        f->upgrades++;
        h->proto = field->value;
    }
    return 0;
}

static int decide_framing(struct h1_head *h, const struct framing *f, int *status, struct err *e)
{
    if (f->lengths + f->codings > 1)
        return refuse(status, ERR_INVALID, 400,
                      "the body's length is given more than once, or in a doubtful spelling");
    if (f->lengths) {
        if (f->length.n == 0 || (f->length.p[0] == '0' && f->length.n > 1) ||
            !str_to_u64(f->length, &h->length) || h->length > INT64_MAX)
            return refuse(status, ERR_INVALID, 400, "Content-Length is not a plain number");
        h->framing = H1_LENGTH;
    }
    if (f->codings) {
        if (!h1_same(f->coding, STR("chunked")))
            return refuse(status, ERR_INVALID, 400, "the only Transfer-Encoding is chunked");
        if (h->minor == 0)
            return refuse(status, ERR_INVALID, 400, "HTTP/1.0 has no Transfer-Encoding");
        h->framing = H1_CHUNKED;
    }
    return 0;
}

static int read_head_fields(struct h1_head *h, int *status, struct err *e)
{
    struct framing f = { 0 };
    int r;

    for (size_t i = 0; i < h->n; i++) {
        r = read_head_field(&h->fields[i], h, &f, status, e);
        if (r < 0)
            return r;
    }
    if (h->upgrade && f.upgrades > 1)
        return refuse(status, ERR_INVALID, 400, "Upgrade is there more than once");
    h->keep_alive = h->minor == 1 && !f.close;
    h->upgrade = h->upgrade && f.upgrades == 1 && h->minor == 1;
    return decide_framing(h, &f, status, e);
}

/* The fields, and what they say. */
static int parse_fields(struct str in, const struct h1_limits *l, struct h1_head *h, int *status,
                        struct err *e)
{
    for (;;) {
        struct str line = take_head_line(&in), name, value;

        if (line.n == 0)
            return read_head_fields(h, status, e);
        if (h->n == l->fields)
            return refuse(status, ERR_TOO_BIG, 431, "the head has more than %zu fields", l->fields);
        value = str_cut(line, ':', &name);
        if (!value.p)
            return refuse(status, ERR_INVALID, 400, "header line %zu has no colon", h->n + 1);
        if (!h1_is_token(name))
            return refuse(status, ERR_INVALID, 400, "the name of header field %zu is no token",
                          h->n + 1);
        if (name.n > H1_NAME_MAX)
            return refuse(status, ERR_TOO_BIG, 431,
                          "the name of header field %zu is longer than %d bytes", h->n + 1,
                          H1_NAME_MAX);
        h->fields[h->n++] = (struct h1_field){ name, str_trim(value) };
    }
}

/* --- Requests --- */

static int parse_version(struct str s, int *minor, int *status, struct err *e)
{
    if (s.n != STR("HTTP/1.1").n || !str_starts(s, STR("HTTP/")) || s.p[6] != '.' ||
        !(classes[(unsigned char)s.p[5]] & DIGIT) || !(classes[(unsigned char)s.p[7]] & DIGIT))
        return refuse(status, ERR_INVALID, 400, "the first line does not end in a version");
    if (s.p[5] != '1' || s.p[7] > '1')
        return refuse(status, ERR_UNSUPPORTED, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    *minor = s.p[7] - '0';
    return 0;
}

static bool parse_absolute(struct str t, struct h1_request *q)
{
    size_t colon = str_find(t, ':'), slash;
    struct str rest;

    if (colon == 0 || colon > 16 || t.n - colon < 4 || memcmp(t.p + colon, "://", 3) != 0)
        return false;
    q->scheme = str_part(t, 0, colon);
    for (size_t i = 0; i < colon; i++)
        if (q->scheme.p[i] < 'a' || q->scheme.p[i] > 'z')
            return false;
    rest = str_part(t, colon + 3, t.n);
    slash = 0;
    while (slash < rest.n && rest.p[slash] != '/' && rest.p[slash] != '?')
        slash++;
    q->path = str_part(rest, slash, rest.n);
    return h1_parse_host(str_part(rest, 0, slash), &q->to);
}

static bool parse_form(struct h1_request *q)
{
    struct str t = q->target;

    if (q->method == H1_CONNECT) {
        q->form = H1_AUTHORITY;
        return h1_parse_host(t, &q->to) && q->to.port > 0;
    }
    if (t.p[0] == '/') {
        q->form = H1_ORIGIN;
        q->path = t;
        return true;
    }
    if (str_eq(t, STR("*"))) {
        q->form = H1_ASTERISK;
        return q->method == H1_OPTIONS;
    }
    q->form = H1_ABSOLUTE;
    return parse_absolute(t, q);
}

static int parse_request_line(struct str line, const struct h1_limits *l, struct h1_request *q,
                              int *status, struct err *e)
{
    struct str rest = str_cut(line, ' ', &q->method_text), version;

    if (!h1_is_token(q->method_text))
        return refuse(status, ERR_INVALID, 400, "the method is no token");
    if (q->method_text.n > H1_METHOD_MAX)
        return refuse(status, ERR_TOO_BIG, 501, "the method is longer than %d bytes",
                      H1_METHOD_MAX);
    if (!rest.p)
        return refuse(status, ERR_INVALID, 400, "the first line ends after the method");
    version = str_cut(rest, ' ', &q->target);
    if (q->target.n > l->target)
        return refuse(status, ERR_TOO_BIG, 414, "the request target is longer than %zu bytes",
                      l->target);
    if (q->target.n == 0 || !is_all(q->target, TARGET))
        return refuse(status, ERR_INVALID, 400,
                      "the request target is empty or holds bytes that must be encoded");
    q->method = h1_method_of(q->method_text);
    int r = parse_version(version, &q->head.minor, status, e);

    if (r < 0)
        return r;
    if (!parse_form(q))
        return refuse(status, ERR_INVALID, 400,
                      "the request target is neither a path nor a proper address");
    return 0;
}

static int check_host_field(struct h1_request *q, int *status, struct err *e)
{
    size_t hosts = h1_count(&q->head, STR("host"));
    const struct h1_field *f = h1_find(&q->head, STR("host"));

    if (hosts == 0 && q->head.minor == 0)
        return 0;
    if (hosts != 1)
        return refuse(status, ERR_INVALID, 400, "a request has exactly one Host, not %zu", hosts);
    if (has_tab(f->value) || !h1_parse_host(f->value, &q->host))
        return refuse(status, ERR_INVALID, 400, "Host is not a name or address with a port");
    return 0;
}

static int check_expect(struct h1_request *q, int *status, struct err *e)
{
    const struct h1_field *f = h1_find(&q->head, STR("expect"));

    if (!f || q->head.minor == 0)
        return 0;
    if (!h1_same(f->value, STR("100-continue")) || h1_count(&q->head, STR("expect")) > 1)
        return refuse(status, ERR_UNSUPPORTED, 417, "the only expectation met is 100-continue");
    q->expects_continue = q->head.framing != H1_EMPTY;
    return 0;
}

static int parse_whole_request(struct str head, const struct h1_limits *l, struct h1_request *q,
                               int *status, struct err *e)
{
    int r = parse_request_line(take_head_line(&head), l, q, status, e);

    if (r < 0)
        return r;
    r = parse_fields(head, l, &q->head, status, e);
    if (r < 0)
        return r;
    if (q->method == H1_CONNECT && q->head.framing != H1_EMPTY)
        return refuse(status, ERR_INVALID, 400, "CONNECT has no body");
    if (q->head.minor == 0 && q->head.length > 0 &&
        (q->method == H1_GET || q->method == H1_HEAD || q->method == H1_DELETE))
        return refuse(status, ERR_INVALID, 400,
                      "in HTTP/1.0 this method has no body, so some would not read it");
    r = check_host_field(q, status, e);
    return r < 0 ? r : check_expect(q, status, e);
}

/* Only what is counted is cleared: a head's field table is larger than most heads. */
static void clear_head(struct h1_head *h)
{
    h->n = 0;
    h->framing = H1_EMPTY;
    h->length = 0;
    h->keep_alive = h->upgrade = false;
    h->proto = (struct str){ 0 };
}

int h1_parse_request(struct h1_scan *s, struct str in, const struct h1_limits *limits,
                     struct h1_request *ret, int *status, struct err *e)
{
    int n = scan_head(s, in, limits, status, e), r;

    if (n <= 0)
        return n;
    clear_head(&ret->head);
    ret->scheme = ret->path = (struct str){ 0 };
    ret->to = ret->host = (struct h1_host){ 0 };
    ret->expects_continue = false;
    r = parse_whole_request(str_part(in, 0, (size_t)n), limits, ret, status, e);
    return r < 0 ? r : n;
}

static void move_str(struct str *s, const char *from, const char *to)
{
    if (s->p)
        s->p = to + (s->p - from);
}

void h1_move_request(struct h1_request *q, const char *from, const char *to)
{
    struct str *const all[] = { &q->method_text, &q->target,    &q->scheme,    &q->path,
                                &q->to.name,     &q->host.name, &q->head.proto };

    for (size_t i = 0; i < COUNT_OF(all); i++)
        move_str(all[i], from, to);
    for (size_t i = 0; i < q->head.n; i++) {
        move_str(&q->head.fields[i].name, from, to);
        move_str(&q->head.fields[i].value, from, to);
    }
}

/* --- Responses --- */

static int parse_status_line(struct str line, struct h1_response *p, struct err *e)
{
    struct str version, code, rest = str_cut(line, ' ', &version);
    uint64_t value;
    int status, r = parse_version(version, &p->head.minor, &status, e);

    if (r < 0)
        return r;
    p->reason = str_cut(rest, ' ', &code); /* some leave out the blank with the reason */
    if (code.n != 3 || !str_to_u64(code, &value) || value < 100 || value > 599)
        return err_set(e, ERR_INVALID, "the status is not a number from 100 to 599");
    p->status = (int)value;
    return 0;
}

static void decide_response_framing(struct h1_response *p, enum h1_method asked)
{
    struct h1_head *h = &p->head;
    bool tunnel = asked == H1_CONNECT && p->status / 100 == 2;
    bool no_body = p->status / 100 == 1 || p->status == 204 || p->status == 304;

    /* Framing without a body: the sender may send one nevertheless. */
    if (p->status != 304 && (no_body || tunnel) &&
        (h->framing == H1_CHUNKED || (h->framing == H1_LENGTH && h->length > 0)))
        h->keep_alive = false;
    if (no_body || tunnel || asked == H1_HEAD) {
        h->framing = H1_EMPTY;
        h->length = 0;
    } else if (h->framing == H1_EMPTY) {
        h->framing = H1_UNTIL_CLOSE;
        h->keep_alive = false;
    }
}

int h1_parse_response(struct h1_scan *s, struct str in, const struct h1_limits *limits,
                      enum h1_method asked, struct h1_response *ret, struct err *e)
{
    int status, n = scan_head(s, in, limits, &status, e), r;
    struct str head;

    if (n <= 0)
        return n;
    clear_head(&ret->head);
    head = str_part(in, 0, (size_t)n);
    r = parse_status_line(take_head_line(&head), ret, e);
    if (r < 0)
        return r;
    r = parse_fields(head, limits, &ret->head, &status, e);
    if (r < 0)
        return r;
    if (ret->status / 100 == 1 && (ret->head.framing == H1_CHUNKED || ret->head.length > 0))
        return err_set(e, ERR_INVALID, "an interim answer has no body");
    decide_response_framing(ret, asked);
    return n;
}
