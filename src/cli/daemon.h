/* Starting sandboxerd where nobody listens. */
#ifndef CLI_DAEMON_H
#define CLI_DAEMON_H

#include <stddef.h>

#include "base/err.h"

/* What a daemon that is not the first one exits with. */
enum { DAEMON_NOT_FIRST = 75 };

/* Where the program is: beside ours, in the libexec directory, in PATH. */
int daemon_find(char *out, size_t cap, struct err *e);

/* Starts it, detached from everything of ours, and waits until it listens: 1. 0 if another one has
 * what it needs: that may listen soon, or elsewhere, and the error is set to what the daemon said.
 * What it has to say about a failure is the error, too; its log is sandboxerd.log in the state
 * directory. */
int daemon_start(struct err *e);

/* Whether it could start, in its own words, without starting it. */
int daemon_check(struct err *e);

#endif
