/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between the control plane and the fetch process, in both directions: what the check
 * passes is as good as it promises, and can be written again. The first byte chooses the direction;
 * behind a REQUEST come its details. Everything lies in a heap block of just its size. */
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "engine/fetcher/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void on_done(struct fetch_request *r, const struct fetch_answer *a)
{
}

static void check_headers(const struct fetch_header *h, size_t n)
{
    must(n <= FETCH_HEADERS_MAX);
    for (size_t i = 0; i < n; i++)
        must(fetch_name_valid(h[i].name) && fetch_value_received(h[i].value));
}

/* What was read can be written, and is the same again. */
static void write_again(const struct fetcher_request *m, struct fetch_request *r, struct str url,
                        struct str details)
{
    AUTO(buf_done) struct buf out = BUF_INIT(8 << 20);
    AUTO_FREE char *text = strndup(url.p, url.n);
    struct fetcher_request again;
    struct err e;

    must(text);
    r->url = text;
    r->done = on_done;
    if (fetch_request_check(r, &e) < 0)
        return;
    must(fetcher_write_details(r, &again, &out, &e) >= 0);
    must(again.url_n == m->url_n && again.headers_n == m->headers_n && again.body_n == m->body_n);
    must(out.n == details.n && fetcher_details_size(&again) == out.n);
}

static void read_request(const struct fetcher_request *m, struct str details)
{
    static struct fetch_header headers[FETCH_HEADERS_MAX];
    static struct address addresses[FETCH_ADDRESSES_MAX];
    struct fetch_request r;
    struct str url;
    struct err e;

    if (fetcher_read_details(m, details, headers, addresses, &url, &r, &e) < 0)
        return;
    must(url.n > 0 && url.n <= FETCH_URL_MAX && !memchr(url.p, 0, url.n));
    must(r.method < FETCH_METHOD_COUNT_ && r.reach < FETCH_REACH_COUNT_ && r.timeout > 0);
    must(r.body.n == m->body_n && r.address_count <= FETCH_ADDRESSES_MAX);
    check_headers(r.headers, r.header_count);
    write_again(m, &r, url, details);
}

static void read_answer(const struct fetcher_answer *m)
{
    static struct fetch_header headers[FETCH_HEADERS_MAX];
    AUTO(buf_done) struct buf out = BUF_INIT(FETCHER_ANSWER_MAX);
    struct fetch_answer a;

    fetcher_read_answer(m, headers, &a);
    must(a.status >= 100 && a.status <= 999);
    check_headers(a.headers, a.header_count);
    (void)fetch_answer_header(&a, "Location");
    must(fetcher_write_answer(&a, m->head.id, &out) >= 0);
    must(out.n == m->head.size && memcmp(out.p, m, out.n) == 0);
}

static void read_end(const struct fetcher_end *m)
{
    struct fetcher_end again;
    struct err e = { .code = m->code };

    must(memchr(m->msg, 0, sizeof m->msg) && m->code < ERR_CODE_COUNT_);
    memcpy(e.msg, m->msg, sizeof e.msg);
    must(fetcher_write_end(&again, m->head.type, m->head.id, &e,
                           (struct str){ m->redirect, m->redirect_n }) == m->head.size);
    must(fetcher_check(&again, again.head.size, FETCHER_FROM_PROCESS, &e) >= 0);
}

static void read_message(const void *message, size_t n, enum fetcher_side side, struct str behind)
{
    const struct fetcher_head *h = message;
    struct err e;

    if (fetcher_check(message, n, side, &e) < 0)
        return;
    must(h->size == n && n <= FETCHER_MESSAGE_MAX);
    must((h->type >= FETCHER_ANSWER) == (side == FETCHER_FROM_PROCESS));
    if (h->type == FETCHER_REQUEST)
        read_request(message, behind);
    else if (h->type == FETCHER_ANSWER)
        read_answer(message);
    else if (h->type == FETCHER_END || h->type == FETCHER_FAILED)
        read_end(message);
    else if (h->type == FETCHER_PIECE || h->type == FETCHER_MORE)
        must(n > sizeof *h && n - sizeof *h <= FETCHER_PIECE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool request = size > 1 + sizeof(struct fetcher_request) && data[0] % 2 == 0 &&
                   data[1 + offsetof(struct fetcher_head, type)] == FETCHER_REQUEST;
    size_t n = request ? sizeof(struct fetcher_request) : size - (size > 0);
    char *message = malloc(n ? n : 1), *behind = malloc(size + 1);

    must(message && behind);
    if (size) {
        memcpy(message, data + 1, n);
        memcpy(behind, data + 1 + n, size - 1 - n);
        read_message(message, n, data[0] % 2 ? FETCHER_FROM_PROCESS : FETCHER_TO_PROCESS,
                     (struct str){ behind, size - 1 - n });
    }
    free(message);
    free(behind);
    return 0;
}
