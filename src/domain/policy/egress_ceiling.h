/* SPDX-License-Identifier: Apache-2.0 */
/* The ceiling of egress policies: the limit of what a policy may allow, for every author.
 *
 * A ceiling has a reach and a list of places. Destinations within the reach need no entry in the
 * list. The control plane makes the ceiling of a caller (control/egress/ceiling.h), refuses
 * policies that exceed it, and sends it to the worker with each policy. The worker checks it again
 * for every connection, so a policy that was accepted by mistake opens nothing.
 *
 * No ceiling allows metadata services or ports of cluster control planes: those checks come first
 * (egress_check.h, egress_connect()). */
#ifndef DOMAIN_POLICY_EGRESS_CEILING_H
#define DOMAIN_POLICY_EGRESS_CEILING_H

#include "base/buf.h"
#include "domain/policy/egress.h"

/* From the narrowest to the widest. */
enum egress_reach {
    EGRESS_REACH_NONE,    /* no network */
    EGRESS_REACH_PROFILE, /* the destinations of the profile */
    EGRESS_REACH_LISTED,  /* also the destinations that the configuration lists */
    EGRESS_REACH_PUBLIC,  /* also every public destination */
    EGRESS_REACH_LOCAL,   /* also loopback, private networks and this machine's own addresses */
    EGRESS_REACH_COUNT_,
};
extern const char *const egress_reach_names[EGRESS_REACH_COUNT_ + 1];

enum { EGRESS_PLACES_MAX = 4096, EGRESS_CEILING_BYTES_MAX = 1 << 20, EGRESS_FROM_MAX = 160 };

/* One entry of the list: a name with or without wildcards, an address or a prefix; and ports. */
struct egress_place {
    bool is_prefix;
    struct prefix prefix; /* if is_prefix */
    struct str host;      /* otherwise: a pattern for host_pattern_parse() */
    uint16_t ports[EGRESS_PORTS_MAX];
    size_t port_count; /* 0: every port */
};

/* Parses "HOST[:PORTS]", "ADDRESS[/BITS][:PORTS]", "[ADDRESS6[/BITS]][:PORTS]", where PORTS is a
 * list of numbers separated by ',', or '*' for every port. default_port is used without PORTS; 0:
 * they are required. Returns NULL, or the error. *ret borrows from text. */
const char *egress_place_parse(struct str text, uint16_t default_port, struct egress_place *ret);

struct egress_ceiling {
    enum egress_reach reach;
    /* the setting that determines the reach, for messages: "configuration egress.most" */
    const char *from;
    struct json_strs places;         /* texts for egress_place_parse(), with ports */
    const struct egress_place *list; /* the same, parsed; places.n of them */
};

/* Parses the places. places and `from` are borrowed; *ret's list is on the arena. */
int egress_ceiling_make(enum egress_reach reach, const char *from, struct json_strs places,
                        struct arena *a, struct egress_ceiling *ret, struct err *e);
/* The JSON form, which is passed between processes. */
int egress_ceiling_read(struct str json, struct arena *a, struct egress_ceiling *ret,
                        struct err *e);
int egress_ceiling_write(const struct egress_ceiling *c, struct buf *out, struct err *e);

/* The addresses of this machine; n 0: not known, the worker decides. */
struct egress_own {
    const struct address *list;
    size_t n;
};

/* Whether the ceiling covers everything that the policy allows. -ERR_DENIED names the first
 * destination beyond it, the ceiling, and the setting it comes from. The policy must be checked. */
int egress_ceiling_check(const struct egress_ceiling *c, const struct egress_policy *p,
                         struct egress_own own, struct err *e);

/* The worker's queries. c NULL: no ceiling. port 0: any port. */
bool egress_ceiling_has_name(const struct egress_ceiling *c, struct str name, uint16_t port);
/* own: the address is one of this machine's, of any class. */
bool egress_ceiling_has_address(const struct egress_ceiling *c, const struct address *a,
                                uint16_t port, bool own);

/* Writes the reason as an unfinished sentence, such as "127.0.0.1:80 is a loopback address, which
 * …". Returns out. */
enum { EGRESS_CEILING_TEXT = 256 };
const char *egress_ceiling_why(const struct egress_ceiling *c, const char *host,
                               const struct address *a, uint16_t port, bool own,
                               char out[static EGRESS_CEILING_TEXT]);

#endif
