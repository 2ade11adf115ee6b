/* SPDX-License-Identifier: Apache-2.0 */
/* Answers a request from a store query. */
#ifndef EDGE_CORE_LISTING_H
#define EDGE_CORE_LISTING_H

#include "edge/core/call.h"
#include "domain/store/store.h"

struct store_listing {
    struct call *call;
    struct store_query query; /* completed */
};

/* Runs the query and answers with the JSON that `write` makes of the listing. `bytes` limits the
 * memory for rows. */
void call_list(struct call *c, const struct store_query *q, size_t bytes, call_write_fn *write);

#endif
