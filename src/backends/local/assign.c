/* How a prepared box gets its owner.
 *
 * The launcher that made it makes its control groups below the owner's and sends them to PID 1, on
 * a socket that the two alone have. PID 1 is told at the same time to wait for them, on the
 * connection that starts come on, too: so it has entered them before it reads the first start. PID
 * 1 alone decides how this ends: it answers when it has entered its groups, and exits when it
 * cannot. A launcher that died may have sent them before. */
#include "base/hook.h"
#include "extensions/local.h"

void local_assign(struct ext_box *ext, const struct ext_owner *o)
{
    struct local_box *b = local_box_of(ext);

    if (!b->prepared)
        return;
    b->prepared = false;
    b->joining = true;
    b->owner = local_owner(o);
    hook_point("assign.begin");
    local_channel_post_ask(b, CONTROL_JOIN, TAG_JOIN);
    local_lane_assign(b);
}

void local_assign_on_joined(struct local_box *b)
{
    if (!b->joining || b->state != BOX_UP)
        return; /* it is being taken down: local_assign_tell_lost() */
    hook_point("assign.joined");
    b->joining = false;
    if (b->ext.events->assigned)
        b->ext.events->assigned(&b->ext, 0, NULL);
    if (b->freed || !b->freeze_waits)
        return;
    b->freeze_waits = false;
    local_freeze(&b->ext);
}

void local_assign_failed(struct local_box *b, const struct err *e)
{
    b->assign_why = *e;
}

void local_assign_tell_lost(struct local_box *b)
{
    struct err e = { 0 };
    int r;

    if (b->freed || !b->joining || b->state == BOX_UP)
        return;
    r = err_set(&e, ERR_UPSTREAM, "the sandbox could not be given to its owner: %.150s",
                b->assign_why.code ? b->assign_why.msg
                : b->r < 0         ? b->why.msg
                                   : "it was taken down");
    b->joining = false;
    if (b->ext.events->assigned)
        b->ext.events->assigned(&b->ext, r, &e);
}
