/* Signals: by the names that the interface uses, and as something to wait for. */
#ifndef PROC_SIGNALS_H
#define PROC_SIGNALS_H

#include "base/err.h"
#include "base/str.h"

/* "TERM", "SIGTERM", "term" or "15": its number, or 0. */
int signal_number(struct str s);
const char *signal_name(int number); /* "TERM"; NULL for one without a name */

/* A non-blocking signalfd(2) for these, which are blocked from now on; SIGPIPE is ignored: a reader
 * that went away is an ordinary end of a stream. */
int signals_open(const int *list, size_t n, struct err *e);

#endif
