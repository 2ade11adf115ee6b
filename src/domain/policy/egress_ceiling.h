/* The ceiling of egress policies: how far a policy may reach, whoever wrote it.
 *
 * A ceiling has a reach and a list of places. The reach says which destinations need no entry in
 * the list. The control plane makes the ceiling of a caller (control/ceiling.h), refuses policies
 * that exceed it, and sends it to the worker with each policy. The worker asks it again for every
 * connection, so a policy that was accepted by mistake opens nothing.
 *
 * No ceiling allows metadata services or ports of cluster control planes: those checks come first
 * (egress_check.h, egress_connect()). */
#ifndef POLICY_EGRESS_CEILING_H
#define POLICY_EGRESS_CEILING_H

#include "base/buf.h"
#include "policy/egress.h"

/* From the narrowest to the widest. */
enum egress_reach {
    EGRESS_REACH_NONE,    /* no network */
    EGRESS_REACH_PROFILE, /* what the profile lets out */
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
    struct str host;      /* else: as host_pattern_parse() takes it */
    uint16_t ports[EGRESS_PORTS_MAX];
    size_t port_count; /* 0: every port */
};

/* "HOST[:PORTS]", "ADDRESS[/BITS][:PORTS]", "[ADDRESS6[/BITS]][:PORTS]", where PORTS is a list of
 * numbers with ',' between, or '*' for every port. default_port is used where there are no PORTS;
 * 0: they are required. NULL, or what is wrong. *ret borrows from text. */
const char *egress_place_parse(struct str text, uint16_t default_port, struct egress_place *ret);

struct egress_ceiling {
    enum egress_reach reach;
    const char *from;        /* what sets the reach, for messages: "configuration egress.most" */
    struct json_strs places; /* as egress_place_parse() takes them, with ports */
    const struct egress_place *list; /* the same, parsed; places.n of them */
};

/* Parses the places; they, `from` and *ret's list lie on the arena or stay the caller's. */
int egress_ceiling_make(enum egress_reach reach, const char *from, struct json_strs places,
                        struct arena *a, struct egress_ceiling *ret, struct err *e);
/* Between processes: JSON. */
int egress_ceiling_read(struct str json, struct arena *a, struct egress_ceiling *ret,
                        struct err *e);
int egress_ceiling_write(const struct egress_ceiling *c, struct buf *out, struct err *e);

/* Whether one of `own` is an address of this machine; own_n 0: not known, the worker decides. */
struct egress_own {
    const struct address *list;
    size_t n;
};

/* Whether everything that the policy allows is within the ceiling. -ERR_DENIED names the first
 * destination that is not, the ceiling and where it is set. The policy must be checked. */
int egress_ceiling_check(const struct egress_ceiling *c, const struct egress_policy *p,
                         struct egress_own own, struct err *e);

/* The questions of the worker. c NULL: no ceiling, all is within it. port 0: some port. */
bool egress_ceiling_has_name(const struct egress_ceiling *c, struct str name, uint16_t port);
/* own: it is an address of this machine, whatever its class. */
bool egress_ceiling_has_address(const struct egress_ceiling *c, const struct address *a,
                                uint16_t port, bool own);

/* Why it is not: a sentence without its end, such as "127.0.0.1:80 is a loopback address, which …".
 * Returns out. */
enum { EGRESS_CEILING_TEXT = 256 };
const char *egress_ceiling_why(const struct egress_ceiling *c, const char *host,
                               const struct address *a, uint16_t port, bool own,
                               char out[static EGRESS_CEILING_TEXT]);

#endif
