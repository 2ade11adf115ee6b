/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fetcher/wire.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/own.h"

/* Without a redirect. */
#define END_SIZE offsetof(struct fetcher_end, redirect)

/* Sizes include the head; a type whose sizes differ has bytes behind its layout. */
static const struct {
    enum fetcher_side side;
    size_t least, most;
} kinds[] = {
#define FIXED(type) sizeof(type), sizeof(type)
    [FETCHER_REQUEST] = { FETCHER_TO_PROCESS, FIXED(struct fetcher_request) },
    [FETCHER_MORE] = { FETCHER_TO_PROCESS, sizeof(struct fetcher_head) + 1,
                       sizeof(struct fetcher_bytes) },
    [FETCHER_CREDIT] = { FETCHER_TO_PROCESS, FIXED(struct fetcher_credit) },
    [FETCHER_CANCEL] = { FETCHER_TO_PROCESS, FIXED(struct fetcher_head) },
    [FETCHER_PING] = { FETCHER_TO_PROCESS, FIXED(struct fetcher_head) },
    [FETCHER_ANSWER] = { FETCHER_FROM_PROCESS, sizeof(struct fetcher_answer), FETCHER_ANSWER_MAX },
    [FETCHER_PIECE] = { FETCHER_FROM_PROCESS, sizeof(struct fetcher_head) + 1,
                        sizeof(struct fetcher_bytes) },
    [FETCHER_END] = { FETCHER_FROM_PROCESS, END_SIZE, sizeof(struct fetcher_end) },
    [FETCHER_PONG] = { FETCHER_FROM_PROCESS, FIXED(struct fetcher_head) },
    [FETCHER_FAILED] = { FETCHER_FROM_PROCESS, END_SIZE, END_SIZE },
#undef FIXED
};

#define TIMEOUT_MAX_NS (7 * 24 * 3600 * NS_PER_S)

void fetcher_fill(struct fetcher_head *h, enum fetcher_type type, uint64_t id, size_t size)
{
    *h = (struct fetcher_head){ .magic = FETCHER_MAGIC,
                                .version = FETCHER_VERSION,
                                .type = (uint16_t)type,
                                .size = (uint32_t)size,
                                .id = id };
}

/* ---- headers ---- */

static bool take_bytes(struct str *rest, size_t n, struct str *ret)
{
    if (n > rest->n)
        return false;
    *ret = (struct str){ rest->p, n };
    *rest = (struct str){ rest->p + n, rest->n - n };
    return true;
}

/* `ret` NULL: only whether they are valid. Nothing may be left behind the last one. */
static bool read_fields(struct str all, size_t count, struct fetch_header *ret)
{
    for (size_t i = 0; i < count; i++) {
        struct fetcher_field f;
        struct fetch_header h;
        struct str part;

        if (!take_bytes(&all, sizeof f, &part))
            return false;
        memcpy(&f, part.p, sizeof f);
        if (!take_bytes(&all, f.name_n, &h.name) || !take_bytes(&all, f.value_n, &h.value) ||
            !fetch_name_valid(h.name) || !fetch_value_received(h.value))
            return false;
        if (ret)
            ret[i] = h;
    }
    return all.n == 0;
}

static int write_header_field(struct buf *out, const struct fetch_header *h)
{
    const struct fetcher_field f = { (uint32_t)h->name.n, (uint32_t)h->value.n };
    int r = buf_add(out, (struct str){ (const char *)&f, sizeof f });

    if (r >= 0)
        r = buf_add(out, h->name);
    return r < 0 ? r : buf_add(out, h->value);
}

/* ---- checks ---- */

static int check_request_numbers(const struct fetcher_request *m, struct err *e)
{
    bool good = m->method < FETCH_METHOD_COUNT_ && m->reach < FETCH_REACH_COUNT_ &&
                !(m->flags & ~(unsigned)FETCHER_FLAGS_ALL_) &&
                m->redirects <= FETCHER_REDIRECTS_MAX && m->url_n > 0 &&
                m->url_n <= FETCH_URL_MAX && m->headers_n <= FETCHER_HEADERS_MAX &&
                m->header_count <= FETCH_HEADERS_MAX && m->address_count <= FETCH_ADDRESSES_MAX &&
                m->body_n <= FETCHER_BODY_MAX && m->max_body <= SIZE_MAX / 2 && m->timeout > 0 &&
                m->timeout <= TIMEOUT_MAX_NS && m->silence >= 0 && m->silence <= TIMEOUT_MAX_NS;

    return good ? 0 : err_set(e, ERR_INVALID, "a fetch request has a number out of range");
}

