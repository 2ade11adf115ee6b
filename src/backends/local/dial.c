/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the ports of a box: PID 1 makes the sockets, inside, and passes them out. */
#include "base/own.h"
#include "backends/fault.h"
#include "backends/local/local.h"

void local_dial(struct backend_box *backend, struct backend_dial *d, uint16_t port, int family)
{
    struct local_box *b = local_box_of(backend);
    struct control_dial m = { .port = port, .family = (uint16_t)family };

    d->box = backend;
    if (!local_is_reachable(b) || b->dials.n_pending == LOCAL_DIALS_MAX) {
        list_append(&b->dials.lost, &d->link_);
        local_report_later(b);
        return;
    }
    /* Tags are reused long after their answers arrived. */
    b->dials.last = (b->dials.last + 1) % TAG_DIAL_COUNT;
    d->tag_ = (TAG_DIAL_FIRST + b->dials.last) << TAG_SLOT_BITS;
    list_append(&b->dials.pending, &d->link_);
    b->dials.n_pending++;
    control_fill(&m.head, CONTROL_DIAL, d->tag_, sizeof m);
    local_channel_post(b, &m, sizeof m);
}

/* Forgets a request: its answer will be dropped, and the socket closed. */
static void forget_dial(struct local_box *b, struct backend_dial *d)
{
    link_leave(&d->link_);
    d->box = NULL;
    b->dials.n_pending -= d->tag_ != 0;
    d->tag_ = 0;
}

void local_dial_drop(struct backend_dial *d)
{
    if (d->box)
        forget_dial(local_box_of(d->box), d);
}

static struct backend_dial *find_dial(struct local_box *b, uint32_t tag)
{
    LIST_EACH (struct backend_dial, d, &b->dials.pending, link_) {
        if (d->tag_ == tag)
            return d;
    }
    return NULL;
}

void local_dial_on_dialled(struct local_box *b, const union supervisor_message *m,
                           struct ipc_fds *fds)
{
    struct backend_dial *d = find_dial(b, m->head.tag);

    if (!d)
        return;
    forget_dial(b, d);
    fds->n = 0; /* accept_socket() has checked that there is one */
    d->done(d, 0, NULL, fds->fd[0]);
}

bool local_dial_on_failed(struct local_box *b, const struct control_failed *m)
{
    struct backend_dial *d = find_dial(b, m->head.tag);
    struct err e;

    if (!d)
        return false;
    forget_dial(b, d);
    (void)err_set(&e, m->sys ? backend_fault_code(m->sys) : ERR_UPSTREAM, "%.199s", m->msg);
    e.sys = m->sys;
    d->done(d, -(int)e.code, &e, -1);
    return true;
}

void local_dial_lose_all(struct local_box *b)
{
    LIST_EACH (struct backend_dial, d, &b->dials.pending, link_)
        d->tag_ = 0;
    list_move(&b->dials.pending, &b->dials.lost);
    b->dials.n_pending = 0;
}

void local_dial_report_lost(struct local_box *b)
{
    struct link *m;

    while (!b->freed && (m = list_first(&b->dials.lost))) {
        struct backend_dial *d = container_of(m, struct backend_dial, link_);
        struct err e;
        int r = b->state == BOX_UP
                    ? err_set(&e, ERR_BUSY,
                              "%d connections to the sandbox are already pending; try again",
                              LOCAL_DIALS_MAX)
                    : err_set(&e, ERR_CONFLICT, "sandbox %s is not running", b->backend.id);

        forget_dial(b, d);
        d->done(d, r, &e, -1);
    }
}

void local_dial_done(struct local_box *b)
{
    local_dial_lose_all(b);
    for (struct link *m; (m = list_first(&b->dials.lost));)
        forget_dial(b, container_of(m, struct backend_dial, link_));
}
