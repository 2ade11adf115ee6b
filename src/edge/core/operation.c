#include "api/operation.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "api/guard.h"
#include "api/inside.h"
#include "base/own.h"

struct operation {
    struct call *call;
    struct sandbox_op op;
};

static void operation_end(struct call *c)
{
    free(c->state);
}

struct sandbox_op *call_sandbox_op(struct call *c, sandbox_op_fn *done)
{
    struct operation *o = calloc(1, sizeof *o);

    if (!o)
        abort();
    o->call = call_ref(c);
    o->op.done = done;
    c->state = o;
    c->on_end = operation_end;
    return &o->op;
}

struct call *call_of_op(struct sandbox_op *op)
{
    return container_of(op, struct operation, op)->call;
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

void call_settle_op(struct sandbox_op *op, int r, const struct err *e)
{
    call_settle(call_of_op(op), r, e);
}

static void creation_end(struct call *c)
{
    struct creation *n = c->state;

    drop_fd(&n->client.connection);
    drop_fd(&n->client.handed);
    arena_done(&n->op.arena);
}

static int copy_fd(int fd)
{
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* Who asks, for the one who opens a directory of this machine with that user's rights. */
static void take_client(struct creation *n)
{
    const struct json_map *inputs = &n->request.inputs;

    for (size_t i = 0; n->call->x && i < inputs->n; i++)
        if (strcmp(inputs->p[i].key, "repo") == 0 && n->client.connection < 0) {
            n->client.connection = copy_fd(http_connection_fd(n->call->x));
            n->client.handed = copy_fd(http_received_fd(n->call->x));
        }
    n->op.client = &n->client;
}

struct creation *creation_new(struct call *c, creation_fn *done)
{
    struct creation *n = arena_alloc(&c->own, sizeof *n);

    if (!n)
        abort();
    *n = (struct creation){ .call = c, .client = { -1, -1 } };
    n->op = (struct create_op){
        .caller = &c->caller, .request = &n->request, .body = c->body, .done = done
    };
    c->state = n;
    c->on_end = creation_end;
    return n;
}

static void create_now(struct call *c)
{
    struct creation *n = c->state;

    call_ref(c);
    take_client(n);
    control_create(c->api->control, &n->op);
}

void creation_start(struct creation *n)
{
    guard_ask_create(n->call, &n->op, create_now);
}
