/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/copy_slots.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "control/plane/plane.h"

void copy_slots_open(struct control *c)
{
    uint64_t total = c->config->limits.workspace_copies,
             share = config_share(c->config->limits.workspace_copies_per_owner, total);
    struct quota_limits running = quota_token_limits(share),
                        waiting = quota_token_limits(share * COPY_WAITS_FACTOR);
    const struct quota_limits none = { 0 };

    running.total = total;
    running.reserve = total / QUOTA_RESERVE_PART;
    turns_init(&c->copies->turns, c->loop);
    quota_init(&c->copies->turns.running, &running, "copies of workspaces",
               "limits.workspace_copies", "limits.workspace_copies_per_owner");
    quota_init(&c->copies->turns.waiting, &waiting, "copies of workspaces that wait", "",
               "16 times limits.workspace_copies_per_owner");
    quota_init(&c->copies->stuck, &none, "copies of workspaces that hang", "", "");
}

void copy_slots_close(struct control *c)
{
    turns_done(&c->copies->turns);
    quota_done(&c->copies->stuck);
}

int copy_slots_check(struct control *c, const struct account *a, struct err *e)
{
    const struct quota_who who = account_holder(a);
    struct quota_hold probe = { 0 };
    int r = quota_take(&c->copies->turns.waiting, &who, 1, &probe, e);

    quota_drop(&probe);
    return r;
}

int copy_slot_new(struct control *c, const struct account *a, bool must, turn_fn *start, void *user,
                  struct copy_slot **ret, struct err *e)
{
    const struct quota_who who = account_holder(a);
    struct copy_slot *s = new0(sizeof *s);
    int r;

    *s = (struct copy_slot){ .control = c, .report = -1, .user = user };
    r = turns_join(&c->copies->turns, &s->turn, &who, must, start, e);
    if (r < 0)
        free(s);
    else
        *ret = s;
    return r;
}

static bool are_all_stuck(const struct copy_slots *slots, const struct quota_share *whose)
{
    struct str key = str_from(whose->key);
    uint64_t used = quota_used(&slots->turns.running, key);

    return used && used == quota_used(&slots->stuck, key);
}

bool copy_slot_hangs(const struct copy_slot *s)
{
    const struct copy_slots *slots = s->control->copies;
    const struct quota_hold *h = &s->turn.waits_;

    if (!turn_waits(&s->turn))
        return false;
    return slots->stuck.used == slots->turns.running.used || are_all_stuck(slots, h->share) ||
           (h->parts[0] && are_all_stuck(slots, h->parts[0]));
}

void copy_slot_free(struct copy_slot *s)
{
    if (!s)
        return;
    loop_fd_stop(&s->source);
    drop_fd(&s->report);
    quota_drop(&s->stuck);
    turns_leave(&s->control->copies->turns, &s->turn);
    free(s);
}

/* Discards the report of an abandoned process, which may block on the pipe otherwise and not
 * exit. */
static void on_stuck_report(struct loop_fd *f, unsigned events)
{
    struct copy_slot *s = container_of(f, struct copy_slot, source);
    char room[4096];
    ssize_t n = read(s->report, room, sizeof room);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        copy_slot_free(s);
}

void copy_slot_abandon(struct copy_slot *s, int report)
{
    const struct quota_hold *h = &s->turn.place_;
    const struct quota_who who = { .key = str_from(h->share->key),
                                   .parts = { str_from(h->parts[0] ? h->parts[0]->key : "") } };
    struct err e;

    s->report = report;
    quota_charge(&s->control->copies->stuck, &who, 1, &s->stuck);
    if (loop_fd_start(s->control->loop, &s->source, report, LOOP_READ, on_stuck_report, &e) < 0) {
        LOG(ERROR, "workspace.slot", LOG_S("error", e.msg));
        copy_slot_free(s);
    }
}
