/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that a call waits for: each holds a reference to the call until it completes. */
#ifndef EDGE_CORE_OPERATION_H
#define EDGE_CORE_OPERATION_H

#include "edge/core/call.h"
#include "domain/store/store.h"

struct json_shape;

/* Allocates an operation on the call's sandbox. `done` gets its call with call_of_op() and must
 * release it. */
struct sandbox_op *call_sandbox_op(struct call *c, sandbox_op_fn *done);
struct call *call_of_op(struct sandbox_op *op);

/* Completes an operation without a result: answers 204 or the error, and releases the call. */
void call_settle(void *call, int r, const struct err *e);
/* The same with an answer, by a function or by its shape. */
void call_settle_with(struct call *c, int r, const struct err *e, int status, call_write_fn *write,
                      const void *what);
void call_settle_as(struct call *c, int r, const struct err *e, int status,
                    const struct json_shape *s, const void *in);
void call_settle_op(struct sandbox_op *op, int r, const struct err *e); /* for call_sandbox_op() */

struct store_listing {
    struct call *call;
    struct store_query query; /* completed */
};
/* Runs the query and answers with the struct store_listing, as its shape describes it. `bytes`
 * limits the memory for rows. */
void call_list(struct call *c, const struct store_query *q, size_t bytes,
               const struct json_shape *shape);

/* Copies of the client's descriptors, for the process that opens host files with the rights of that
 * user; owned by the call. client_copy() makes them if the request names such files. */
void client_init(struct call *c, struct control_client *client);
void client_copy(struct call *c, const struct create_request *q, struct control_client *client);

/* The creation of a sandbox for a call. */
struct creation {
    struct call *call;
    struct create_op op;
    struct create_request request;
    bool replaced;                /* the previous sandbox was destroyed for this one */
    struct control_client client; /* copies: the client may disconnect before they are used */
};
typedef void creation_fn(struct create_op *op, int r, const struct err *e);
/* Allocates the call's state, whose first member is a creation. The caller fills in its request. */
void *creation_new(struct call *c, size_t size, creation_fn *done);
void creation_start(struct creation *n); /* requests a verdict first; holds the call */

#endif
