/* Signals by the names that the interface uses. */
#ifndef PROC_SIGNALS_H
#define PROC_SIGNALS_H

#include "base/str.h"

/* "TERM", "SIGTERM", "term" or "15": its number, or 0. */
int signal_number(struct str s);
const char *signal_name(int number); /* "TERM"; NULL for one without a name */

#endif
