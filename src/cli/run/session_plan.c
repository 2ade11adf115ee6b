/* SPDX-License-Identifier: Apache-2.0 */
/* A session before it runs: its launcher, and the plan of its sandbox. */
#include "cli/run/session.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/own.h"

int session_init(struct session *s, struct err *e)
{
    int r;

    *s = (struct session){
        .control = -1, .feed = -1, .layer = -1, .userns = -1, .launcher = { .sock = -1 }
    };
    r = launcher_start(&s->launcher, e);
    if (r >= 0)
        r = plan_init(&s->plan, e);
    s->plan.flags = PLAN_EPHEMERAL | PLAN_ONE_SHOT;
    return r;
}

void session_done(struct session *s)
{
    for (uint32_t i = 0; i < s->plan.n_layers + s->plan.n_mounts; i++)
        drop_fd(&s->fds[i]);
    drop_fd(&s->control);
    drop_fd(&s->layer);
    drop_fd(&s->userns);
    if (s->network)
        network_done(s->network);
    launcher_leave(&s->launcher);
}

int session_add_layer(struct session *s, int dir, struct err *e)
{
    if (s->plan.n_layers == PLAN_LAYERS_MAX || s->plan.n_mounts)
        return err_set(e, ERR_BUG,
                       "internal error: layer %u of at most %d, or a layer after a mount",
                       (unsigned)s->plan.n_layers + 1, PLAN_LAYERS_MAX);
    s->fds[s->plan.n_layers++] = dir;
    return 0;
}

int session_add_mount(struct session *s, const char *source, const char *target, bool writable,
                      struct err *e)
{
    struct plan_mount *m = &s->plan.mounts[s->plan.n_mounts];
    int fd, r = plan_check_target(target, e);

    if (r < 0)
        return r;
    if (s->plan.n_mounts == PLAN_MOUNTS_MAX)
        return err_set(e, ERR_TOO_BIG, "more than %d mounts", PLAN_MOUNTS_MAX);
    fd = open(source, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "mount source '%s'", source);
    snprintf(m->target, sizeof m->target, "%s", target);
    m->flags = writable ? PLAN_MOUNT_RW : 0;
    s->fds[s->plan.n_layers + s->plan.n_mounts++] = fd;
    return 0;
}
