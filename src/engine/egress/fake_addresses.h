/* SPDX-License-Identifier: Apache-2.0 */
/* Synthetic addresses of policy DNS, mapped to a name, its ports and its real addresses.
 *
 * Each box assigns pairs of one address of 198.18.0.0/15 (IPv4) and one of a ULA prefix (IPv6), one
 * pair for each name. An address is never reassigned to another name during the life of the box,
 * because any program may have cached an old answer. When the range is used up, new names are
 * refused. When EGRESS_MAPPINGS_MAX names are mapped, a new name replaces an expired one, which
 * gets new addresses when it is asked for again. */
#ifndef ENGINE_EGRESS_FAKE_ADDRESSES_H
#define ENGINE_EGRESS_FAKE_ADDRESSES_H

#include "engine/egress/authorize.h"

struct fake_addresses;

struct fake_addresses *fake_addresses_new(void);
void fake_addresses_free(struct fake_addresses *m); /* accepts NULL */

struct fake_mapping {
    char name[HOST_MAX + 1];
    struct egress_ports ports; /* allowed ports when it was resolved */
    struct address pinned[EGRESS_PINNED_MAX];
    size_t n_pinned;
    uint64_t generation; /* of the policy that allowed it */
    int64_t expires;     /* CLOCK_MONOTONIC ns */
};

/* The pair of synthetic addresses of a name. */
struct synthetic {
    struct address v4, v6;
};

/* Maps a name, or renews its mapping; a known name keeps its addresses. `now` is CLOCK_MONOTONIC.
 * -ERR_BUSY: EGRESS_MAPPINGS_MAX names are mapped and none has expired. -ERR_TOO_BIG: no addresses
 * are left. */
int fake_addresses_put(struct fake_addresses *m, const struct fake_mapping *what, int64_t now,
                       struct synthetic *ret, struct err *e);
/* Returns NULL for an address that was never assigned. Also returns expired mappings and those of
 * another generation: only their name is still valid. */
const struct fake_mapping *fake_addresses_find(const struct fake_addresses *m,
                                               const struct address *synthetic);
/* Looks a mapping up by its canonical name. */
const struct fake_mapping *fake_addresses_find_name(const struct fake_addresses *m, struct str name,
                                                    struct synthetic *ret);
bool fake_addresses_is_synthetic(const struct address *a); /* in either range */

#endif
