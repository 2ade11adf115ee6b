/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's metrics, for Prometheus.
 *
 * A module declares its metrics in one table, registers it at start, and updates by index:
 *
 *     enum { STARTS, RUNNING, START_SECONDS };
 *     enum { OUTCOME_OK, OUTCOME_FAILED };
 *
 *     static const struct metric_label outcome = METRIC_LABEL("outcome", "ok", "failed");
 *     static const double seconds[] = { 0.001, 0.01, 0.1, 1 };
 *     static const struct metric table[] = {
 *         [STARTS] = { .kind = METRIC_COUNTER, .name = "sandboxer_sandbox_starts_total",
 *                      .help = "Sandboxes started.", .labels = { &outcome } },
 *         [RUNNING] = { .kind = METRIC_GAUGE, .name = "sandboxer_sandboxes",
 *                       .help = "Sandboxes that are running." },
 *         [START_SECONDS] = { .kind = METRIC_HISTOGRAM, .name = "sandboxer_sandbox_start_seconds",
 *                             .help = "From request to ready.", METRIC_BUCKETS(seconds) },
 *     };
 *
 *     r = metrics_register(metrics, &m->metrics, table, COUNT_OF(table), e);
 *     …
 *     metric_add(&m->metrics, STARTS, METRIC_AT(OUTCOME_OK), 1);
 *     metric_observe(&m->metrics, START_SECONDS, METRIC_ALONE, took);
 *
 * Label values are declared, never taken from outside, so the number of time series is known at
 * start and no input from a sandbox can add one. All series exist from the start, with 0.
 *
 * An update is O(1), takes no lock and allocates nothing; all calls belong to the loop's thread. An
 * update of a set that is not registered does nothing, so modules can be tested without this. An
 * update that names an unknown series, or that decreases a counter, is counted in
 * sandboxer_metrics_bad_updates_total and otherwise ignored. */
#ifndef LIB_METRICS_METRICS_H
#define LIB_METRICS_METRICS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "lib/loop/list.h"

enum {
    METRIC_LABELS_MAX = 2,
    METRIC_BUCKETS_MAX = 32,
    METRIC_SERIES_MAX = 4096, /* of one metric */
};

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_label {
    const char *name;
    const char *const *values;
    size_t count;
};

#define METRIC_LABEL(label, ...)                                                                   \
    {                                                                                              \
        .name = (label), .values = (const char *const[]){ __VA_ARGS__ },                           \
        .count = sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)               \
    }

struct metric {
    enum metric_kind kind;
    const char *name; /* sandboxer_…; a counter's ends in _total, others' do not */
    const char *help;
    const struct metric_label *labels[METRIC_LABELS_MAX];
    const double *bounds; /* a histogram's upper bounds, rising; +Inf is added */
    size_t bound_count;
};

#define METRIC_BUCKETS(array) .bounds = (array), .bound_count = sizeof(array) / sizeof((array)[0])

/* Which of a metric's series: the index of the value of each of its labels. */
struct metric_at {
    size_t value[METRIC_LABELS_MAX];
};

#define METRIC_AT(...) ((struct metric_at){ { __VA_ARGS__ } })
#define METRIC_ALONE   METRIC_AT(0) /* a metric without labels */

struct metric_set;
typedef void metric_refresh_fn(struct metric_set *s);

/* The registered metrics of one module: a member of its owner, zeroed at first. */
struct metric_set {
    struct metrics *metrics;
    const struct metric *table;
    size_t count;
    metric_refresh_fn
        *refresh;    /* if set: called before writing, to set what is not kept up to date */
    double **cells_; /* by metric: its series one after the other */
    struct link link_;
};

/* A zeroed one is ready. */
struct metrics {
    struct list sets_;
    double bad_updates_;
};

/* Checks the table: -ERR_BUG if it is not one that Prometheus would take, -ERR_CONFLICT if a name
 * is registered already. The table must outlive the set. */
int metrics_register(struct metrics *m, struct metric_set *s, const struct metric *table,
                     size_t count, struct err *e);
void metrics_unregister(struct metric_set *s); /* idempotent */

/* Everything, in the text format 0.0.4. On failure (the ceiling) the buffer is as it was. */
int metrics_write(struct metrics *m, struct buf *out);
#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

void metric_add(struct metric_set *s, size_t metric, struct metric_at at, double n);
void metric_set_to(struct metric_set *s, size_t metric, struct metric_at at, double value);
void metric_observe(struct metric_set *s, size_t metric, struct metric_at at, double value);

/* For a counter of another party, such as the kernel: it must not decrease. */
void metric_raise_to(struct metric_set *s, size_t metric, struct metric_at at, double value);

/* The value of a counter or gauge; for tests and for decisions that depend on a metric. */
double metric_get(const struct metric_set *s, size_t metric, struct metric_at at);

/* Private to telemetry: whether a table of metrics is one that Prometheus takes. */

/* Looks at one metric alone. */
int metric_check(const struct metric *m, struct err *e);

/* The number of its series. */
size_t metric_series(const struct metric *m);

/* The number of cells that one series has. */
size_t metric_width(const struct metric *m);

#endif