static int check_answer(const struct fetcher_answer *m, size_t n, struct err *e)
{
    struct str fields = { (const char *)(m + 1), n - sizeof *m };

    if (m->status < 100 || m->status > 999 || m->header_count > FETCH_HEADERS_MAX ||
        m->headers_n != fields.n || m->pad)
        return err_set(e, ERR_INVALID, "a fetched answer has a number out of range");
    if (!read_fields(fields, m->header_count, NULL))
        return err_set(e, ERR_INVALID, "a fetched answer has an invalid header");
    return 0;
}

/* Those that a request can end with; others have a meaning for clients that no server may give. */
static const unsigned end_codes =
    1u << ERR_OK | 1u << ERR_INVALID | 1u << ERR_DENIED | 1u << ERR_TOO_BIG | 1u << ERR_BUSY |
    1u << ERR_UNSUPPORTED | 1u << ERR_UPSTREAM | 1u << ERR_TIMEOUT | 1u << ERR_SYS | 1u << ERR_BUG;

/* The text goes to logs and clients. */
static int check_end_message(const struct fetcher_end *m, size_t size, struct err *e)
{
    size_t n = strnlen(m->msg, sizeof m->msg);
    bool good = size - END_SIZE == m->redirect_n && (m->code == ERR_OK || !m->redirect_n) &&
                fetch_url_printable((struct str){ m->redirect, m->redirect_n }) &&
                m->code < ERR_CODE_COUNT_ && (end_codes >> m->code & 1) && n < sizeof m->msg &&
                (m->head.type == FETCHER_END || m->code != ERR_OK) &&
                fetch_value_received((struct str){ m->msg, n }) &&
                str_is_utf8((struct str){ m->msg, n });

    return good ? 0 : err_set(e, ERR_INVALID, "a fetch ended with an invalid reason");
}

int fetcher_check(const void *message, size_t n, enum fetcher_side side, struct err *e)
{
    const struct fetcher_head *h = message;

    if (n < sizeof *h)
        return err_set(e, ERR_INVALID, "a fetch message of %zu bytes", n);
    if (h->magic != FETCHER_MAGIC)
        return err_set(e, ERR_INVALID, "not a fetch message");
    if (h->version != FETCHER_VERSION)
        return err_set(e, ERR_UNSUPPORTED, "fetch protocol %u; this is %d", h->version,
                       FETCHER_VERSION);
    if (h->type >= COUNT_OF(kinds) || kinds[h->type].least == 0 || kinds[h->type].side != side)
        return err_set(e, ERR_INVALID, "a fetch message of unknown type %u", h->type);
    if (h->size != n || n < kinds[h->type].least || n > kinds[h->type].most || h->pad)
        return err_set(e, ERR_INVALID, "a fetch message of type %u with %zu bytes", h->type, n);
    switch (h->type) {
    case FETCHER_REQUEST:
        return check_request_numbers(message, e);
    case FETCHER_ANSWER:
        return check_answer(message, n, e);
    case FETCHER_END:
    case FETCHER_FAILED:
        return check_end_message(message, n, e);
    case FETCHER_CREDIT:
        return ((const struct fetcher_credit *)message)->bytes <= FETCHER_WINDOW
                   ? 0
                   : err_set(e, ERR_INVALID, "a fetch credit exceeds the window");
    default:
        return 0;
    }
}

/* ---- requests ---- */

size_t fetcher_details_size(const struct fetcher_request *m)
{
    return (size_t)m->url_n + m->headers_n + m->address_count * sizeof(struct fetcher_address) +
           (size_t)m->body_n;
}

static bool read_addresses(struct str *rest, size_t count, struct address *ret)
{
    for (size_t i = 0; i < count; i++) {
        struct fetcher_address a;
        struct str part;

        if (!take_bytes(rest, sizeof a, &part))
            return false;
        memcpy(&a, part.p, sizeof a);
        if (a.v6 > 1)
            return false;
        ret[i] = (struct address){ .v6 = a.v6 };
        memcpy(ret[i].bytes, a.bytes, a.v6 ? 16 : 4);
    }
    return true;
}

int fetcher_read_details(const struct fetcher_request *m, struct str details,
                         struct fetch_header *headers, struct address *addresses,
                         struct str *ret_url, struct fetch_request *ret, struct err *e)
{
    struct str fields, url;

