/* The sandbox's network namespace: loopback, and no way out. */
#ifndef RUNTIME_NETWORK_H
#define RUNTIME_NETWORK_H

#include <stdbool.h>

#include "base/err.h"

/* Makes a network namespace with loopback up. `home` is the caller's own, to come back to; -1 stays
 * in the new one (a plain caller has no right to return, and no need to). */
int network_make(int home, int *ret, struct err *e);

/* Goes into a namespace that network_make() made, and comes home again. With no home we are there
 * already. */
int network_enter(int home, int net, struct err *e);
int network_leave(int home, struct err *e);

/* In the namespace we are in: makes every address one of its own, so that whatever a program
 * connects to is delivered here. 127.0.0.1 and ::1 are the sources of what is sent. */
int network_route(struct err *e);
/* Whether there is an IPv6 to speak of. */
bool network_has_six(void);

#endif
