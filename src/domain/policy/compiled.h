/* SPDX-License-Identifier: Apache-2.0 */
/* The data structures of a snapshot. Private to the module. */
#ifndef DOMAIN_POLICY_COMPILED_H
#define DOMAIN_POLICY_COMPILED_H

#include "domain/policy/egress.h"
#include "domain/policy/egress_ceiling.h"
#include "domain/policy/glob.h"
#include "domain/policy/trie.h"

struct programs { /* the programs of an endpoint */
    bool any;
    const struct glob **p;
    size_t n;
};

struct prefixes {
    struct prefix *p;
    size_t n;
};

struct query_c {
    struct str key, folded; /* folded: result of path_query_fold() */
    const struct glob **any;
    size_t n;
};

struct rule_c {              /* its globs are of a wide dialect if it denies */
    struct str method;       /* upper case; n == 0: every method */
    const struct glob *path; /* NULL: every path */
    const struct query_c *query;
    size_t query_count;
    struct str place;
};

/* The limits of an entry with `until` or `uses`. The only mutable part of a snapshot; an ended
 * entry never becomes valid again. */
struct egress_limit {
    struct str policy, place;
    struct str until_text; /* n == 0: limited by uses only */
    int64_t until;         /* INT64_MAX: limited by uses only */
    bool counted;
    uint32_t uses, left;
    bool ended; /* its time has passed */
};

static inline bool limit_is_over(const struct egress_limit *l)
{
    return l && (l->ended || (l->counted && l->left == 0));
}

struct egress_endpoint_c {
    struct str policy, name, place;
    struct egress_limit *limit; /* NULL: permanent */
    struct str host;            /* for messages */
    size_t order;               /* position among all endpoints */
    const struct programs *who;
    enum egress_protocol protocol;
    enum egress_tls tls;
    enum egress_access access;
    bool audit, encoded_slash;
    bool wild;       /* the host has wildcards, or is absent */
    bool is_address; /* the host is this one: */
    struct address address;
    struct prefixes allowed;
    const struct glob *path, *path_wide; /* NULL: every path; the wide one is for deny rules */
    size_t specificity;
    uint32_t allows, denies; /* root nodes of the rules; those of `denies` are in lower case */
    bool has_denies;
    const uint16_t *ports;
    size_t port_count;
};

struct egress_snapshot {
    struct arena arena;
    unsigned refs;
    uint64_t generation;
    struct trie trie;
    uint32_t hosts; /* root node of all hosts; has the endpoints without a host */
    size_t endpoint_count;
    struct egress_limit *limits;
    size_t limit_count;
    enum egress_unlisted unlisted;
    struct prefixes allowed, denied;      /* of `unlisted` */
    const struct egress_ceiling *ceiling; /* NULL: none */
};

#define EGRESS_CEILING_NEXT                                                                        \
    "Ask an administrator to set this policy, or to list the destination in the configuration."

/* Lengths of the parts of an INFIX label, stored at the SHAPES node. */
struct shape {
    uint8_t prefix, suffix;
};

enum { LABEL_KEY = 64 };

/* "ab*cd", as the key of an edge. */
static inline struct str infix_key(struct str prefix, struct str suffix, char out[static LABEL_KEY])
{
    memcpy(out, prefix.p, prefix.n);
    out[prefix.n] = '*';
    memcpy(out + prefix.n + 1, suffix.p, suffix.n);
    return (struct str){ out, prefix.n + 1 + suffix.n };
}

/* The port as the label of an edge. */
static inline struct str port_key(const uint16_t *port)
{
    return (struct str){ (const char *)port, sizeof *port };
}

/* Whether the endpoint's host is at exact addresses that are not public. */
bool egress_endpoint_at_known_(const struct egress_endpoint_c *ep);

/* Fills the reason; text and next are formats. */
void egress_reason_set_(struct egress_reason *why, const char *code, struct str rule,
                        const char *next, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* The same for a refusal; its value is EGRESS_DENIED. */
#define egress_refuse_(why, ...) (egress_reason_set_((why), __VA_ARGS__), EGRESS_DENIED)

#endif
