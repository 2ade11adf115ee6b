/* SPDX-License-Identifier: Apache-2.0 */
/* Host patterns of endpoints: a name, or a name with wildcards.
 *
 *     api.example.com            this name
 *     *.example.com              one label in front
 *     *-api.example.com          … that matches this; with one '*'
 *     **.example.com             one or more labels in front
 *     a.*.example.com            a whole label further on, at most EGRESS_WILD_LABELS_MAX of them
 *
 * The last two labels are always literal, so that no pattern covers a top-level domain. */
#ifndef DOMAIN_POLICY_HOST_PATTERN_H
#define DOMAIN_POLICY_HOST_PATTERN_H

#include "base/str.h"
#include "lib/net/host.h"

enum { HOST_LABELS_MAX = 127 };

enum label_kind {
    LABEL_WORD,
    LABEL_STAR,  /* "*" */
    LABEL_INFIX, /* "ab*cd" */
    LABEL_STARS, /* "**", only as the first */
};

struct label {
    enum label_kind kind;
    struct str text;   /* as written */
    struct str suffix; /* INFIX: behind the '*' … */
    struct str prefix; /* … and before it */
};

struct host_pattern {
    struct label labels[HOST_LABELS_MAX]; /* the last label of the name first */
    size_t n;
    bool wild;
};

/* Returns NULL, or the error. text is in lower case and not an address; *ret borrows from it. */
const char *host_pattern_parse(struct str text, struct host_pattern *ret);

bool host_pattern_match(const struct host_pattern *p, struct str name);

/* Whether some name matches both. */
bool host_pattern_overlap(const struct host_pattern *a, const struct host_pattern *b);

/* Whether `a` matches every name that `b` matches. */
bool host_pattern_covers(const struct host_pattern *a, const struct host_pattern *b);

/* Number of literal labels, counted from the end of the name, before the first wildcard. */
size_t host_pattern_tail(const struct host_pattern *p);

#endif
