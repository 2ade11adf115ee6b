/* The addresses that a policy lets its worker connect to although the gate (gate/gate.h) denies
 * them by default: those that are not public, or this machine's own, and that the policy declares
 * exactly and its ceiling allows. Ranges and names open none: see egress_addresses(). */
#ifndef CONTROL_PLACES_H
#define CONTROL_PLACES_H

#include "control/policy_text.h"
#include "gate/gate.h"

/* Computed once and kept: sorted, each once; *ret is the policy's. A public address counts if it
 * was this machine's own then. -ERR_TOO_BIG: more than GATE_PLACES_MAX. */
int policy_places(struct policy_text *t, const struct gate_place **ret, size_t *ret_n,
                  struct err *e);

#endif
