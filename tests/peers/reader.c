/* SPDX-License-Identifier: Apache-2.0 */
/* Reads streams of HTTP/1.1 requests as a proxy of ours does, and says what is in them; with an
 * argument, the answers to a GET. On stdin each is four bytes of length, the least first, and its
 * bytes; on stdout it is a line of JSON: the messages that were taken whole, and how it ended. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/http/body.h"
#include "lib/http/h1.h"
#include "domain/policy/path.h"

enum { STREAM_MAX = 1 << 20, HTTP_PORT = 80 };

static const struct h1_limits limits = { H1_HEAD_MAX, H1_TARGET_MAX, H1_FIELDS_MAX };

/* What stands behind a request for policy to refuse, and is no question of grammar. */
static bool has_odd_path(const struct h1_request *q)
{
    struct path_text text;
    struct str path, query = str_cut(q->path, '?', &path);

    if (q->form != H1_ORIGIN && q->form != H1_ABSOLUTE)
        return false;
    return q->path.n > 0 && (path_read(path, 0, true, &text) || query.n > PATH_QUERY_MAX);
}

static bool has_two_hosts(const struct h1_request *q)
{
    return (q->form == H1_ABSOLUTE || q->form == H1_AUTHORITY) && q->host.name.n > 0 &&
           !h1_host_same(q->to, q->host, HTTP_PORT);
}

/* Who looks for the letters alone takes `disclose` for an end of the connection. */
static bool is_like_close(const struct h1_request *q)
{
    for (size_t i = 0; i < q->head.n; i++)
        for (struct str v = q->head.fields[i].value;
             h1_same(q->head.fields[i].name, STR("connection")) && v.n >= STR("close").n;
             v = (struct str){ v.p + 1, v.n - 1 })
            if (h1_same((struct str){ v.p, STR("close").n }, STR("close")))
                return true;
    return false;
}

/* Methods and targets hold nothing that JSON would escape: see the classes of bytes in h1.c. */
static void print_request(const struct h1_request *q, uint64_t body, bool first)
{
    printf("%s{\"method\":\"" STR_FMT "\",\"target\":\"" STR_FMT "\",\"path\":\"" STR_FMT
           "\",\"form\":%d,\"minor\":%d,\"body\":%llu,",
           first ? "" : ",", STR_ARG(q->method_text), STR_ARG(q->target), STR_ARG(q->path),
           (int)q->form, q->head.minor, (unsigned long long)body);
    printf("\"odd_path\":%d,\"two_hosts\":%d,\"upgrade\":%d,\"like_close\":%d}", has_odd_path(q),
           has_two_hosts(q), h1_find(&q->head, STR("upgrade")) != NULL, is_like_close(q));
}

/* 1: the body is whole, 0: more must come, or an error. */
static int read_body(const struct h1_head *h, struct str *in, uint64_t *ret_n)
{
    struct body b;
    struct str data;
    int r;

    body_start(&b, h->framing, h->length);
    do
        r = body_next(&b, in, &data, NULL);
    while (r == BODY_DATA);
    *ret_n = b.seen;
    return r < 0 ? r : r == BODY_END || h->framing == H1_UNTIL_CLOSE;
}

/* How it ends; NULL: another request follows. */
static const char *read_one(struct str *in, bool first)
{
    static struct h1_request q;
    uint64_t body = 0;
    int status = 0, r;

    r = h1_parse_request(&(struct h1_scan){ 0 }, *in, &limits, &q, &status, NULL);
    if (r <= 0)
        return r < 0 ? "bad" : in->n > 0 ? "cut" : "end";
    *in = (struct str){ in->p + r, in->n - (size_t)r };
    if (q.method == H1_CONNECT || q.head.upgrade) {
        print_request(&q, 0, first);
        return "tunnel";
    }
    r = read_body(&q.head, in, &body);
    if (r <= 0)
        return r < 0 ? "bad_body" : "cut_body";
    print_request(&q, body, first);
    return q.head.keep_alive ? NULL : "closed";
}

static void read_stream(struct str in)
{
    const char *end = NULL;

    printf("{\"requests\":[");
    for (bool first = true; !end; first = false)
        end = read_one(&in, first);
    printf("],\"end\":\"%s\"}\n", end);
    fflush(stdout);
}

/* Interim answers come before the one that counts. */
static void read_answer(struct str in)
{
    static struct h1_response p;
    uint64_t body = 0;
    int r;

    do {
        r = h1_parse_response(&(struct h1_scan){ 0 }, in, &limits, H1_GET, &p, NULL);
        if (r > 0)
            in = (struct str){ in.p + r, in.n - (size_t)r };
    } while (r > 0 && p.status / 100 == 1 && p.status != 101);
    if (r > 0)
        r = read_body(&p.head, &in, &body);
    printf("{\"taken\":%d,\"status\":%d,\"body\":%llu}\n", r > 0, r > 0 ? p.status : 0,
           (unsigned long long)body);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    unsigned char n[4];

    while (fread(n, 1, sizeof n, stdin) == sizeof n) {
        size_t size = (size_t)n[0] | (size_t)n[1] << 8 | (size_t)n[2] << 16 | (size_t)n[3] << 24;
        char *data;

        if (size > STREAM_MAX)
            return 2;
        data = malloc(size ? size : 1); /* exact, so that a sanitizer sees one byte too far */
        if (!data || fread(data, 1, size, stdin) != size)
            return 2;
        if (argc > 1)
            read_answer((struct str){ data, size });
        else
            read_stream((struct str){ data, size });
        free(data);
    }
    return 0;
}
