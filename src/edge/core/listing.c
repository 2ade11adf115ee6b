#include "api/listing.h"

#include <stdlib.h>

#include "api/inside.h"

struct asked {
    struct listing listing;
    call_write_fn *write;
};

static void asked_end(struct call *c)
{
    struct asked *a = c->state;

    arena_done(&a->listing.query.arena);
    free(a);
}

static void answered(struct store_query *q, int r, const struct err *e)
{
    struct listing *l = container_of(q, struct listing, query);
    struct asked *a = container_of(l, struct asked, listing);
    struct call *c = l->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, a->write, l);
    call_unref(c);
}

void call_list(struct call *c, const struct store_query *q, size_t bytes, call_write_fn *write)
{
    struct asked *a = calloc(1, sizeof *a);
    struct err e;

    if (!a)
        abort();
    a->listing = (struct listing){ .call = c, .query = *q };
    a->write = write;
    arena_init(&a->listing.query.arena, bytes);
    c->state = a;
    c->on_end = asked_end;
    if (store_ask(control_store(c->api->control), &a->listing.query, answered, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}
