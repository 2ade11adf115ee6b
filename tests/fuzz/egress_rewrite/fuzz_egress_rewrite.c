/* SPDX-License-Identifier: Apache-2.0 */
/* What a relay writes in the place of a head is one head again, for the place that was decided,
 * with the framing that was understood and nothing of what concerns one connection. */
#include <stdlib.h>

#include "base/own.h"
#include "engine/egress/relays/rewrite.h"
#include "domain/policy/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUT_MAX = 4 * H1_HEAD_MAX };
static const struct h1_limits limits = { H1_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX };
static struct h1_request request, request_again;
static struct h1_response answer, answer_again;

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_fields(const struct h1_head *h, bool close)
{
    static const char *const gone[] = { "keep-alive",       "te",
                                        "trailer",          "proxy-authorization",
                                        "upgrade",          "http2-settings",
                                        "proxy-connection", "proxy-authenticate" };

    for (size_t i = 0; i < COUNT_OF(gone); i++)
        must(!h1_find(h, str_from(gone[i])));
    must(h1_count(h, STR("connection")) == (close ? 1 : 0));
    must(!h->upgrade && h->keep_alive == !close);
}

static void check_request_again(const struct rewrite_to *to, struct str out)
{
    const struct h1_request *q = &request, *a = &request_again;
    struct h1_scan s = { 0 };
    int status;

    must(h1_parse_request(&s, out, &limits, &request_again, &status, NULL) == (int)out.n);
    must(a->form == H1_ORIGIN && a->method == q->method && a->head.minor == 1);
    must(a->head.framing == q->head.framing && a->head.length == q->head.length);
    must(str_eq(a->host.name, str_from(to->host->name)) && a->host.port == 8080);
    must(a->expects_continue == q->expects_continue);
    must(str_starts(a->path, to->path));
    must(a->path.n == to->path.n + (to->query.p ? to->query.n + 1 : 0));
    must(!h1_find(&a->head, STR("x-http-method-override")));
    check_fields(&a->head, !q->head.keep_alive);
}

/* A head that has as many fields as can be may have one too many with ours. */
static bool leaves_room(const struct h1_head *h)
{
    return h->n + 3 <= H1_FIELDS_MAX;
}

static void check_request(struct str in)
{
    AUTO(buf_done) struct buf out = BUF_INIT(OUT_MAX);
    struct path_text text;
    struct host host;
    struct rewrite_to to = { .host = &host, .port = 8080, .default_port = 80, .inspected = true };
    struct h1_scan s = { 0 };
    int status;

    must(host_parse(STR("api.example.com"), false, &host, NULL) >= 0);
    if (h1_parse_request(&s, in, &limits, &request, &status, NULL) <= 0 ||
        request.method == H1_CONNECT || !leaves_room(&request.head))
        return;
    to.query = str_cut(request.path, '?', &to.path);
    if (path_read(to.path, 0, true, &text))
        return;
    must(rewrite_request(&request, &to, &out) == 0);
    check_request_again(&to, buf_str(&out));
}

static void check_answer(struct str in, enum h1_method asked)
{
    AUTO(buf_done) struct buf out = BUF_INIT(OUT_MAX);
    struct h1_scan s = { 0 }, t = { 0 };
    struct rewrite_answer how = { .request = asked };

    if (h1_parse_response(&s, in, &limits, asked, &answer, NULL) <= 0 || !leaves_room(&answer.head))
        return;
    how.framing = answer.head.framing;
    how.close = how.framing == H1_UNTIL_CLOSE;
    must(rewrite_response(&answer, &how, &out) == 0);
    must(h1_parse_response(&t, buf_str(&out), &limits, asked, &answer_again, NULL) == (int)out.n);
    must(answer_again.status == answer.status && str_eq(answer_again.reason, answer.reason));
    must(answer_again.head.framing == answer.head.framing);
    must(answer_again.head.length == answer.head.length);
    check_fields(&answer_again.head, how.close);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = { (const char *)data, size };

    if (size > 8192)
        return 0;
    check_request(in);
    check_answer(in, H1_GET);
    check_answer(in, H1_HEAD);
    return 0;
}
