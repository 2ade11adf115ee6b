/* SPDX-License-Identifier: Apache-2.0 */
/* Declared capabilities of a sandbox: the `capabilities` of a create request. */
#ifndef TRUST_CAPABILITIES_H
#define TRUST_CAPABILITIES_H

#include "control/control.h"
#include "lib/json/bind.h"
#include "domain/model/request.h"

struct trust_capabilities {
    bool network;
    struct json_strs hosts; /* allowed hosts; empty: as in the profile */
    enum workspace_access filesystem;
    int64_t duration_s, memory_mb; /* 0: as in the profile; also cpu_quota */
    double cpu_quota;
    /* Of an existing sandbox: */
    const char *approved_for;   /* peer whose network a master approved; borrowed; NULL: none */
    struct policy_text *policy; /* current or requested egress; borrowed; NULL: unknown, none */
};

extern const struct json_field trust_capability_fields[];
extern const size_t trust_capability_field_count;

/* Reads {network: bool | [hosts], filesystem: ro | rw, duration_s: 1–1800, memory_mb: 16–4096,
 * cpu_quota: 0.1–4.0}. Other members and values out of range are -ERR_INVALID, with the name. v may
 * be NULL: nothing is declared. */
int trust_capabilities_read(const struct json *v, struct trust_capabilities *ret, struct arena *a,
                            struct err *e);

/* The network and file access of an existing sandbox. `filesystem` is set only for policies that
 * use it: the sandbox's request must be parsed for it. */
void trust_capabilities_of(const struct sandbox *s, bool filesystem,
                           struct trust_capabilities *ret);
/* The capabilities of a planned sandbox. */
void trust_capabilities_planned(const struct create_plan *p, struct trust_capabilities *ret);

#endif
