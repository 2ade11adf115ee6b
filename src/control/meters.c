/* SPDX-License-Identifier: Apache-2.0 */
#include "control/meters.h"

#include "base/clock.h"
#include "control/egress/egress_link.h"
#include "control/sandbox/pool.h"
#include "control/sandbox/sandbox.h"
#include "lib/metrics/process.h"

enum {
    SANDBOXES,
    MOVES,
    OTHER_EVENTS,
    CREATE_SECONDS,
    POOL_TAKES,
    POOL_BOXES,
    EGRESS_DECISIONS,
    EGRESS_BYTES,
    EGRESS_RESTARTS,
    EGRESS_LOGS_FULL,
    EGRESS_DROPPED,
    FETCH_DEATHS
};
enum { TAKE_HIT, TAKE_MISS };
enum { VERDICT_ALLOWED, VERDICT_DENIED };
enum { WAY_OUT, WAY_IN };

static const struct metric_label states =
    METRIC_LABEL("state", "requested", "provisioning", "ready", "active", "paused", "expired",
                 "failed", "destroying", "destroyed");
static const struct metric_label outcomes = METRIC_LABEL("outcome", "hit", "miss");
static const struct metric_label verdicts = METRIC_LABEL("verdict", "allowed", "denied");
static const struct metric_label ways = METRIC_LABEL("direction", "out", "in");
static const double seconds[] = { 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30 };

static const struct metric table[] = {
    [SANDBOXES] = { .kind = METRIC_GAUGE,
                    .name = "sandboxer_sandboxes",
                    .help = "Sandboxes that are not destroyed.",
                    .labels = { &states } },
    [MOVES] = { .kind = METRIC_COUNTER,
                .name = "sandboxer_sandbox_moves_total",
                .help = "State transitions of sandboxes, by the new state.",
                .labels = { &states } },
    [OTHER_EVENTS] = { .kind = METRIC_COUNTER,
                       .name = "sandboxer_other_events_total",
                       .help = "Events that are not state transitions of a sandbox." },
    [CREATE_SECONDS] = { .kind = METRIC_HISTOGRAM,
                         .name = "sandboxer_create_seconds",
                         .help = "From the request for a sandbox until it is ready.",
                         METRIC_BUCKETS(seconds) },
    [POOL_TAKES] = { .kind = METRIC_COUNTER,
                     .name = "sandboxer_pool_takes_total",
                     .help = "Creations that a prepared sandbox could serve.",
                     .labels = { &outcomes } },
    [POOL_BOXES] = { .kind = METRIC_GAUGE,
                     .name = "sandboxer_pool_boxes",
                     .help = "Sandboxes in the pool, also those being made." },
    [EGRESS_DECISIONS] = { .kind = METRIC_COUNTER,
                           .name = "sandboxer_egress_decisions_total",
                           .help = "Egress decisions on requests of sandboxes.",
                           .labels = { &verdicts } },
    [EGRESS_BYTES] = { .kind = METRIC_COUNTER,
                       .name = "sandboxer_egress_bytes_total",
                       .help = "Bytes that sandboxes sent and received.",
                       .labels = { &ways } },
    [EGRESS_RESTARTS] = { .kind = METRIC_COUNTER,
                          .name = "sandboxer_egress_worker_restarts_total",
                          .help = "Egress workers that were started in place of a dead one." },
    [EGRESS_LOGS_FULL] = { .kind = METRIC_GAUGE,
                           .name = "sandboxer_egress_logs_full",
                           .help = "Sandboxes that are denied because an egress log is full." },
    [EGRESS_DROPPED] = { .kind = METRIC_COUNTER,
                         .name = "sandboxer_egress_log_bytes_dropped_total",
                         .help = "Bytes of egress logs that were removed before their retention "
                                 "time." },
    [FETCH_DEATHS] = { .kind = METRIC_COUNTER,
                       .name = "sandboxer_fetch_process_deaths_total",
                       .help = "Fetch processes that died, hung, or broke the protocol." },
};

static void count_state(struct map_entry *v, void *user)
{
    size_t *n = user;

    n[container_of(v, struct sandbox, entry)->record.state]++;
}

static void refresh_control_metrics(struct metric_set *s)
{
    struct control *c = container_of(s, struct meters, control)->plane;
    struct egress_link_counters egress = egress_links_counters(c);
    size_t n[SANDBOX_STATE_COUNT_] = { 0 };

    map_each(&c->sandboxes, count_state, n);
    for (size_t i = 0; i < SANDBOX_STATE_COUNT_; i++)
        metric_set_to(s, SANDBOXES, METRIC_AT(i), (double)n[i]);
    metric_raise_to(s, POOL_TAKES, METRIC_AT(TAKE_HIT), (double)c->pool->hits);
    metric_raise_to(s, POOL_TAKES, METRIC_AT(TAKE_MISS), (double)c->pool->misses);
    metric_set_to(s, POOL_BOXES, METRIC_ALONE, c->pool->total);
    metric_raise_to(s, EGRESS_DECISIONS, METRIC_AT(VERDICT_ALLOWED), (double)egress.allowed);
    metric_raise_to(s, EGRESS_DECISIONS, METRIC_AT(VERDICT_DENIED), (double)egress.denied);
    metric_raise_to(s, EGRESS_BYTES, METRIC_AT(WAY_OUT), (double)egress.bytes_out);
    metric_raise_to(s, EGRESS_BYTES, METRIC_AT(WAY_IN), (double)egress.bytes_in);
    metric_raise_to(s, EGRESS_RESTARTS, METRIC_ALONE, (double)egress_links_restarts(c));
    metric_set_to(s, EGRESS_LOGS_FULL, METRIC_ALONE, (double)egress_links_full_logs(c));
    metric_raise_to(s, EGRESS_DROPPED, METRIC_ALONE, (double)c->egress_links->dropped);
    metric_raise_to(s, FETCH_DEATHS, METRIC_ALONE, (double)c->fetcher.deaths);
}

int meters_open(struct control *c, struct err *e)
{
    struct meters *m = c->meters;
    int r = metrics_register(&m->registry, &m->control, table, COUNT_OF(table), e);

    m->control.refresh = refresh_control_metrics;
    return r < 0 ? r : process_metrics_register(&m->registry, &m->process, e);
}

void meters_close(struct control *c)
{
    metrics_unregister(&c->meters->control);
    metrics_unregister(&c->meters->process);
}

void meters_on_event(struct control *c, const struct event_record *v)
{
    const struct sandbox_record *r = control_record(c, v->sandbox);
    int64_t took = r ? v->time_ns - r->created_ns : -1;

    if (v->to < 0) {
        metric_add(&c->meters->control, OTHER_EVENTS, METRIC_ALONE, 1);
        return;
    }
    metric_add(&c->meters->control, MOVES, METRIC_AT((size_t)v->to), 1);
    /* The wall clock may have been set back. */
    if (v->to == SANDBOX_READY && v->from == SANDBOX_PROVISIONING && took >= 0)
        metric_observe(&c->meters->control, CREATE_SECONDS, METRIC_ALONE,
                       (double)took / (double)NS_PER_S);
}

struct metrics *control_metrics(struct control *c)
{
    return &c->meters->registry;
}
