/* A request that is answered with what the store has. */
#ifndef API_LISTING_H
#define API_LISTING_H

#include "api/call.h"
#include "store/store.h"

struct listing {
    struct call *call;
    struct store_query query; /* answered */
};

/* Asks, and answers with what `write` makes of the listing. At most so many bytes are read. */
void call_list(struct call *c, const struct store_query *q, size_t bytes, call_write_fn *write);

#endif
