/* What a sandbox may do, as its maker declared it: the `capabilities` of a create. */
#ifndef TRUST_CAPABILITIES_H
#define TRUST_CAPABILITIES_H

#include "control/control.h"
#include "json/bind.h"
#include "model/request.h"

struct trust_capabilities {
    bool network;
    struct json_strs hosts; /* that it may reach; none: as its profile says */
    enum workspace_access filesystem;
    int64_t duration_s, memory_mb; /* 0: as the profile says; the same below */
    double cpu_quota;
    /* Of a sandbox that is there: */
    const char
        *approved_for; /* peer that a master approved its network for; borrowed; NULL: none */
    struct policy_text
        *policy; /* what it reaches, or would; borrowed; NULL: not known, or nothing */
};

extern const struct json_field trust_capability_fields[];
extern const size_t trust_capability_field_count;

/* Reads {network: bool | [hosts], filesystem: ro | rw, duration_s: 1–1800, memory_mb: 1–4096,
 * cpu_quota: 0.1–4.0}. What is none of these, or outside, is -ERR_INVALID and named. v may be NULL:
 * nothing is declared. */
int trust_capabilities_read(const struct json *v, struct trust_capabilities *ret, struct arena *a,
                            struct err *e);

/* What a sandbox that is there reaches and may write. The second only for a policy that asks: it is
 * in the request that the sandbox was made with, which is parsed for it. */
void trust_capabilities_of(const struct sandbox *s, bool filesystem,
                           struct trust_capabilities *ret);
/* What a new one would have. */
void trust_capabilities_planned(const struct create_plan *p, struct trust_capabilities *ret);

#endif
