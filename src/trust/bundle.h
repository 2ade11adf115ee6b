/* SPDX-License-Identifier: Apache-2.0 */
/* The policy bundle: which roles may call which tool, how often, and with which arguments.
 * policies/default.yaml is an example; docs/trust.md has the format.
 *
 * A bundle is parsed from YAML, checked and compiled, and is immutable afterwards. Users hold
 * references; a reload replaces the whole bundle. */
#ifndef TRUST_BUNDLE_H
#define TRUST_BUNDLE_H

#include "lib/json/bind.h"
#include "lib/map/map.h"
#include "domain/model/request.h"
#include "domain/model/role.h"
#include "trust/pattern.h"
#include "trust/verdict.h"

enum {
    BUNDLE_BYTES_MAX = 1 << 20,
    BUNDLE_RULES_MAX = 10000,
    BUNDLE_ARGS_MAX = 32, /* per rule */
    BUNDLE_WHEN_MAX = 16, /* per rule */
    BUNDLE_NAME_MAX = 64,
    BUNDLE_TEXT_MAX = 1 << 20, /* maximum length of an argument that has a pattern */
};

enum trust_mode { TRUST_ENFORCE, TRUST_AUDIT, TRUST_OFF, TRUST_MODE_COUNT_ };
extern const char *const trust_mode_names[TRUST_MODE_COUNT_ + 1];

enum trust_gate { GATE_NONE, GATE_MASTER };

/* A rate limit: `calls` per `per_ns`, with a burst. */
struct trust_rate {
    uint64_t calls; /* 0: unlimited */
    int64_t per_ns;
    uint64_t burst; /* 0: as many as `calls` */
};

/* Constraints on one argument. */
struct trust_arg {
    const char *name;
    bool required;
    uint64_t max_bytes; /* for strings */
    const char *pattern_text;
    const struct pattern *pattern; /* NULL: any string */
};

/* Requirements on the peer. */
struct trust_terms {
    uint64_t tier;
    enum role role; /* minimum role */
    enum trust_gate approval;
    bool tier_given, role_given, approval_given;
};

/* Different terms for calls that meet all of these conditions. */
struct trust_when {
    const char *name;
    bool network, network_given;
    unsigned filesystem; /* 0 ro, 1 rw */
    bool filesystem_given;
    struct json_strs clients; /* kinds of client; empty: all */
    struct trust_terms terms;
};

struct trust_rule {
    const char *tool;
    struct map_entry entry;
    const char *note; /* for people; may be NULL */
    struct trust_terms terms;
    enum trust_effect effect;
    bool creates; /* it creates sandboxes: `capabilities` are checked, and limits apply */
    struct trust_rate rate;
    struct json_objects args; /* of struct trust_arg */
    struct json_objects when; /* of struct trust_when, the first match applies */
};

/* Limits of a role; those not given are unlimited. */
struct trust_limits {
    int64_t sandboxes_per_hour, minutes_per_day, concurrent;
    bool per_hour_given, per_day_given, concurrent_given;
};

struct trust_bundle {
    struct arena arena;
    uint64_t format;
    enum trust_mode mode;
    struct {
        int64_t expiry_ns;         /* how long a call waits for a master */
        uint64_t pending_per_peer; /* maximum of waiting calls per peer */
    } approvals;
    struct trust_limits limits[ROLE_COUNT_];
    struct json_objects tools; /* of struct trust_rule */
    struct map rules;          /* the same, by tool */
    bool asks_filesystem;      /* a `when` has a filesystem condition */
    char version[TRUST_VERSION_TEXT];
};

extern const struct json_field trust_bundle_fields[];
extern const size_t trust_bundle_field_count;

/* Errors name line and field: "line 7: tools.sandbox_exec.tier: …"; the caller adds the file. The
 * version is a hash of the text. */
int trust_bundle_read(struct str yaml, struct trust_bundle **ret, struct err *e);
void trust_bundle_free(struct trust_bundle *b); /* NULL is fine */

/* The rule of a tool, or NULL; constant time. */
const struct trust_rule *trust_bundle_find(const struct trust_bundle *b, struct str tool);

/* The built-in bundle: policies/default.yaml at build time. */
extern const char trust_builtin_yaml[];
extern const size_t trust_builtin_size;

#endif
