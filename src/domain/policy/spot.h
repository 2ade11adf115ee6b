/* A place in a policy that is checked, and messages about it. Private to the module. */
#ifndef POLICY_SPOT_H
#define POLICY_SPOT_H

#include "policy/egress_check.h"

/* What is looked at: an endpoint of an entry, or something else of the policy. */
struct spot {
    struct egress_policy *policy;
    struct egress_places places;
    struct arena *arena;
    struct err *e;
    struct egress_entry *entry; /* NULL: the policy itself */
    struct egress_endpoint *ep; /* NULL: the entry itself */
};

enum { SPOT_TEXT = 224 };

/* "network_policies.web.endpoints[0]" */
void spot_name(const struct spot *s, char out[static SPOT_TEXT]);

/* "line 3: network_policies.web.endpoints[0].FIELD: REASON", -code. field is "host" or
 * "rules[2].allow.path"; NULL: the spot itself. */
int spot_fail_(const struct spot *s, enum err_code code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define spot_fail(s, field, ...) (spot_fail_((s), ERR_INVALID, (field), __VA_ARGS__), -ERR_INVALID)
#define spot_refuse(s, field, ...)                                                                 \
    (spot_fail_((s), ERR_UNSUPPORTED, (field), __VA_ARGS__), -ERR_UNSUPPORTED)

int spot_note(const struct spot *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int spot_no_room(const struct spot *s);

/* The steps of egress_check(). */
int policy_check_sections_(const struct spot *s); /* what is not network */
int policy_check_protocol_(const struct spot *s); /* what belongs to which protocol */
int policy_check_rules_(const struct spot *s);    /* rules for requests */
int policy_check_enforced_(const struct spot *s); /* … of an endpoint the last one */
int policy_check_passable_(const struct spot *s); /* after all endpoints of the entry */
int policy_check_middlewares_(const struct spot *s);
int policy_check_overlaps_(const struct spot *s); /* endpoints that disagree */

const char *egress_protocol_name_(enum egress_protocol p);

#endif
