/* What is finished is kept for a while, and then no more. */
#include "control/prune.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/plane.h"

enum { PRUNE_EVERY_S = 300, PRUNE_ROWS = 1000 };

struct pruning {
    struct control *control;
    struct store_txn txn;
};

static void again(struct control *c);

static void pruned(struct store_txn *t, int r, const struct err *e)
{
    struct pruning *p = container_of(t, struct pruning, txn);

    if (r < 0)
        LOG(WARN, "store.prune_failed", LOG_S("error", e->msg));
    p->control->changes--;
    free(p);
}

static void on_due(struct loop_timer *t)
{
    struct control *c = container_of(t, struct control, prune);
    struct pruning *p = calloc(1, sizeof *p);
    int64_t now = clock_wall();

    if (!p)
        abort();
    p->control = c;
    c->changes++;
    store_txn_begin(&p->txn, c->store);
    store_prune(&p->txn, now - c->config->retention.sandboxes, now - c->config->retention.events,
                PRUNE_ROWS);
    store_commit(&p->txn, pruned);
    outlets_prune_logs(c, now - c->config->retention.sandboxes);
    again(c);
}

static void again(struct control *c)
{
    loop_timer_start(c->loop, &c->prune, clock_mono() + PRUNE_EVERY_S * NS_PER_S, on_due, NULL);
}

void prune_open(struct control *c)
{
    again(c);
}

void prune_close(struct control *c)
{
    loop_timer_stop(&c->prune);
}
