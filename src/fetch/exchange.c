#include "fetch/exchange.h"

#include <ctype.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/own.h"

static const struct method {
    const char *name;
    bool safe; /* no body, and may be sent again after a redirect */
} methods[] = {
    [FETCH_GET] = { "GET", true },      [FETCH_HEAD] = { "HEAD", true },
    [FETCH_POST] = { "POST", false },   [FETCH_PUT] = { "PUT", false },
    [FETCH_PATCH] = { "PATCH", false }, [FETCH_DELETE] = { "DELETE", false },
};

/* Headers that are libcurl's to write: they decide where a message ends and whom it reaches. */
static const char *const reserved[] = { "Host",       "Content-Length", "Transfer-Encoding",
                                        "Connection", "Expect",         "TE",
                                        "Trailer",    "Upgrade" };

static bool is_printable(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    return true;
}

static bool is_https(const char *url)
{
    return str_starts(str_from(url), STR("https://"));
}

static int check_fields(const struct fetch_request *r, struct err *e)
{
    if ((size_t)r->method >= COUNT_OF(methods) || !r->url || !r->done || r->timeout <= 0)
        return err_set(e, ERR_BUG, "a request needs a method, a URL, a timeout and a callback");
    if (methods[r->method].safe && r->body.n > 0)
        return err_set(e, ERR_BUG, "%s has no body", methods[r->method].name);
    if (!methods[r->method].safe && r->redirects > 0)
        return err_set(e, ERR_BUG, "%s follows no redirects", methods[r->method].name);
    return 0;
}

/* Messages do not repeat the URL: it may hold a token. */
static int check_url(const char *url, struct err *e)
{
    struct str s = str_from(url);

    if (s.n > FETCH_URL_MAX)
        return err_set(e, ERR_INVALID, "a URL has at most %d characters, not %zu", FETCH_URL_MAX,
                       s.n);
    if (!is_printable(s))
        return err_set(e, ERR_INVALID,
                       "the URL has a blank or a character that is not ASCII; "
                       "write it as %%XX");
    if (!str_starts(s, STR("http://")) && !is_https(url))
        return err_set(e, ERR_INVALID, "the URL does not start with http:// or https://");
    if (strspn(strchr(url, ':') + 1, "/") != 2) /* libcurl would take the path for the host */
        return err_set(e, ERR_INVALID, "the URL names no host");
    return 0;
}

static int parse_url(struct fetch_exchange_ *x, const char *url, struct err *e)
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    CURLUcode code;
    int r = check_url(url, e);

    if (r < 0)
        return r;
    code = curl_url_set(x->url, CURLUPART_URL, url, CURLU_DISALLOW_USER);
    if (code == CURLUE_USER_NOT_ALLOWED)
        return err_set(e, ERR_INVALID,
                       "the URL has a user name or password; send an Authorization "
                       "header instead");
    if (code)
        return err_set(e, ERR_INVALID, "the URL is not valid: %s", curl_url_strerror(code));
    if (!curl_url_get(x->url, CURLUPART_SCHEME, &scheme, 0) &&
        !curl_url_get(x->url, CURLUPART_HOST, &host, 0) &&
        !curl_url_get(x->url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT))
        snprintf(x->origin, sizeof x->origin, "%s://%s:%s", scheme, host, port);
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    return 0;
}

static bool is_token(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.p[i]) && !strchr("!#$%&'*+-.^_`|~", s.p[i]))
            return false;
    return s.n > 0 && !memchr(s.p, '\0', s.n);
}

static bool is_value(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if ((s.p[i] < ' ' || s.p[i] > '~') && s.p[i] != '\t')
            return false;
    return true;
}

static bool is_reserved(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(reserved); i++)
        if (name.n == strlen(reserved[i]) && strncasecmp(name.p, reserved[i], name.n) == 0)
            return true;
    return false;
}

static void add_line(struct fetch_exchange_ *x, const char *line)
{
    struct curl_slist *longer = curl_slist_append(x->headers, line);

    if (!longer)
        abort();
    x->headers = longer;
}

static int add_header(struct fetch_exchange_ *x, const struct fetch_header *h, struct err *e)
{
    AUTO(buf_done) struct buf line = BUF_INIT(FETCH_HEAD_MAX);
    struct str value = str_trim(h->value);
    int r;

    if (!is_token(h->name))
        return err_set(e, ERR_INVALID, "the name of a header is not a token");
    if (is_reserved(h->name))
        return err_set(e, ERR_INVALID, "header " STR_FMT " cannot be set", STR_ARG(h->name));
    if (!is_value(value))
        return err_set(e, ERR_INVALID, "header " STR_FMT " has a character that is not allowed",
                       STR_ARG(h->name));
    /* "Name:" would remove the header, "Name;" sends an empty one. */
    r = value.n > 0 ? buf_addf(&line, STR_FMT ": " STR_FMT, STR_ARG(h->name), STR_ARG(value))
                    : buf_addf(&line, STR_FMT ";", STR_ARG(h->name));
    if (r < 0)
        return err_set(e, ERR_INVALID, "header " STR_FMT " is longer than %d bytes",
                       STR_ARG(h->name), FETCH_HEAD_MAX);
    add_line(x, line.p);
    return 0;
}

