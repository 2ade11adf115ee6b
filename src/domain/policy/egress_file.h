/* Policies as text: the YAML that people write, and the JSON in which one process hands a policy to
 * another. docs/egress-policy.md has the format. */
#ifndef POLICY_EGRESS_FILE_H
#define POLICY_EGRESS_FILE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "policy/egress_policy.h"

enum {
    EGRESS_FILE_BYTES_MAX = 1 << 20,
    EGRESS_FILE_DEPTH_MAX = 16,
    EGRESS_JSON_BYTES_MAX = 16 << 20, /* all defaults are written out in it */
    EGRESS_MEMORY_MAX = 128 << 20,    /* what to give an arena for a policy */
};

/* *ret is checked (egress_check.h) and lies on the arena. An empty text is an error, not a policy
 * that allows nothing or everything. Messages name line and field: "line 7:
 * network_policies.web.endpoints[0].host: …"; the file is the caller's to name. */
int egress_policy_read(struct str yaml, struct arena *a, struct egress_policy *ret, struct err *e);

/* The same for a file below the directory dir; flags as in yaml/file.h. */
int egress_policy_read_file(int dir, const char *file, unsigned flags, struct arena *a,
                            struct egress_policy *ret, struct err *e);

/* The same again for JSON. It is not trusted either. */
int egress_policy_from_json(struct str json, struct arena *a, struct egress_policy *ret,
                            struct err *e);

/* Canonical: what is read back is written the same, byte for byte. The policy must be checked. */
int egress_policy_to_json(const struct egress_policy *p, struct buf *out, struct err *e);

#endif
