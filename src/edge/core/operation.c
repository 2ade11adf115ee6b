/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/operation.h"

#include <fcntl.h>
#include <string.h>

#include "edge/core/answers.h"
#include "edge/core/guard.h"
#include "edge/core/internal.h"
#include "base/own.h"

struct call_operation {
    struct call *call;
    struct sandbox_op op;
};

struct sandbox_op *call_sandbox_op(struct call *c, sandbox_op_fn *done)
{
    struct call_operation *o = call_state(c, sizeof *o, NULL);

    o->call = call_ref(c);
    o->op.done = done;
    return &o->op;
}

struct call *call_of_op(struct sandbox_op *op)
{
    return container_of(op, struct call_operation, op)->call;
}

void call_settle(void *call, int r, const struct err *e)
{
    struct call *c = call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer_empty(c);
    call_unref(c);
}

void call_settle_with(struct call *c, int r, const struct err *e, int status, call_write_fn *write,
                      const void *what)
{
    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, status, write, what);
    call_unref(c);
}

void call_settle_as(struct call *c, int r, const struct err *e, int status,
                    const struct json_shape *s, const void *in)
{
    if (r < 0)
        call_fail(c, e);
    else
        call_answer_as(c, status, s, in);
    call_unref(c);
}

void call_settle_op(struct sandbox_op *op, int r, const struct err *e)
{
    call_settle(call_of_op(op), r, e);
}

struct store_answer {
    struct store_listing listing;
    const struct json_shape *shape;
};

static void on_listing_answered(struct store_query *q, int r, const struct err *e)
{
    struct store_answer *a = container_of(q, struct store_answer, listing.query);

    call_settle_as(a->listing.call, r, e, 200, a->shape, &a->listing);
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

static int copy_client_fd(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static bool names_host_files(const struct create_request *q)
{
    for (size_t i = 0; i < q->inputs.n; i++)
        if (strcmp(q->inputs.p[i].key, "repo") == 0)
            return true;
    return q->mounts.n;
}

void client_init(struct call *c, struct control_client *client)
{
    *client = (struct control_client){ -1, -1 };
    call_own_fd(c, &client->connection);
    call_own_fd(c, &client->handed);
}

void client_copy(struct call *c, const struct create_request *q, struct control_client *client)
{
    if (!c->x || !names_host_files(q) || client->connection >= 0)
        return;
    client->connection = copy_client_fd(http_connection_fd(c->x));
    client->handed = copy_client_fd(http_received_fd(c->x));
}

void *creation_new(struct call *c, size_t size, creation_fn *done)
{
    struct creation *n = call_state(c, size, NULL);

    n->call = c;
    n->op = (struct create_op){
        .caller = &c->caller, .request = &n->request, .body = c->body, .done = done
    };
    call_own_arena(c, &n->op.arena, 0); /* control sets its limit */
    client_init(c, &n->client);
    return n;
}

static void start_allowed_creation(struct call *c)
{
    struct creation *n = c->state;

    call_ref(c);
    client_copy(c, &n->request, &n->client);
    n->op.client = &n->client;
    control_create(c->api->control, &n->op);
}

void creation_start(struct creation *n)
{
    guard_request_create(n->call, &n->op, start_allowed_creation);
}
