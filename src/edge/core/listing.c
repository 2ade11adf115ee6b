/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/listing.h"

#include "base/own.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"

struct store_answer {
    struct store_listing listing;
    const struct json_shape *shape;
};

static void on_listing_answered(struct store_query *q, int r, const struct err *e)
{
    struct store_listing *l = container_of(q, struct store_listing, query);
    struct store_answer *a = container_of(l, struct store_answer, listing);
    struct call *c = l->call;

    call_settle_as(c, r, e, 200, a->shape, l);
}

void call_list(struct call *c, const struct store_query *q, size_t bytes,
               const struct json_shape *shape)
{
    struct store_answer *a = call_state(c, sizeof *a, NULL);
    struct err e;

    a->listing = (struct store_listing){ .call = c, .query = *q };
    a->shape = shape;
    call_own_arena(c, &a->listing.query.arena, bytes);
    if (store_ask(control_store(c->api->control), &a->listing.query, on_listing_answered, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}