    if (details.n != fetcher_details_size(m) || !take_bytes(&details, m->url_n, &url) ||
        memchr(url.p, 0, url.n) || !take_bytes(&details, m->headers_n, &fields) ||
        !read_fields(fields, m->header_count, headers) ||
        !read_addresses(&details, m->address_count, addresses))
        return err_set(e, ERR_INVALID, "a fetch request has invalid details");
    *ret_url = url;
    *ret = (struct fetch_request){ .method = m->method,
                                   .headers = headers,
                                   .header_count = m->header_count,
                                   .body = details,
                                   .timeout = m->timeout,
                                   .max_body = (size_t)m->max_body,
                                   .redirects = m->redirects,
                                   .silence = m->silence,
                                   .reach = m->reach,
                                   .addresses = addresses,
                                   .address_count = m->address_count };
    return 0;
}

int fetcher_write_details(const struct fetch_request *r, struct fetcher_request *m,
                          struct buf *details, struct err *e)
{
    struct str url = str_from(r->url);
    int bad = buf_add(details, url);

    *m = (struct fetcher_request){ .method = r->method,
                                   .reach = r->reach,
                                   .flags = r->piece ? FETCHER_WANTS_PIECES : 0,
                                   .redirects = r->redirects,
                                   .url_n = (uint32_t)url.n,
                                   .header_count = (uint32_t)r->header_count,
                                   .address_count = (uint32_t)r->address_count,
                                   .body_n = r->body.n,
                                   .max_body = r->max_body,
                                   .timeout = r->timeout,
                                   .silence = r->silence };
    for (size_t i = 0; bad >= 0 && i < r->header_count; i++)
        bad = write_header_field(details, &r->headers[i]);
    m->headers_n = (uint32_t)(details->n - url.n);
    for (size_t i = 0; bad >= 0 && i < r->address_count; i++) {
        struct fetcher_address a = { .v6 = r->addresses[i].v6 };

        memcpy(a.bytes, r->addresses[i].bytes, sizeof a.bytes);
        bad = buf_add(details, (struct str){ (const char *)&a, sizeof a });
    }
    if (bad >= 0)
        bad = buf_add(details, r->body);
    if (bad < 0)
        return err_set(e, ERR_TOO_BIG, "the request is longer than %zu bytes", details->max);
    return check_request_numbers(m, e);
}

/* ---- answers ---- */

void fetcher_read_answer(const struct fetcher_answer *m, struct fetch_header *headers,
                         struct fetch_answer *ret)
{
    const char *behind = (const char *)(m + 1);

    (void)read_fields((struct str){ behind, m->headers_n }, m->header_count, headers);
    *ret = (struct fetch_answer){ .status = (int)m->status,
                                  .headers = headers,
                                  .header_count = m->header_count };
}

int fetcher_write_answer(const struct fetch_answer *a, uint64_t id, struct buf *out)
{
    struct fetcher_answer m = { .status = (uint32_t)a->status };
    size_t at = out->n;
    int r = buf_add(out, (struct str){ (const char *)&m, sizeof m });

    for (size_t i = 0; r >= 0 && i < a->header_count; i++)
        if (fetch_name_valid(a->headers[i].name) && fetch_value_received(a->headers[i].value)) {
            r = write_header_field(out, &a->headers[i]);
            m.header_count++;
        }
    m.headers_n = (uint32_t)(out->n - at - sizeof m);
    if (r < 0)
        return r;
    fetcher_fill(&m.head, FETCHER_ANSWER, id, out->n - at);
    memcpy(out->p + at, &m, sizeof m);
    return 0;
}

size_t fetcher_write_end(struct fetcher_end *m, enum fetcher_type type, uint64_t id,
                         const struct err *e, struct str redirect)
{
    bool leads = e->code == ERR_OK && redirect.n <= FETCH_URL_MAX && fetch_url_printable(redirect);

    *m = (struct fetcher_end){ .code = end_codes >> e->code & 1 ? e->code : ERR_UPSTREAM };
    snprintf(m->msg, sizeof m->msg, "%s", e->msg);
    for (char *p = m->msg; *p; p++) /* texts of servers and libraries may contain any bytes */
        if (*p < ' ' || *p > '~')
            *p = '?';
    m->redirect_n = leads ? (uint32_t)redirect.n : 0;
    memcpy(m->redirect, redirect.p ? redirect.p : "", m->redirect_n);
    fetcher_fill(&m->head, type, id, END_SIZE + m->redirect_n);
    return m->head.size;
}
