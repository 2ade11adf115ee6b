/* SPDX-License-Identifier: Apache-2.0 */
/* Policies as text: YAML, written by people, and JSON, passed between processes.
 * docs/egress-policy.md describes the format. */
#ifndef DOMAIN_POLICY_EGRESS_FILE_H
#define DOMAIN_POLICY_EGRESS_FILE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "domain/policy/egress_policy.h"

enum {
    EGRESS_FILE_BYTES_MAX = 1 << 20,
    EGRESS_FILE_DEPTH_MAX = 16,
    EGRESS_JSON_BYTES_MAX = 16 << 20, /* larger, because all defaults are written out */
    EGRESS_MEMORY_MAX = 128 << 20,    /* size of an arena for a policy */
};

/* *ret is checked (egress_check.h) and on the arena. An empty text is an error, not a policy.
 * Messages name line and field: "line 7: network_policies.web.endpoints[0].host: …"; the caller
 * adds the file. */
int egress_policy_read(struct str yaml, struct arena *a, struct egress_policy *ret, struct err *e);

/* The same, and the document as it is written, for programs that change it. */
int egress_policy_read_document(struct str yaml, struct arena *a, struct egress_policy *ret,
                                const struct json **ret_document, struct err *e);

/* The same for a file below the directory dir; flags as in lib/yaml/file.h. */
int egress_policy_read_file(int dir, const char *file, unsigned flags, struct arena *a,
                            struct egress_policy *ret, struct err *e);

/* The same for JSON, which is not trusted either. */
int egress_policy_from_json(struct str json, struct arena *a, struct egress_policy *ret,
                            struct err *e);

/* Canonical: reading and writing it again gives the same bytes. The policy must be checked. */
int egress_policy_to_json(const struct egress_policy *p, struct buf *out, struct err *e);

#endif
