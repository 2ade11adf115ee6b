/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets of a sandbox's network boundary (lib/ipc/listeners.h), opened inside its
 * namespace. */
#ifndef ENGINE_RUNTIME_LISTEN_H
#define ENGINE_RUNTIME_LISTEN_H

#include "base/err.h"
#include "lib/ipc/listeners.h"

/* Opens them in the current network namespace; on failure none is left open. */
int listen_open(struct listeners *ret, struct err *e);

#endif
