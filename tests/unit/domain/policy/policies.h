/* SPDX-License-Identifier: Apache-2.0 */
/* Policies as tests write them. */
#ifndef TESTS_POLICIES_H
#define TESTS_POLICIES_H

#include "domain/policy/egress.h"

/* Everything lives as long as the test's process. */
struct arena *policies_arena(void);

int policy_try(const char *yaml, struct egress_policy *ret, struct err *e);
const struct egress_snapshot *
policy_compiled(const char *yaml); /* fails the test if it cannot be */
const struct egress_snapshot *snapshot_of(const struct egress_policy *p);

/* A destination, "example.com:443" or "192.0.2.1:80", asked by a program, or by an unknown one. */
struct egress_connect_query ask_for(const char *destination, const char *binary);

/* "allowed", "denied" or "audited", and the code behind it: "denied port_not_allowed". */
const char *verdict_text(enum egress_verdict v, const struct egress_reason *why);

/* Of egress_connect(). */
const char *connect_text(const struct egress_snapshot *s, const char *destination,
                         const char *binary);

/* Of egress_judge() after a connect by /usr/bin/curl; target is a path with a query. */
const char *request_text(const struct egress_snapshot *s, const char *destination,
                         const char *method, const char *target);

#endif
