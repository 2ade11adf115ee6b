/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on one tool call. */
#ifndef TRUST_VERDICT_H
#define TRUST_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

enum verdict_kind {
    VERDICT_ALLOW,
    VERDICT_DENY,
    VERDICT_RATE_LIMIT,
    VERDICT_REQUIRE_APPROVAL,
    VERDICT_KIND_COUNT_,
};

/* "allow", "deny", "rate_limit", "require_approval": also `data.kind` of a JSON-RPC error. */
extern const char *const verdict_kind_names[VERDICT_KIND_COUNT_ + 1];

/* The code of a JSON-RPC error; 0 for allow. */
int verdict_code(enum verdict_kind k);

/* The effect of a tool, for reviewers. */
enum trust_effect {
    EFFECT_NONE,
    EFFECT_READ,
    EFFECT_WRITE,
    EFFECT_EXECUTE,
    EFFECT_NETWORK,
    EFFECT_DESTROY,
    EFFECT_COUNT_,
};
extern const char *const trust_effect_names[EFFECT_COUNT_ + 1];

enum { TRUST_TIER_MAX = 4, TRUST_VERSION_TEXT = 17 /* with NUL */ };

struct verdict {
    enum verdict_kind kind;
    enum verdict_kind would; /* the verdict of mode `enforce`; differs from kind in other modes */
    unsigned tier;           /* 0 to TRUST_TIER_MAX */
    enum trust_effect effect;
    bool granted;     /* ALLOW by a master's grant */
    int64_t retry_ns; /* RATE_LIMIT: time until a retry may succeed; 0: unknown */
    /* deciding rule: "tools.sandbox_exec.when.network.approval" */
    char rule[112];
    char reason[232];                 /* one sentence, for the caller */
    char version[TRUST_VERSION_TEXT]; /* of the bundle: the start of its hash */
    char audit_id[ID_MAX];            /* "aud_…": id of the audit event */
    char request_id[ID_MAX];          /* REQUIRE_APPROVAL: "req_…"; else "" */
};

#endif
