/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/fetch/exchange.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/own.h"

static int parse_url(struct fetch_exchange_ *x, const char *url, struct err *e)
{
    char *scheme = NULL, *host = NULL, *port = NULL;
    CURLUcode code = curl_url_set(x->url, CURLUPART_URL, url, CURLU_DISALLOW_USER);

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

static void add_header_line(struct fetch_exchange_ *x, const char *line)
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

    /* "Name:" would remove the header, "Name;" sends an empty one. */
    r = value.n > 0 ? buf_addf(&line, STR_FMT ": " STR_FMT, STR_ARG(h->name), STR_ARG(value))
                    : buf_addf(&line, STR_FMT ";", STR_ARG(h->name));
    if (r < 0)
        return err_set(e, ERR_INVALID, "header " STR_FMT " is longer than %d bytes",
                       STR_ARG(h->name), FETCH_HEAD_MAX);
    add_header_line(x, line.p);
    explicit_bzero(line.p, line.n); /* it may be a password */
    return 0;
}

static size_t on_head(char *p, size_t size, size_t n, void *exchange)
{
    struct fetch_exchange_ *x = exchange;

    x->head_bytes += size * n;
    if (x->head_bytes <= FETCH_HEAD_MAX && ++x->head_lines <= FETCH_HEADERS_MAX)
        return size * n;
    (void)err_set(&x->own, ERR_TOO_BIG,
                  "the head of the answer is longer than %d bytes or %d lines", FETCH_HEAD_MAX,
                  FETCH_HEADERS_MAX);
    return 0;
}

/* Those of the last answer, if there were redirects. */
static void collect_headers(struct fetch_exchange_ *x)
{
    struct curl_header *h = NULL;

    x->got = new0_array(FETCH_HEADERS_MAX, sizeof *x->got);
    while (x->got_count < FETCH_HEADERS_MAX &&
           (h = curl_easy_nextheader(x->easy, CURLH_HEADER, -1, h)))
        x->got[x->got_count++] = (struct fetch_header){ str_from(h->name), str_from(h->value) };
}

static void fill_answer(struct fetch_exchange_ *x, struct fetch_answer *a)
{
    char *redirect = NULL;
    long status = 0;

    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!x->got)
        collect_headers(x);
    a->status = (int)status;
    a->headers = x->got;
    a->header_count = x->got_count;
    if (!curl_easy_getinfo(x->easy, CURLINFO_REDIRECT_URL, &redirect))
        a->redirect = str_from(redirect);
}

static size_t on_curl_body(char *p, size_t size, size_t n, void *exchange)
{
    struct fetch_exchange_ *x = exchange;
    struct str piece = { p, size * n };
    struct fetch_answer head = { 0 };
    long status = 0;
    int r;

    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    if (x->request->piece && (x->request->every_piece || status == 200 || status == 206)) {
        fill_answer(x, &head);
        r = x->request->piece(x->request, &head, piece, &x->own);
        return r < 0 ? 0 : r == FETCH_HOLD ? CURL_WRITEFUNC_PAUSE : piece.n;
    }
    if (buf_add(&x->body, piece) >= 0)
        return piece.n;
    (void)err_set(&x->own, ERR_TOO_BIG, "the answer is longer than %zu bytes", x->body.max);
    return 0;
}

/* libcurl tries the next address if there is one: explain_failure() knows whether it came to
 * that. */
static curl_socket_t on_curl_open(void *exchange, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct fetch_exchange_ *x = exchange;

    if (!fetch_allows(x->request, &a->addr)) {
        (void)err_set(&x->own, ERR_DENIED, "its address is not allowed");
        return CURL_SOCKET_BAD;
    }
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static void set_curl_options(struct fetch_exchange_ *x, const struct fetch_request *r, CURL *c)
{
    curl_easy_setopt(c, CURLOPT_PRIVATE, x);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, x->text);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L); /* no waiting for a name server that is silent */
    curl_easy_setopt(c, CURLOPT_PROXY, "");

    curl_easy_setopt(c, CURLOPT_CURLU, x->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR,
                     str_starts(str_from(r->url), STR("https://")) ? "https" : "http,https");
    curl_easy_setopt(c, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, r->redirects > 0 ? 1L : 0L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)r->redirects);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);

    curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (r->ca_file) { /* libcurl caches by file name, and another file may have the same name */
        curl_easy_setopt(c, CURLOPT_CAINFO, r->ca_file);
        curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
        curl_easy_setopt(c, CURLOPT_CA_CACHE_TIMEOUT, 0L);
        curl_easy_setopt(c, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    }

    if (!fetch_method_safe(r->method)) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.n);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->body.n > 0 ? r->body.p : "");
    }
    if (r->method == FETCH_HEAD)
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, fetch_method_names[r->method]);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "sandboxer/" SANDBOXER_VERSION);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, x->headers);

    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)((r->timeout + NS_PER_MS - 1) / NS_PER_MS));
    if (r->silence) {
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)((r->silence + NS_PER_S - 1) / NS_PER_S));
    }
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_curl_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_curl_open);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, x);
    if (r->reach != FETCH_REACH_ANY || r->ca_file) {
        curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
    }
}

static int prepare_exchange(struct fetch_exchange_ *x, struct fetch_request *r, struct err *e)
{
    int bad = parse_url(x, r->url, e);

    for (size_t i = 0; i < r->header_count && bad >= 0; i++)
        bad = add_header(x, &r->headers[i], e);
    if (bad < 0)
        return bad;
    /* Not sent unless given above. */
    add_header_line(x, "Content-Type:");
    add_header_line(x, "Expect:");
    set_curl_options(x, r, x->easy);
    return 0;
}

int fetch_exchange_new(struct fetch_request *r, struct fetch_exchange_ **ret, struct err *e)
{
    struct fetch_exchange_ *x;
    int bad = fetch_request_check(r, e);

    if (bad < 0)
        return bad;
    x = new0(sizeof *x);
    x->easy = curl_easy_init();
    x->url = curl_url();
    if (!x->easy || !x->url)
        abort();
    x->request = r;
    buf_init(&x->body, r->max_body);
    bad = prepare_exchange(x, r, e);
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
    free(x->got);
    buf_done(&x->body);
    free(x);
}

static int explain_failure(const struct fetch_exchange_ *x, CURLcode code, struct err *e)
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
    struct fetch_answer a = { 0 };

    if (code != CURLE_OK) {
        err_wrap(&a.err, explain_failure(x, code, &a.err), "asking %s", x->origin);
        return a;
    }
    fill_answer(x, &a);
    a.body = buf_str(&x->body);
    return a;
}
