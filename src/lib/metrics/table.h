/* SPDX-License-Identifier: Apache-2.0 */
/* Private to telemetry: whether a table of metrics is one that Prometheus takes. */
#ifndef LIB_METRICS_TABLE_H
#define LIB_METRICS_TABLE_H

#include "lib/metrics/metrics.h"

/* Looks at one metric alone. */
int metric_check(const struct metric *m, struct err *e);

/* The number of its series. */
size_t metric_series(const struct metric *m);

/* The number of cells that one series has. */
size_t metric_width(const struct metric *m);

#endif
