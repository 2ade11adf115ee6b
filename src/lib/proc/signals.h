/* SPDX-License-Identifier: Apache-2.0 */
/* Names of signals, and signalfd(2). */
#ifndef LIB_PROC_SIGNALS_H
#define LIB_PROC_SIGNALS_H

#include "base/err.h"
#include "base/str.h"

/* The number of "TERM", "SIGTERM", "term" or "15"; 0 if unknown. */
int signal_number(struct str s);
const char *signal_name(int number); /* "TERM"; NULL if it has no name */

/* Blocks the signals and returns a non-blocking signalfd(2) for them. Also ignores SIGPIPE, so that
 * writes to a closed pipe fail with EPIPE. */
int signals_open(const int *list, size_t n, struct err *e);

#endif
