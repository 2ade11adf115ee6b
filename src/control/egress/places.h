/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that a policy lets its worker connect to although the gate (lib/gate/gate.h) denies
 * them by default: addresses that are not public, or this machine's own, and that the policy
 * declares and its ceiling allows. A policy declares them as the host of an endpoint, or in the
 * allowed_ips of an endpoint with a name (exactly or as a range). Names alone open no address: see
 * egress_addresses(). */
#ifndef CONTROL_EGRESS_PLACES_H
#define CONTROL_EGRESS_PLACES_H

#include "control/egress/policy_text.h"
#include "lib/gate/gate.h"
#include "lib/ipc/listeners.h"

/* Computed once and cached: sorted, without duplicates; the policy owns *ret. A public address
 * counts if it was this machine's own at that time. -ERR_TOO_BIG: more than GATE_PLACES_MAX. */
int policy_places(struct policy_text *t, const struct gate_place **ret, size_t *ret_n,
                  struct err *e);

/* Loopback ports that the policy grants by address: inside the sandbox these belong to the host.
 * Ports that it grants by the host's name are not taken, so that programs inside can use them. t
 * NULL: none. */
struct listeners_taken policy_taken(const struct policy_text *t);

#endif
