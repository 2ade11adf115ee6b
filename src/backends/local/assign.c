/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a prepared box its owner.
 *
 * The launcher that made it makes its control groups below the owner's and sends them to PID 1, on
 * a socket between these two. At the same time PID 1 gets a request to wait for them, on the
 * connection that also carries starts: so it has entered the groups before it reads the first
 * start. Only PID 1 decides the result: it answers when it has entered its groups, and exits when
 * it cannot. A launcher that died may have sent them before. */
#include "base/fault_point.h"
#include "backends/local/local.h"

void local_assign(struct backend_box *backend, const struct backend_owner *o)
{
    struct local_box *b = local_box_of(backend);

    if (!b->assign.prepared)
        return;
    b->assign.prepared = false;
    b->assign.joining = true;
    b->assign.owner = local_owner(o);
    fault_point("assign.begin");
    local_channel_post_request(b, CONTROL_JOIN, TAG_JOIN);
    local_lane_ask(b, LAUNCH_ASSIGN);
}

void local_assign_on_joined(struct local_box *b, const union supervisor_message *m,
                            struct ipc_fds *fds)
{
    if (m->head.tag != TAG_JOIN || !b->assign.joining || b->state != BOX_UP)
        return; /* it is being torn down: local_assign_report_lost() */
    fault_point("assign.joined");
    b->assign.joining = false;
    if (b->backend.events->assigned)
        b->backend.events->assigned(&b->backend, 0, NULL);
    if (b->freed || !b->hold.waits)
        return;
    b->hold.waits = false;
    local_freeze(&b->backend);
}

void local_assign_report_lost(struct local_box *b)
{
    struct err e = { 0 };
    int r;

    if (b->freed || !b->assign.joining || b->state == BOX_UP)
        return;
    r = err_set(&e, b->assign.why.code == ERR_FULL ? ERR_FULL : ERR_UPSTREAM,
                "the sandbox could not be assigned to its owner: %.150s",
                b->assign.why.code ? b->assign.why.msg
                : b->r < 0         ? b->why.msg
                                   : "it was torn down");
    b->assign.joining = false;
    if (b->backend.events->assigned)
        b->backend.events->assigned(&b->backend, r, &e);
}
