/* What a snapshot is made of. Private to the module. */
#ifndef POLICY_COMPILED_H
#define POLICY_COMPILED_H

#include "policy/egress.h"
#include "policy/egress_ceiling.h"
#include "policy/glob.h"
#include "policy/trie.h"

struct programs { /* who may */
    bool any;
    const struct glob **p;
    size_t n;
};

struct prefixes {
    struct prefix *p;
    size_t n;
};

struct query_c {
    struct str key, folded; /* folded as path_query_fold() does */
    const struct glob **any;
    size_t n;
};

struct rule_c {              /* its globs are wide if it denies */
    struct str method;       /* upper case; n == 0: every */
    const struct glob *path; /* NULL: every */
    const struct query_c *query;
    size_t query_count;
    struct str place;
};

/* Of an entry that runs out. The one thing in a snapshot that changes, and never back. */
struct egress_limit {
    struct str policy, place;
    struct str until_text; /* n == 0: by uses alone */
    int64_t until;         /* INT64_MAX: by uses alone */
    bool counted;
    uint32_t uses, left;
    bool ended; /* its time is over */
};

static inline bool limit_is_over(const struct egress_limit *l)
{
    return l && (l->ended || (l->counted && l->left == 0));
}

struct egress_endpoint_c {
    struct str policy, name, place;
    struct egress_limit *limit; /* NULL: for ever */
    struct str host;            /* as messages show it */
    size_t order;               /* of all endpoints */
    const struct programs *who;
    enum egress_protocol protocol;
    enum egress_tls tls;
    enum egress_access access;
    bool audit, encoded_slash;
    bool wild;       /* the host has wildcards, or there is none */
    bool is_address; /* the host is this one: */
    struct address address;
    struct prefixes allowed;
    const struct glob *path, *path_wide; /* NULL: every; the wide one is for its denies */
    size_t specificity;
    uint32_t allows, denies; /* nodes above the rules; those of `denies` are in lower case */
    bool has_denies;
    const uint16_t *ports;
    size_t port_count;
};

struct egress_snapshot {
    struct arena arena;
    unsigned refs;
    uint64_t generation;
    struct trie trie;
    uint32_t hosts; /* the node above all hosts; endpoints without one hang there */
    size_t endpoint_count;
    struct egress_limit *limits;
    size_t limit_count;
    enum egress_unlisted unlisted;
    struct prefixes allowed, denied;      /* of what is unlisted */
    const struct egress_ceiling *ceiling; /* NULL: none */
};

#define EGRESS_CEILING_NEXT                                                                        \
    "Ask an administrator to set this policy, or to list the destination in the configuration."

/* Lengths of an INFIX label's parts, at the SHAPES node. */
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

/* The port as the name of an edge. */
static inline struct str port_key(const uint16_t *port)
{
    return (struct str){ (const char *)port, sizeof *port };
}

/* Whether the host of the endpoint is at exact addresses that are not public. */
bool egress_endpoint_at_known_(const struct egress_endpoint_c *ep);

/* Fills the reason; text and next are formats. */
void egress_reason_set_(struct egress_reason *why, const char *code, struct str rule,
                        const char *next, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#endif
