/* SPDX-License-Identifier: Apache-2.0 */
#include "control/prune.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/plane/plane.h"
#include "control/sandbox/remains.h"

enum {
    PRUNE_EVERY_S = 300,
    PRUNE_AGAIN_MS = 50, /* until the next batch: lets other commits in */
    PRUNE_ROWS = 1000,
    PRUNE_PART = 16, /* of limits.events_keep: so many new events trigger an early pruning */
};

struct pruning {
    struct control *control;
    struct store_txn txn;
};

static void on_prune_due(struct loop_timer *t);

static void schedule_prune(struct control *c, int64_t ns)
{
    /* Closed. */
    if (!c->prune_at)
        return;
    loop_timer_stop(&c->prune);
    loop_timer_start(c->loop, &c->prune, clock_mono() + ns, on_prune_due, NULL);
}

static void on_pruned(struct store_txn *t, int r, const struct err *e)
{
    struct pruning *p = container_of(t, struct pruning, txn);
    struct control *c = p->control;
    char detail[STORE_GAP_MAX];
    struct event_record gap;

    c->pruning = false;
    c->changes--;
    if (r < 0)
        LOG(WARN, "store.prune_failed", LOG_S("error", e->msg));
    else if (store_gap_event(t, detail, &gap)) /* undelivered events were removed */
        control_publish(c, &gap);
    schedule_prune(c, r >= 0 && t->pruned.rows >= PRUNE_ROWS ? PRUNE_AGAIN_MS * NS_PER_MS
                                                             : PRUNE_EVERY_S * NS_PER_S);
    free(p);
}

static void on_prune_due(struct loop_timer *t)
{
    struct control *c = container_of(t, struct control, prune);
    struct pruning *p = new0(sizeof *p);
    int64_t now = clock_wall();

    p->control = c;
    c->changes++;
    c->pruning = true;
    store_txn_begin(&p->txn, c->store);
    store_prune(&p->txn, now - remains_retention(c->config), now - c->config->retention.events,
                PRUNE_ROWS);
    store_commit(&p->txn, on_pruned);
    if (clock_mono() >= c->prune_logs_ns) { /* it scans all logs */
        c->prune_logs_ns = clock_mono() + PRUNE_EVERY_S * NS_PER_S;
        remains_expire(c);
    }
}

void prune_on_event(struct control *c, int64_t seq)
{
    if (!c->prune_at || seq < c->prune_at)
        return;
    c->prune_at = seq + (int64_t)c->config->limits.events_keep / PRUNE_PART + 1;
    if (!c->pruning)
        schedule_prune(c, 0);
}

void prune_open(struct control *c)
{
    c->prune_at = 1; /* the first event shows how many there are */
    schedule_prune(c, PRUNE_EVERY_S * NS_PER_S);
}

void prune_close(struct control *c)
{
    c->prune_at = 0;
    loop_timer_stop(&c->prune);
}
