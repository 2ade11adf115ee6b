/* Other spellings of a policy: options of the command line, lists of an API, the list of a profile.
 * Each gives a checked policy on the arena; egress_join() makes one of several. */
#ifndef POLICY_EGRESS_SOURCES_H
#define POLICY_EGRESS_SOURCES_H

#include "base/arena.h"
#include "base/err.h"
#include "policy/egress_policy.h"

enum { EGRESS_ALLOW_PORT = 443 }; /* where an item names none */

/* HOST[:PORT[,PORT…]][=ADDRESS[,ADDRESS…]] items, as --allow takes them: "packages.example.org",
 * "*.example.com:80,443", "192.0.2.7:5432", "[2001:db8::1]:443", "mirror.corp:443=10.0.0.5" (a name
 * that is at this address). "localhost" and HOST_INSIDE are 127.0.0.1 of this machine. For every
 * program; not inspected. */
int egress_from_allow(struct json_strs items, struct arena *a, struct egress_policy *ret,
                      struct err *e);

/* allowOut and denyOut: addresses, prefixes and, to allow only, names, where "*.example.com" is
 * every name below. What is in neither may be reached if `internet`, unless a prefix denies it all;
 * allow beats deny. Names are for ports 80 and 443, addresses for all. */
int egress_from_lists(struct json_strs allow_out, struct json_strs deny_out, bool internet,
                      struct arena *a, struct egress_policy *ret, struct err *e);

/* A profile's network.egress: endpoints (struct egress_endpoint), which the check completes where
 * they are, on the same arena. One without binaries is for every program. document: where they
 * stand, for messages. */
int egress_from_profile(const struct json_objects *endpoints, const struct json *document,
                        struct arena *a, struct egress_policy *ret, struct err *e);

/* Everything that one of the parts allows; what is unlisted is decided by the last part that says
 * something about it. Entries keep their keys where they can. Parts must be checked, are not
 * changed, and their texts are borrowed. */
int egress_join(const struct egress_policy *const *parts, size_t n, struct arena *a,
                struct egress_policy *ret, struct err *e);

#endif
