/* The addresses of this machine's own interfaces, as they are now: nothing that we dial for a
 * sandbox may end there, whatever class the address has, unless an endpoint declares exactly it.
 *
 * Read by rtnetlink over one socket, and again whenever the kernel says that they changed, so that
 * a confined process keeps up with them. What cannot be read is not known to be somebody else's:
 * own_addresses_has() then says yes to everything. */
#ifndef EGRESS_OWN_ADDRESSES_H
#define EGRESS_OWN_ADDRESSES_H

#include "loop/fd.h"
#include "loop/timer.h"
#include "net/address.h"

enum { OWN_ADDRESSES_MAX = 4096 };

struct own_addresses {
    struct address *list; /* sorted */
    size_t n;
    bool unknown; /* reading failed, or there are more than OWN_ADDRESSES_MAX */

    int news_, dump_;
    uint32_t number_; /* of the last dump */
    bool started_;
    struct loop_fd fd_;
    struct loop_timer timer_;
};

/* Reads them once and follows their changes from then on. The struct must not be moved. */
int own_addresses_start(struct own_addresses *o, struct loop *l, struct err *e);
void own_addresses_done(struct own_addresses *o); /* harmless on a zeroed one */

/* Mapped IPv6 counts as the IPv4 in it. */
bool own_addresses_has(const struct own_addresses *o, const struct address *a);

/* One message of a dump or a change, for tests: adds the address in it, if it has one. */
struct nlmsghdr;
bool own_addresses_read_(const struct nlmsghdr *h, struct address *ret);

#endif
