/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/grant_slots.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/plane/plane.h"

struct grant_slot {
    struct control *control;
    struct turn turn;
    struct loop_timer patience; /* for its turn */
    struct control_grant grant;
    char sandbox[ID_MAX];
    char *path;
    struct control_request request; /* to the supervisor … */
    struct control_request *asker;  /* … for this one; NULL: it was answered */
    struct link link;
};

void grant_slots_open(struct control *c)
{
    struct grant_slots *g = c->grants;
    uint64_t share = config_share(0, SUPERVISOR_GRANTS_MAX);
    struct quota_limits running = quota_token_limits(share),
                        waiting = quota_token_limits(share * GRANT_WAITS_FACTOR);

    running.total = SUPERVISOR_GRANTS_MAX;
    running.reserve = SUPERVISOR_GRANTS_MAX / QUOTA_RESERVE_PART;
    turns_init(&g->turns, c->loop);
    quota_init(&g->turns.running, &running, "workspaces being opened", "", "a fixed limit");
    quota_init(&g->turns.waiting, &waiting, "workspaces that wait to be opened", "",
               "a fixed limit");
}

static void drop_grant_fds(struct grant_slot *s)
{
    drop_fd(&s->grant.client);
    drop_fd(&s->grant.handed);
}

static void free_grant_slot(struct grant_slot *s)
{
    loop_timer_stop(&s->patience);
    turns_leave(&s->control->grants->turns, &s->turn);
    drop_grant_fds(s);
    link_leave(&s->link);
    free(s->path);
    free(s);
}

void grant_slots_close(struct control *c)
{
    for (struct link *m; (m = list_first(&c->grants->all));)
        free_grant_slot(container_of(m, struct grant_slot, link));
    turns_done(&c->grants->turns);
}

static void on_grant_answered(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct grant_slot *s = container_of(q, struct grant_slot, request);
    struct control_request *asker = take_ptr(s->asker);

    if (!q->lingers)
        free_grant_slot(s);
    asker->done(asker, r, e, fd);
}

static void on_given_up_grant_ended(struct control_request *q)
{
    free_grant_slot(container_of(q, struct grant_slot, request));
}

static void on_grant_turn(struct turn *t)
{
    struct grant_slot *s = container_of(t, struct grant_slot, turn);
    const struct supervisor *v = &s->control->supervisor;
    int none = -1, r;
    struct err e;

    loop_timer_stop(&s->patience);
    r = v->grant(v->user, &s->grant, &s->request, &e);
    drop_grant_fds(s); /* a duplicate would hide the connection's end from the client */
    if (r < 0)
        on_grant_answered(&s->request, r, &e, &none);
}

static void on_grant_patience(struct loop_timer *t)
{
    struct grant_slot *s = container_of(t, struct grant_slot, patience);
    struct err e;
    int none = -1, r;

    r = err_set(&e, ERR_QUOTA,
                "%s was not opened: the workspaces that this caller has had opened before do not "
                "answer; check their file systems, then try again",
                s->path);
    on_grant_answered(&s->request, r, &e, &none);
}

int grant_slots_check(struct control *c, const struct account *a, struct err *e)
{
    const struct quota_who who = account_holder(a);
    struct quota_hold probe = { 0 };
    int r = quota_take(&c->grants->turns.waiting, &who, 1, &probe, e);

    quota_drop(&probe);
    return r;
}

static int copy_grant_fd(int fd, int *ret, struct err *e)
{
    *ret = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
    return fd >= 0 && *ret < 0 ? err_sys(e, "keeping a client's connection") : 0;
}

static int copy_grant(struct grant_slot *s, const struct control_grant *g, struct err *e)
{
    size_t n = strlen(g->path) + 1;
    int r = copy_grant_fd(g->client, &s->grant.client, e);

    if (r >= 0)
        r = copy_grant_fd(g->handed, &s->grant.handed, e);
    s->path = new0_array(n, 1);
    memcpy(s->path, g->path, n);
    snprintf(s->sandbox, sizeof s->sandbox, "%s", g->sandbox);
    s->grant.path = s->path;
    s->grant.sandbox = s->sandbox;
    return r;
}

int grant_slots_ask(struct control *c, const struct account *a, bool must,
                    const struct control_grant *g, struct control_request *q, struct err *e)
{
    const struct quota_who who = account_holder(a);
    struct grant_slot *s = new0(sizeof *s);
    int r;

    *s = (struct grant_slot){ .control = c, .asker = q, .grant = *g };
    s->grant.client = s->grant.handed = -1;
    s->request =
        (struct control_request){ .done = on_grant_answered, .ended = on_given_up_grant_ended };
    list_append(&c->grants->all, &s->link);
    r = turns_join(&c->grants->turns, &s->turn, &who, must, on_grant_turn, e);
    if (r >= 0)
        r = copy_grant(s, g, e);
    if (r < 0) {
        free_grant_slot(s);
        return r;
    }
    loop_timer_start(c->loop, &s->patience, clock_mono() + c->config->workspaces.patience,
                     on_grant_patience, NULL);
    return 0;
}
