/* Operations that a call waits for: each holds the call until it is told. */
#ifndef API_OPERATION_H
#define API_OPERATION_H

#include "api/call.h"

/* One on the call's sandbox. `done` finds its call by call_of_op(), and gives it up. */
struct sandbox_op *call_sandbox_op(struct call *c, sandbox_op_fn *done);
struct call *call_of_op(struct sandbox_op *op);

/* The end of one that has nothing to show: 204, or why not. The call is given up. */
void call_settle(void *call, int r, const struct err *e);
void call_settle_op(struct sandbox_op *op, int r, const struct err *e); /* of call_sandbox_op() */

/* A sandbox that is being created for a call; on its arena, and released with it. */
struct creation {
    struct call *call;
    struct create_op op;
    struct create_request request;
    bool replaced;                /* the one before it was destroyed for it */
    struct control_client client; /* copies: the client may be gone before they are needed */
};
typedef void creation_fn(struct create_op *op, int r, const struct err *e);
/* Its request is to be filled in. */
struct creation *creation_new(struct call *c, creation_fn *done);
void creation_start(struct creation *n); /* asks the policy first; holds the call */

#endif
