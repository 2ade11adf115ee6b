/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox's network namespace: loopback only. */
#ifndef ENGINE_RUNTIME_NETWORK_H
#define ENGINE_RUNTIME_NETWORK_H

#include <stdbool.h>

#include "base/err.h"
#include "lib/ipc/listeners.h"

/* Makes a network namespace with loopback up. `home` is the caller's own, to return to; -1 stays in
 * the new one (a plain user has no right to return, and no need to). */
int network_make(int home, int *ret, struct err *e);

/* Enters a namespace of network_make(), and returns. Without `home` the process is there
 * already. */
int network_enter(int home, int net, struct err *e);
int network_leave(int home, struct err *e);

/* Makes every address local in the current namespace, so that all connections are delivered here.
 * 127.0.0.1 and ::1 are the source addresses. */
int network_route(struct err *e);
/* Whether IPv6 is usable. */
bool network_has_ipv6(void);

/* The sockets of a sandbox's network boundary (lib/ipc/listeners.h), opened inside its
 * namespace. */

/* Opens them in the current network namespace; on failure none is left open. */
int listen_open(struct listeners *ret, struct err *e);

#endif
