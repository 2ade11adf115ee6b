/* The policy bundle: which tool may be called by whom, how often, and with what.
 * policies/default.yaml is one; docs/trust.md has the format.
 *
 * A bundle is read from YAML, checked, compiled, and then never changes: who decides under it holds
 * a reference, and a newer one takes its place as a whole. */
#ifndef TRUST_BUNDLE_H
#define TRUST_BUNDLE_H

#include "json/bind.h"
#include "model/request.h"
#include "model/role.h"
#include "trust/pattern.h"
#include "trust/verdict.h"

enum {
    BUNDLE_BYTES_MAX = 1 << 20,
    BUNDLE_RULES_MAX = 10000,
    BUNDLE_ARGS_MAX = 32, /* of a rule */
    BUNDLE_WHEN_MAX = 16, /* of a rule */
    BUNDLE_NAME_MAX = 64,
    BUNDLE_TEXT_MAX = 1 << 20, /* bytes of an argument that a pattern looks at, at most */
};

enum trust_mode { TRUST_ENFORCE, TRUST_AUDIT, TRUST_OFF, TRUST_MODE_COUNT_ };
extern const char *const trust_mode_names[TRUST_MODE_COUNT_ + 1];

enum trust_gate { GATE_NONE, GATE_MASTER };

/* So many calls in so long, and so many at once. */
struct trust_rate {
    uint64_t calls; /* 0: as many as it likes */
    int64_t per_ns;
    uint64_t burst; /* 0: as many as `calls` */
};

/* What an argument must look like. */
struct trust_arg {
    const char *name;
    bool required;
    uint64_t max_bytes; /* of a text */
    const char *pattern_text;
    const struct pattern *pattern; /* NULL: any text */
};

/* What a rule demands of the peer. */
struct trust_terms {
    uint64_t tier;
    enum role role; /* the lowest that may */
    enum trust_gate approval;
    bool tier_given, role_given, approval_given;
};

/* Other terms, for calls that all of this is true of. */
struct trust_when {
    const char *name;
    bool network, network_given;
    unsigned filesystem; /* 0 ro, 1 rw */
    bool filesystem_given;
    struct json_strs clients; /* kinds of them; none: every */
    struct trust_terms terms;
};

struct trust_rule {
    const char *tool;
    const char *note; /* for people; may be NULL */
    struct trust_terms terms;
    enum trust_effect effect;
    bool creates; /* its `capabilities` argument declares, and the peer's limits count */
    struct trust_rate rate;
    struct json_objects args; /* of struct trust_arg */
    struct json_objects when; /* of struct trust_when, the first that fits counts */
};

/* What a peer may have, by its role; what is not given has no limit. */
struct trust_limits {
    int64_t sandboxes_per_hour, minutes_per_day, concurrent;
    bool per_hour_given, per_day_given, concurrent_given;
};

struct trust_bundle {
    unsigned refs;
    struct arena arena;
    uint64_t format;
    enum trust_mode mode;
    struct {
        int64_t expiry_ns;         /* how long a call waits for a master */
        uint64_t pending_per_peer; /* how many of a peer wait at once */
    } approvals;
    struct trust_limits limits[ROLE_COUNT_];
    struct json_objects tools;       /* of struct trust_rule */
    const struct trust_rule **table; /* by tool's name: open addressing … */
    size_t mask;                     /* … with mask + 1 slots */
    bool asks_filesystem;            /* a `when` does */
    char version[TRUST_VERSION_TEXT];
};

extern const struct json_field trust_bundle_fields[];
extern const size_t trust_bundle_field_count;

/* Messages say line and field: "line 7: tools.sandbox_exec.tier: …"; the file is the caller's to
 * name. The version is a hash of the text. */
int trust_bundle_read(struct str yaml, struct trust_bundle **ret, struct err *e);
struct trust_bundle *trust_bundle_ref(struct trust_bundle *b);
void trust_bundle_unref(struct trust_bundle *b); /* NULL is fine */

/* The rule of a tool, or NULL. Takes the same time however many there are. */
const struct trust_rule *trust_bundle_find(const struct trust_bundle *b, struct str tool);

/* The bundle that is part of the program: policies/default.yaml as it was built. */
extern const char trust_builtin_yaml[];
extern const size_t trust_builtin_size;

#endif
