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

/* Runs the query and answers with the listing, as its shape describes it. `bytes` limits the memory
 * for rows. */
void call_list(struct call *c, const struct store_query *q, size_t bytes,
               const struct json_shape *shape);

#endif
