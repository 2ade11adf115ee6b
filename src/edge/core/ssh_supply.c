/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/ssh_supply.h"

#include <stdlib.h>

#include "edge/core/internal.h"
#include "base/own.h"
#include "lib/loop/list.h"
#include "lib/threads/threads.h"

struct ssh_supply {
    struct ssh_kit *kit; /* NULL: not read yet */
    struct list orders;
    bool busy;   /* the thread pool owns the job and all fields below */
    bool orphan; /* free after the job ends */
    struct thread_job job;
    struct ssh_kit *checked, *made;
    int r;
    struct err err;
};

/* On a thread: checks the files, and reads them if they have changed. */
static void check_ssh_kit(struct thread_job *j)
{
    struct ssh_supply *s = container_of(j, struct ssh_supply, job);

    s->made = NULL;
    s->r = s->checked && ssh_kit_fresh(s->checked) ? 0 : ssh_kit_make(&s->made, &s->err);
}

static void complete_ssh_orders(struct ssh_supply *s)
{
    struct list now = { 0 };

    list_move(&s->orders, &now);
    for (struct link *m; (m = list_take(&now));) {
        struct ssh_order *o = container_of(m, struct ssh_order, link_);

        o->done(o, s->r, s->r < 0 ? &s->err : NULL, s->r < 0 ? NULL : s->kit);
    }
}

static void on_ssh_kit_checked(struct thread_job *j, enum work_end end)
{
    struct ssh_supply *s = container_of(j, struct ssh_supply, job);

    s->busy = false;
    if (end == THREAD_RAN && s->made) {
        ssh_kit_free(s->kit);
        s->kit = take_ptr(s->made);
    } else if (end != THREAD_RAN) {
        s->r = err_set(&s->err, ERR_BUSY, "the daemon is stopping");
    }
    if (s->orphan)
        ssh_supply_free(s);
    else
        complete_ssh_orders(s);
}

void ssh_supply_order(struct api *a, struct ssh_order *o)
{
    struct ssh_supply *s = a->ssh ? a->ssh : new0(sizeof *s);

    a->ssh = s;
    list_append(&s->orders, &o->link_);
    if (s->busy)
        return;
    s->checked = s->kit;
    s->r = thread_submit(control_work(a->control), &s->job, NULL, check_ssh_kit, on_ssh_kit_checked,
                         &s->err);
    if (s->r < 0)
        complete_ssh_orders(s);
    else
        s->busy = true;
}

void ssh_supply_free(struct ssh_supply *s)
{
    if (!s)
        return;
    if (s->busy) {
        s->orphan = true;
        return;
    }
    ssh_kit_free(s->kit);
    free(s);
}
