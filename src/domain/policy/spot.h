/* SPDX-License-Identifier: Apache-2.0 */
/* A location in a policy that is being checked, and error messages about it. Private to the
 * module. */
#ifndef DOMAIN_POLICY_SPOT_H
#define DOMAIN_POLICY_SPOT_H

#include "domain/policy/egress_check.h"

/* The checked part: an endpoint of an entry, or another part of the policy. */
struct policy_spot {
    struct egress_policy *policy;
    struct egress_places places;
    struct arena *arena;
    struct err *e;
    size_t *work;               /* left for check_passable.c, in steps of glob_covered() */
    struct egress_entry *entry; /* NULL: the policy itself */
    struct egress_endpoint *ep; /* NULL: the entry itself */
};

enum { SPOT_TEXT = 224 };

/* "network_policies.web.endpoints[0]" */
void spot_name(const struct policy_spot *s, char out[static SPOT_TEXT]);

/* "line 3: network_policies.web.endpoints[0].FIELD: REASON", -code. field is "host" or
 * "rules[2].allow.path"; NULL: the spot itself. */
int spot_fail_(const struct policy_spot *s, enum err_code code, const char *field, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
#define spot_fail(s, field, ...) (spot_fail_((s), ERR_INVALID, (field), __VA_ARGS__), -ERR_INVALID)
#define spot_refuse(s, field, ...)                                                                 \
    (spot_fail_((s), ERR_UNSUPPORTED, (field), __VA_ARGS__), -ERR_UNSUPPORTED)

int spot_note(const struct policy_spot *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int spot_no_room(const struct policy_spot *s);

/* The steps of egress_check(). */
int policy_check_sections_(const struct policy_spot *s); /* sections other than network */
int policy_check_protocol_(const struct policy_spot *s); /* fields by protocol */
int policy_check_rules_(const struct policy_spot *s);    /* rules for requests */
int policy_check_enforced_(const struct policy_spot *s); /* last check of an endpoint */
int policy_check_middlewares_(const struct policy_spot *s);
int policy_check_overlaps_(const struct policy_spot *s); /* endpoints that disagree */

/* Whether the prefixes together have every public address. */
bool policy_denies_public_(const struct json_strs *list);

/* Sets the ports in the form of a document; -ERR_TOO_BIG without memory. */
int egress_ports_put_(struct egress_endpoint *ep, const uint16_t *ports, size_t n, struct arena *a);

#endif
