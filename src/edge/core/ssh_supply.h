/* What sshd is started from, read when somebody first needs it, and again when the machine has
 * another. */
#ifndef API_SSH_SUPPLY_H
#define API_SSH_SUPPLY_H

#include "api/call.h"
#include "ssh/kit.h"

struct ssh_supply;

/* Who waits for it: a member of its owner. */
struct ssh_order {
    /* Once, and it may be from inside ssh_supply_order(). The kit is borrowed for the call; NULL if
     * r < 0. */
    void (*done)(struct ssh_order *o, int r, const struct err *e, const struct ssh_kit *kit);
    struct link link_;
};
void ssh_supply_order(struct api *a, struct ssh_order *o);

void ssh_supply_free(struct ssh_supply *s); /* NULL is fine; whoever waits is not told */

#endif
