/* Policy DNS's synthetic addresses: which name, ports and real addresses stand behind each.
 *
 * A box hands out addresses of 198.18.0.0/15 (IPv4) and of a ULA prefix (IPv6) of its own, one pair
 * a name. One is never given to another name as long as the box lives: an old answer may be cached
 * anywhere. When the range is used up, new names are refused. Of EGRESS_MAPPINGS_MAX names an
 * expired one makes room for another; it gets new addresses when it comes back. */
#ifndef EGRESS_MAPPING_H
#define EGRESS_MAPPING_H

#include "egress/authorize.h"

struct mapping;

struct mapping *mapping_new(void);
void mapping_free(struct mapping *m); /* NULL is fine */

struct mapped {
    char name[HOST_MAX + 1];
    struct egress_ports ports; /* eligible when it was resolved */
    struct address pinned[EGRESS_PINNED_MAX];
    size_t n_pinned;
    uint64_t generation; /* of the policy that allowed it */
    int64_t expires;     /* CLOCK_MONOTONIC ns */
};

/* The addresses that stand for a name. */
struct synthetic {
    struct address v4, v6;
};

/* Maps a name, or renews it: its addresses, the same as before for a known name. `now` is
 * CLOCK_MONOTONIC. -ERR_BUSY: as many names as there may be are alive. -ERR_TOO_BIG: there are no
 * addresses left. */
int mapping_put(struct mapping *m, const struct mapped *what, int64_t now, struct synthetic *ret,
                struct err *e);
/* NULL: never handed out. An expired one, or one of another generation, is found too: its name
 * still holds, the rest does not. */
const struct mapped *mapping_find(const struct mapping *m, const struct address *synthetic);
/* The same by its canonical name. */
const struct mapped *mapping_find_name(const struct mapping *m, struct str name,
                                       struct synthetic *ret);
bool mapping_is_synthetic(const struct address *a); /* in either range */

#endif
