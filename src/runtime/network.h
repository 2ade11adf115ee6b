/* The sandbox's network namespace: loopback, and no way out. */
#ifndef RUNTIME_NETWORK_H
#define RUNTIME_NETWORK_H

#include "base/err.h"

/* Makes a network namespace with loopback up. `home` is the caller's own, to come back to; -1 stays
 * in the new one (a plain caller has no right to return, and no need to). */
int network_make(int home, int *ret, struct err *e);

#endif
