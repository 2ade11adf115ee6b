/* SPDX-License-Identifier: Apache-2.0 */
/* The current addresses of this machine's interfaces: no connection that a worker dials for a
 * sandbox may end at one of them, of any address class, unless an endpoint declares exactly that
 * address.
 *
 * Reads them by rtnetlink, and again after each notification of a change, so that a confined
 * process stays current. If reading fails, own_addresses_has() returns true for every address (fail
 * closed). */
#ifndef ENGINE_EGRESS_OWN_ADDRESSES_H
#define ENGINE_EGRESS_OWN_ADDRESSES_H

#include "lib/loop/fd.h"
#include "lib/loop/timer.h"
#include "lib/net/address.h"

enum { OWN_ADDRESSES_MAX = 4096 };

struct own_addresses {
    struct address *list; /* sorted */
    size_t n;
    bool unknown; /* reading failed, or there are more than OWN_ADDRESSES_MAX */

    int news_, dump_;
    uint32_t number_; /* sequence number of the last dump */
    bool started_;
    struct loop_fd fd_;
    struct loop_timer timer_;
};

/* Reads the addresses and follows their changes from then on. The struct must not be moved. */
int own_addresses_start(struct own_addresses *o, struct loop *l, struct err *e);
void own_addresses_done(struct own_addresses *o); /* accepts a zeroed struct */

/* An IPv4-mapped IPv6 address counts as its IPv4 address. */
bool own_addresses_has(const struct own_addresses *o, const struct address *a);

/* Parses one message of a dump or a change, for tests; true if it has an address. */
struct nlmsghdr;
bool own_addresses_read_(const struct nlmsghdr *h, struct address *ret);

#endif
