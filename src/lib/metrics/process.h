/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon itself, under the names that every Prometheus client uses: process_cpu_seconds_total,
 * process_resident_memory_bytes, process_open_fds, process_max_fds, process_start_time_seconds.
 * Read from /proc whenever the metrics are written; an unreadable one keeps its last value. */
#ifndef LIB_METRICS_PROCESS_H
#define LIB_METRICS_PROCESS_H

#include "lib/metrics/metrics.h"

/* s is zeroed; metrics_unregister() ends it. */
int process_metrics_register(struct metrics *m, struct metric_set *s, struct err *e);

#endif