static int add_headers(struct fetch_exchange_ *x, const struct fetch_request *r, struct err *e)
{
    for (size_t i = 0; i < r->header_count; i++) {
        int bad = add_header(x, &r->headers[i], e);

        if (bad < 0)
            return bad;
    }
    /* Not sent unless given above. */
    add_line(x, "Content-Type:");
    add_line(x, "Expect:");
    return 0;
}

static size_t on_head(char *p, size_t size, size_t n, void *exchange)
{
    struct fetch_exchange_ *x = exchange;

    (void)p;
    x->head_bytes += size * n;
    if (x->head_bytes <= FETCH_HEAD_MAX)
        return size * n;
    (void)err_set(&x->own, ERR_TOO_BIG, "the head of the answer is longer than %d bytes",
                  FETCH_HEAD_MAX);
    return 0;
}

/* What the head says, for who takes the body in pieces. */
static bool is_wanted(const struct fetch_exchange_ *x, struct fetch_answer *ret)
{
    long status = 0;

    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    *ret = (struct fetch_answer){ .status = (int)status, .easy_ = x->easy };
    return x->request->piece && (status == 200 || status == 206);
}

static size_t on_body(char *p, size_t size, size_t n, void *exchange)
{
    struct fetch_exchange_ *x = exchange;
    struct fetch_answer head;

    if (is_wanted(x, &head)) {
        if (x->request->piece(x->request, &head, (struct str){ p, size * n }, &x->own) >= 0)
            return size * n;
        return 0;
    }
    if (buf_add(&x->body, (struct str){ p, size * n }) >= 0)
        return size * n;
    (void)err_set(&x->own, ERR_TOO_BIG, "the answer is longer than %zu bytes", x->body.max);
    return 0;
}

/* libcurl tries the next address if there is one: explain() knows whether it came to that. */
static curl_socket_t on_open(void *exchange, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct fetch_exchange_ *x = exchange;

    (void)purpose;
    if (x->request->allow && !x->request->allow(x->request, &a->addr)) {
        (void)err_set(&x->own, ERR_DENIED, "its address is not allowed");
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static void set_options(struct fetch_exchange_ *x, const struct fetch_request *r, CURL *c)
{
    const struct method *m = &methods[r->method];

    curl_easy_setopt(c, CURLOPT_PRIVATE, x);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, x->text);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L); /* no waiting for a name server that is silent */
    curl_easy_setopt(c, CURLOPT_PROXY, "");

    curl_easy_setopt(c, CURLOPT_CURLU, x->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, is_https(r->url) ? "https" : "http,https");
    curl_easy_setopt(c, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, r->redirects > 0 ? 1L : 0L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)r->redirects);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);

    curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (r->ca_file)
        curl_easy_setopt(c, CURLOPT_CAINFO, r->ca_file);

    if (!m->safe) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.n);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->body.n > 0 ? r->body.p : "");
    }
    if (r->method == FETCH_HEAD)
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, m->name);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "sandboxer/" SANDBOXER_VERSION);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, x->headers);

    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)((r->timeout + NS_PER_MS - 1) / NS_PER_MS));
    if (r->silence) {
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)((r->silence + NS_PER_S - 1) / NS_PER_S));
    }
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, x);
    if (r->allow) {
        curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
    }
}

static int prepare(struct fetch_exchange_ *x, struct fetch_request *r, struct err *e)
{
    int bad = parse_url(x, r->url, e);

    if (bad < 0)
        return bad;
    bad = add_headers(x, r, e);
    if (bad < 0)
        return bad;
    set_options(x, r, x->easy);
    return 0;
}

int fetch_exchange_new(struct fetch_request *r, struct fetch_exchange_ **ret, struct err *e)
{
    struct fetch_exchange_ *x;
    int bad = check_fields(r, e);

    if (bad < 0)
        return bad;
    x = calloc(1, sizeof *x);
    if (!x || !(x->easy = curl_easy_init()) || !(x->url = curl_url()))
        abort();
    x->request = r;
    buf_init(&x->body, r->max_body);
    bad = prepare(x, r, e);
    if (bad < 0) {
        fetch_exchange_free(x);
        return bad;
    }
    *ret = x;
    return 0;
}

void fetch_exchange_free(struct fetch_exchange_ *x)
{
    if (!x)
        return;
    curl_easy_cleanup(x->easy);
    curl_url_cleanup(x->url);
    curl_slist_free_all(x->headers);
    buf_done(&x->body);
    free(x);
}

static int explain(const struct fetch_exchange_ *x, CURLcode code, struct err *e)
{
    bool connected_elsewhere = x->own.code == ERR_DENIED && code != CURLE_COULDNT_CONNECT;

    if (x->own.code != ERR_OK && !connected_elsewhere) {
        *e = x->own;
        return -(int)e->code;
    }
    return err_set(e, code == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_UPSTREAM, "%s",
                   x->text[0] ? x->text : curl_easy_strerror(code));
}

struct fetch_answer fetch_exchange_answer(struct fetch_exchange_ *x, CURLcode code)
{
    struct fetch_answer a = { .easy_ = x->easy };
    long status = 0;

    if (code != CURLE_OK) {
        err_wrap(&a.err, explain(x, code, &a.err), "asking %s", x->origin);
        return a;
    }
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    a.status = (int)status;
    a.body = buf_str(&x->body);
    return a;
}
