/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/fetch/request.h"

#include <ctype.h>
#include <strings.h>

#include "base/own.h"

const char *const fetch_method_names[FETCH_METHOD_COUNT_] = {
    [FETCH_GET] = "GET", [FETCH_HEAD] = "HEAD",   [FETCH_POST] = "POST",
    [FETCH_PUT] = "PUT", [FETCH_PATCH] = "PATCH", [FETCH_DELETE] = "DELETE",
};

/* Headers that are libcurl's to write: they decide where a message ends and whom it reaches. */
static const char *const reserved[] = { "Host",       "Content-Length", "Transfer-Encoding",
                                        "Connection", "Expect",         "TE",
                                        "Trailer",    "Upgrade" };

bool fetch_method_safe(enum fetch_method m)
{
    return m == FETCH_GET || m == FETCH_HEAD;
}

bool fetch_url_printable(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    return true;
}

bool fetch_name_valid(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.p[i]) && !strchr("!#$%&'*+-.^_`|~", s.p[i]))
            return false;
    return s.n > 0 && !memchr(s.p, '\0', s.n);
}

static bool is_sendable(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((s.p[i] < ' ' || s.p[i] > '~') && s.p[i] != '\t')
            return false;
    return true;
}

bool fetch_value_received(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool is_reserved(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(reserved); i++)
        if (name.n == strlen(reserved[i]) && strncasecmp(name.p, reserved[i], name.n) == 0)
            return true;
    return false;
}

static int check_request_fields(const struct fetch_request *r, struct err *e)
{
    if ((size_t)r->method >= FETCH_METHOD_COUNT_ || !r->url || !r->done || r->timeout <= 0)
        return err_set(e, ERR_BUG, "a request needs a method, a URL, a timeout and a callback");
    if (fetch_method_safe(r->method) && r->body.n > 0)
        return err_set(e, ERR_BUG, "%s has no body", fetch_method_names[r->method]);
    if (!fetch_method_safe(r->method) && r->redirects > 0)
        return err_set(e, ERR_BUG, "%s follows no redirects", fetch_method_names[r->method]);
    if (r->address_count > 0 && r->redirects > 0)
        return err_set(
            e, ERR_BUG,
            "a request with addresses of its own follows no redirects: they are those of "
            "one host");
    if (r->reach >= FETCH_REACH_COUNT_ || r->address_count > FETCH_ADDRESSES_MAX || r->silence < 0)
        return err_set(e, ERR_BUG, "a request with a reach or a silence that does not exist");
    return 0;
}

static int check_request_url(const char *url, struct err *e)
{
    struct str s = str_from(url);

    if (s.n > FETCH_URL_MAX)
        return err_set(e, ERR_INVALID, "a URL has at most %d characters, not %zu", FETCH_URL_MAX,
                       s.n);
    if (!fetch_url_printable(s))
        return err_set(e, ERR_INVALID,
                       "the URL has a blank or a character that is not ASCII; "
                       "write it as %%XX");
    if (!str_starts(s, STR("http://")) && !str_starts(s, STR("https://")))
        return err_set(e, ERR_INVALID, "the URL does not start with http:// or https://");
    if (strspn(strchr(url, ':') + 1, "/") != 2) /* libcurl would take the path for the host */
        return err_set(e, ERR_INVALID, "the URL names no host");
    return 0;
}

static int check_header(const struct fetch_header *h, struct err *e)
{
    if (!fetch_name_valid(h->name))
        return err_set(e, ERR_INVALID, "the name of a header is not a token");
    if (is_reserved(h->name))
        return err_set(e, ERR_INVALID, "header " STR_FMT " cannot be set", STR_ARG(h->name));
    if (!is_sendable(str_trim(h->value)))
        return err_set(e, ERR_INVALID, "header " STR_FMT " has a character that is not allowed",
                       STR_ARG(h->name));
    return 0;
}

static int check_headers(const struct fetch_request *r, struct err *e)
{
    size_t bytes = 0;

    for (size_t i = 0; i < r->header_count; i++) {
        int bad = check_header(&r->headers[i], e);

        if (bad < 0)
            return bad;
        bytes += r->headers[i].name.n + r->headers[i].value.n + 8;
        if (bytes > FETCH_HEAD_MAX)
            return err_set(e, ERR_INVALID, "header " STR_FMT " is longer than %d bytes",
                           STR_ARG(r->headers[i].name), FETCH_HEAD_MAX);
    }
    return 0;
}

int fetch_request_check(const struct fetch_request *r, struct err *e)
{
    int bad = check_request_fields(r, e);

    if (bad >= 0)
        bad = check_request_url(r->url, e);
    return bad < 0 ? bad : check_headers(r, e);
}

static bool is_declared_address(const struct fetch_request *r, const struct address *a)
{
    for (size_t i = 0; i < r->address_count; i++)
        if (address_equal(&r->addresses[i], a))
            return address_grantable(a);
    return false;
}

bool fetch_allows(const struct fetch_request *r, const struct sockaddr *to)
{
    struct address a;
    uint16_t port;

    if (!address_from_sockaddr(to, &a, &port))
        return false;
    if (r->reach == FETCH_REACH_ANY)
        return true;
    return !port_control_plane(port) &&
           (address_classify(&a) == ADDRESS_PUBLIC || is_declared_address(r, &a));
}

struct str fetch_answer_header(const struct fetch_answer *a, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = a->header_count; i-- > 0;)
        if (a->headers[i].name.n == n && strncasecmp(a->headers[i].name.p, name, n) == 0)
            return a->headers[i].value;
    return (struct str){ NULL, 0 };
}

struct str fetch_answer_redirect(const struct fetch_answer *a)
{
    return a->redirect;
}
