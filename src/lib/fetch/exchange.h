/* SPDX-License-Identifier: Apache-2.0 */
/* Private to fetch: one request on its way, as libcurl sees it. */
#ifndef LIB_FETCH_EXCHANGE_H
#define LIB_FETCH_EXCHANGE_H

#include <curl/curl.h>

#include "base/buf.h"
#include "lib/fetch/fetch.h"

struct fetch_exchange_ {
    struct fetch *fetch;
    struct fetch_request *request;
    CURL *easy;
    CURLU *url;
    struct curl_slist *headers;
    char origin[280]; /* scheme, host and port, for messages: paths may carry tokens */
    struct buf body;
    size_t head_bytes, head_lines;
    struct fetch_header *got; /* headers of the answer, after the first request for them */
    size_t got_count;
    struct err own; /* why we ended it ourselves */
    char text[CURL_ERROR_SIZE];
    struct link link;
};

/* Checks the request and prepares the handle; nothing is sent yet. */
int fetch_exchange_new(struct fetch_request *r, struct fetch_exchange_ **ret, struct err *e);
void fetch_exchange_free(struct fetch_exchange_ *x);

/* The result for the request's owner; borrowed from the exchange. */
struct fetch_answer fetch_exchange_answer(struct fetch_exchange_ *x, CURLcode code);

#endif
