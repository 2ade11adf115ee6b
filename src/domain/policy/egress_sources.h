/* SPDX-License-Identifier: Apache-2.0 */
/* Other formats of a policy: command line options, lists of an API, the list of a profile. Each
 * function makes a checked policy on the arena; egress_join() combines several. */
#ifndef DOMAIN_POLICY_EGRESS_SOURCES_H
#define DOMAIN_POLICY_EGRESS_SOURCES_H

#include "base/arena.h"
#include "base/err.h"
#include "domain/policy/egress_policy.h"

enum { EGRESS_ALLOW_PORT = 443 }; /* of an item without a port */

/* Reads HOST[:PORT[,PORT…]][=ADDRESS[,ADDRESS…]] items of --allow: "packages.example.org",
 * "*.example.com:80,443", "192.0.2.7:5432", "[2001:db8::1]:443", "mirror.corp:443=10.0.0.5" (a name
 * at this address). "localhost" and HOST_INSIDE are 127.0.0.1 of this machine. For every program;
 * not inspected. */
int egress_from_allow(struct json_strs items, struct arena *a, struct egress_policy *ret,
                      struct err *e);

/* Reads allowOut and denyOut: addresses, prefixes and, only in allowOut, names, where
 * "*.example.com" means every name below. Other destinations are allowed if `internet`, unless a
 * prefix denies all; allow takes precedence over deny. Names are allowed on ports 80 and 443,
 * addresses on all ports. */
int egress_from_lists(struct json_strs allow_out, struct json_strs deny_out, bool internet,
                      struct arena *a, struct egress_policy *ret, struct err *e);

/* Reads a profile's network.egress: endpoints (struct egress_endpoint), which the check completes
 * in place, on the same arena. An endpoint without binaries is for every program. document:
 * contains the endpoints, for messages. */
int egress_from_profile(const struct json_objects *endpoints, const struct json *document,
                        struct arena *a, struct egress_policy *ret, struct err *e);

/* Combines policies: allows everything that one of the parts allows; for unlisted destinations, the
 * last part with a setting decides. Entries keep their keys if possible. Parts must be checked, are
 * not changed, and their texts are borrowed. */
int egress_join(const struct egress_policy *const *parts, size_t n, struct arena *a,
                struct egress_policy *ret, struct err *e);

#endif
