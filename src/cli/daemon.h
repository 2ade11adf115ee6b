/* Starting sandboxerd where nobody listens. */
#ifndef CLI_DAEMON_H
#define CLI_DAEMON_H

#include <stddef.h>

#include "base/err.h"

/* What a daemon that is not the first one exits with. */
enum { DAEMON_NOT_FIRST = 75 };

/* Where the program is: beside ours, in the libexec directory, in PATH. */
int daemon_find(char *out, size_t cap, struct err *e);

/* Starts it, detached from everything of ours, and waits until it listens: 1. 0 if another one was
 * faster, which may not listen yet. What it has to say about a failure is the error; its log is
 * sandboxerd.log in the state directory. */
int daemon_start(struct err *e);

#endif
