/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/fetcher/wire.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"

static struct err e;

static void on_done(struct fetch_request *r, const struct fetch_answer *a)
{
}

TEST(a_request_arrives_as_it_was_sent)
{
    static const struct fetch_header sent[] = { { STR("Accept"), STR("*/*") },
                                                { STR("Authorization"), STR("Basic eDp5") } };
    static const struct address declared = { .bytes = { 10, 1, 2, 3 } };
    static struct fetch_header headers[FETCH_HEADERS_MAX];
    static struct address addresses[FETCH_ADDRESSES_MAX];
    const struct fetch_request r = { .method = FETCH_POST,
                                     .url = "https://hub.example/events",
                                     .headers = sent,
                                     .header_count = COUNT_OF(sent),
                                     .body = STR("{}"),
                                     .timeout = 7 * NS_PER_S,
                                     .silence = NS_PER_S,
                                     .max_body = 1234,
                                     .reach = FETCH_REACH_ANY,
                                     .addresses = &declared,
                                     .address_count = 1,
                                     .done = on_done };
    AUTO(buf_done) struct buf details = BUF_INIT(1 << 20);
    struct fetcher_request m;
    struct fetch_request got;
    struct str url;

    CHECK_OK(fetcher_write_details(&r, &m, &details, &e), e);
    fetcher_fill(&m.head, FETCHER_REQUEST, 5, sizeof m);
    CHECK_OK(fetcher_check(&m, sizeof m, FETCHER_TO_PROCESS, &e), e);
    CHECK_INT(fetcher_details_size(&m), details.n);
    CHECK_OK(fetcher_read_details(&m, buf_str(&details), headers, addresses, &url, &got, &e), e);
    CHECK_STR(url, r.url);
    CHECK_INT(got.method, FETCH_POST);
    CHECK_INT(got.reach, FETCH_REACH_ANY);
    CHECK_INT(got.timeout, r.timeout);
    CHECK_INT(got.silence, r.silence);
    CHECK_INT(got.max_body, 1234);
    CHECK_STR(got.body, "{}");
    CHECK_INT(got.header_count, 2);
    CHECK_STR(got.headers[1].name, "Authorization");
    CHECK_STR(got.headers[1].value, "Basic eDp5");
    CHECK_INT(got.address_count, 1);
    CHECK(address_equal(&got.addresses[0], &declared));
}

TEST(an_answer_arrives_without_what_would_be_refused)
{
    static const struct fetch_header sent[] = { { STR("X-One"), STR("1") },
                                                { STR("X Two"), STR("2") },
                                                { STR("X-Three"), { "a\nb", 3 } },
                                                { STR("Location"), STR("/here") } };
    const struct fetch_answer a = { .status = 302,
                                    .headers = sent,
                                    .header_count = COUNT_OF(sent) };
    AUTO(buf_done) struct buf out = BUF_INIT(FETCHER_ANSWER_MAX);
    static struct fetch_header headers[FETCH_HEADERS_MAX];
    struct fetcher_end end;
    struct fetch_answer got;

    CHECK_INT(fetcher_write_answer(&a, 9, &out), 0);
    CHECK_OK(fetcher_check(out.p, out.n, FETCHER_FROM_PROCESS, &e), e);
    fetcher_read_answer((const struct fetcher_answer *)(const void *)out.p, headers, &got);
    CHECK_INT(got.status, 302);
    CHECK_INT(got.header_count, 2);
    CHECK_STR(fetch_answer_header(&got, "location"), "/here");
    (void)fetcher_write_end(&end, FETCHER_END, 9, &(struct err){ 0 }, STR("http://x/ y"));
    CHECK_INT(end.redirect_n, 0);
    (void)fetcher_write_end(&end, FETCHER_END, 9, &(struct err){ 0 }, STR("http://x/y"));
    CHECK_OK(fetcher_check(&end, end.head.size, FETCHER_FROM_PROCESS, &e), e);
    CHECK_INT(end.redirect_n, 10);
}

