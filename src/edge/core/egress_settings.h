/* SPDX-License-Identifier: Apache-2.0 */
/* Network settings of SDK clients, and the egress policies that they denote.
 *
 * Without settings, or with `internet` true, the profile's rules apply. Hosts in `allow` are always
 * allowed; with `deny`, all hosts that it does not name are allowed as well. */
#ifndef EDGE_CORE_EGRESS_SETTINGS_H
#define EDGE_CORE_EGRESS_SETTINGS_H

#include "domain/model/record.h"
#include "domain/model/request.h"
#include "domain/policy/egress_file.h"
#include "domain/profile/catalog.h"

struct call;
struct sandbox;

struct egress_settings {
    bool internet, internet_given;
    struct json_strs allow, deny;
};

extern const struct json_strs egress_settings_everything; /* all addresses */

/* Fills a request for a new sandbox, whose profile must be set. */
int egress_settings_fill(const struct egress_settings *n, const struct catalog *all,
                         struct create_request *q, struct err *e);
/* Replaces the policy of the call's sandbox, which must have a network; without settings, by the
 * policy that it was created with. `done` gets the call and must release it; requests that are not
 * possible are answered. */
void egress_settings_set(struct call *c, const struct egress_settings *n,
                         void (*done)(void *call, int r, const struct err *e));

/* The policy in force, on the arena; without a network, one that allows nothing. */
struct egress_policy egress_settings_policy(const struct sandbox *s, struct arena *a);
/* Whether the policy allows any egress. */
bool egress_settings_allows_any(const struct egress_policy *p);
bool egress_settings_open(const struct sandbox *s); /* the same for the policy of a sandbox */

#endif
