/* The sockets of a sandbox's network boundary (ipc/listeners.h), opened inside its namespace. */
#ifndef RUNTIME_LISTEN_H
#define RUNTIME_LISTEN_H

#include "base/err.h"
#include "ipc/listeners.h"

/* In the network namespace we are in; on failure none is left open. */
int listen_open(struct listeners *ret, struct err *e);

#endif
