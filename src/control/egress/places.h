/* The addresses that a policy lets its worker connect to although the gate (gate/gate.h) denies
 * them by default: those that are not public, or this machine's own, and that the policy declares
 * and its ceiling allows: as the host of an endpoint or, exactly or by a range, in the allowed_ips
 * of one with a name. Names alone open none: see egress_addresses(). */
#ifndef CONTROL_PLACES_H
#define CONTROL_PLACES_H

#include "control/policy_text.h"
#include "gate/gate.h"
#include "ipc/listeners.h"

/* Computed once and kept: sorted, each once; *ret is the policy's. A public address counts if it
 * was this machine's own then. -ERR_TOO_BIG: more than GATE_PLACES_MAX. */
int policy_places(struct policy_text *t, const struct gate_place **ret, size_t *ret_n,
                  struct err *e);

/* Ports of loopback that the policy grants by the address: inside, they are the host's. Those that
 * it grants by the host's name are not, so that programs inside can use them. t NULL: none. */
struct listeners_taken policy_taken(const struct policy_text *t);

#endif
