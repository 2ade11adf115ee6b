/* SPDX-License-Identifier: Apache-2.0 */
/* Names that an administrator assigns to addresses that are not public (egress.names of the
 * configuration): an endpoint with such a name and without allowed_ips gets these addresses as its
 * allowed_ips. */
#ifndef DOMAIN_POLICY_EGRESS_NAMES_H
#define DOMAIN_POLICY_EGRESS_NAMES_H

#include "base/arena.h"
#include "base/err.h"
#include "domain/policy/egress_policy.h"

enum { EGRESS_NAMES_MEMORY = 256 << 10 }; /* size of an arena for one item */

/* Parses "NAME[:PORT[,PORT…]]=ADDRESS[/BITS][,…]", an item of --allow: a name, which may have
 * wildcards, and addresses that are not public. *ret is on the arena and has host, ports and
 * allowed_ips. */
int egress_known_read(const char *item, struct arena *a, const struct egress_endpoint **ret,
                      struct err *e);

/* Makes a policy in which each endpoint has the addresses of the first item that covers its host
 * and port. An endpoint whose ports belong to different items is split; the new endpoints are
 * appended, so that endpoints keep their numbers. Endpoints with allowed_ips are unchanged. p must
 * be checked, is not changed, and its texts are borrowed; *ret is checked. */
int egress_place_names(const struct egress_policy *p, struct json_strs items, struct arena *a,
                       struct egress_policy *ret, struct err *e);

#endif
