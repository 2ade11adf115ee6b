#include "api/operation.h"

#include <stdlib.h>

#include "api/inside.h"

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

    arena_done(&n->op.arena);
}

struct creation *creation_new(struct call *c, creation_fn *done)
{
    struct creation *n = arena_alloc(&c->own, sizeof *n);

    if (!n)
        abort();
    *n = (struct creation){ .call = c };
    n->op = (struct create_op){
        .caller = &c->caller, .request = &n->request, .body = c->body, .done = done
    };
    c->state = n;
    c->on_end = creation_end;
    return n;
}

void creation_start(struct creation *n)
{
    call_ref(n->call);
    control_create(n->call->api->control, &n->op);
}
