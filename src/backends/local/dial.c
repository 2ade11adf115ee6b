/* Connections to the ports of a box: PID 1 makes the sockets, inside, and hands them out. */
#include "base/own.h"
#include "extensions/fault.h"
#include "extensions/local.h"

/* Tags come round again, long after what had them was answered. */
static uint32_t next_tag(struct dials *d)
{
    d->last = (d->last + 1) % TAG_DIAL_COUNT;
    return (TAG_DIAL_FIRST + d->last) << TAG_SLOT_BITS;
}

void local_dial(struct ext_box *ext, struct ext_dial *d, uint16_t port, int family)
{
    struct local_box *b = local_box_of(ext);
    struct control_dial m = { .port = port, .family = (uint16_t)family };

    d->box = ext;
    if (b->state != BOX_UP || !local_channel_is_open(b) || b->dials.n_asked == LOCAL_DIALS_MAX) {
        list_append(&b->dials.lost, &d->link_);
        local_soon(b);
        return;
    }
    d->tag_ = next_tag(&b->dials);
    list_append(&b->dials.asked, &d->link_);
    b->dials.n_asked++;
    control_fill(&m.head, CONTROL_DIAL, d->tag_, sizeof m);
    local_channel_post(b, &m, sizeof m);
}

/* Its answer will find nobody, and the socket with it is closed. */
static void forget(struct local_box *b, struct ext_dial *d)
{
    link_leave(&d->link_);
    d->box = NULL;
    b->dials.n_asked -= d->tag_ != 0;
    d->tag_ = 0;
}

void local_dial_drop(struct ext_dial *d)
{
    if (d->box)
        forget(local_box_of(d->box), d);
}

static struct ext_dial *find(struct local_box *b, uint32_t tag)
{
    struct list *asked = &b->dials.asked;

    for (struct link *m = list_first(asked); m; m = list_after(asked, m))
        if (container_of(m, struct ext_dial, link_)->tag_ == tag)
            return container_of(m, struct ext_dial, link_);
    return NULL;
}

void local_dial_on_dialled(struct local_box *b, const struct control_head *m, struct ipc_fds *fds)
{
    struct ext_dial *d = find(b, m->tag);

    if (!d)
        return;
    forget(b, d);
    fds->n = 0; /* accept_socket() has seen to it that it was one */
    d->done(d, 0, NULL, fds->fd[0]);
}

bool local_dial_on_failed(struct local_box *b, const struct control_failed *m)
{
    struct ext_dial *d = find(b, m->head.tag);
    struct err e;

    if (!d)
        return false;
    forget(b, d);
    (void)err_set(&e, m->sys ? ext_fault_code(m->sys) : ERR_UPSTREAM, "%.199s", m->msg);
    e.sys = m->sys;
    d->done(d, -(int)e.code, &e, -1);
    return true;
}

void local_dial_lose_all(struct local_box *b)
{
    for (struct link *m; (m = list_take(&b->dials.asked));) {
        container_of(m, struct ext_dial, link_)->tag_ = 0;
        list_append(&b->dials.lost, m);
    }
    b->dials.n_asked = 0;
}

void local_dial_tell_lost(struct local_box *b)
{
    struct link *m;

    while (!b->freed && (m = list_first(&b->dials.lost))) {
        struct ext_dial *d = container_of(m, struct ext_dial, link_);
        struct err e;
        int r = b->state == BOX_UP ? err_set(&e, ERR_BUSY, "%d connections are being made already",
                                             LOCAL_DIALS_MAX)
                                   : err_set(&e, ERR_CONFLICT, "the sandbox is not running");

        forget(b, d);
        d->done(d, r, &e, -1);
    }
}

void local_dial_done(struct local_box *b)
{
    local_dial_lose_all(b);
    for (struct link *m; (m = list_first(&b->dials.lost));)
        forget(b, container_of(m, struct ext_dial, link_));
}