TEST(messages_that_are_refused)
{
    union {
        struct fetcher_head head;
        struct fetcher_request request;
        struct fetcher_answer answer;
        struct fetcher_end end;
        struct fetcher_credit credit;
        char room[16 << 10];
    } m = { .room = { 0 } };

#define END_SIZE offsetof(struct fetcher_end, redirect)
#define REFUSED(n, side)                                                                           \
    do {                                                                                           \
        CHECK(fetcher_check(&m, (n), (side), &e) < 0);                                             \
        memset(&m, 0, sizeof m);                                                                   \
    } while (0)
    REFUSED(0, FETCHER_FROM_PROCESS);
    REFUSED(sizeof m.head, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_PONG, 1, sizeof m.head);
    CHECK_OK(fetcher_check(&m, sizeof m.head, FETCHER_FROM_PROCESS, &e), e);
    REFUSED(sizeof m.head, FETCHER_TO_PROCESS); /* not in that direction */
    fetcher_fill(&m.head, FETCHER_PONG, 1, sizeof m.head);
    m.head.version++;
    REFUSED(sizeof m.head, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_PONG, 1, sizeof m.head + 1);
    REFUSED(sizeof m.head + 1, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, 99, 1, sizeof m.head);
    REFUSED(sizeof m.head, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_PIECE, 1, sizeof m.head); /* empty */
    REFUSED(sizeof m.head, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_ANSWER, 1, sizeof m.answer);
    m.answer.status = 99;
    REFUSED(sizeof m.answer, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_ANSWER, 1, sizeof m.answer);
    m.answer.status = 200;
    m.answer.headers_n = 8; /* that are not there */
    REFUSED(sizeof m.answer, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_ANSWER, 1, sizeof m.answer + 8);
    m.answer.status = 200;
    m.answer.headers_n = 8;
    m.answer.header_count = 1; /* without a name */
    REFUSED(sizeof m.answer + 8, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_END, 1, END_SIZE);
    m.end.code = ERR_QUOTA; /* not a server's to say */
    REFUSED(END_SIZE, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_END, 1, END_SIZE);
    m.end.code = ERR_UPSTREAM;
    memset(m.end.msg, 'x', sizeof m.end.msg); /* does not end */
    REFUSED(END_SIZE, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_END, 1, END_SIZE);
    m.end.msg[0] = '\n';
    REFUSED(END_SIZE, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_END, 1, END_SIZE + 4); /* leads somewhere, and failed */
    m.end.code = ERR_UPSTREAM;
    m.end.redirect_n = 4;
    memcpy(m.end.redirect, "http", 4);
    REFUSED(END_SIZE + 4, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_FAILED, 0, END_SIZE); /* without a reason */
    REFUSED(END_SIZE, FETCHER_FROM_PROCESS);
    fetcher_fill(&m.head, FETCHER_CREDIT, 1, sizeof m.credit);
    m.credit.bytes = FETCHER_WINDOW + 1;
    REFUSED(sizeof m.credit, FETCHER_TO_PROCESS);
    fetcher_fill(&m.head, FETCHER_REQUEST, 1, sizeof m.request); /* without URL and timeout */
    REFUSED(sizeof m.request, FETCHER_TO_PROCESS);
}

TEST(details_that_are_refused)
{
    static struct fetch_header headers[FETCH_HEADERS_MAX];
    static struct address addresses[FETCH_ADDRESSES_MAX];
    struct fetcher_request m = { .url_n = 4, .headers_n = 8, .header_count = 1, .timeout = 1 };
    const struct fetcher_field too_long = { 3, UINT32_MAX };
    char details[12] = "http";
    struct fetch_request got;
    struct str url;

    memcpy(details + 4, &too_long, sizeof too_long);
    CHECK_INT(fetcher_read_details(&m, (struct str){ details, sizeof details }, headers, addresses,
                                   &url, &got, &e),
              -ERR_INVALID);
    CHECK_INT(fetcher_read_details(&m, (struct str){ details, sizeof details - 1 }, headers,
                                   addresses, &url, &got, &e),
              -ERR_INVALID);
    details[1] = 0;
    m.headers_n = m.header_count = 0;
    CHECK_INT(
        fetcher_read_details(&m, (struct str){ details, 4 }, headers, addresses, &url, &got, &e),
        -ERR_INVALID);
}
