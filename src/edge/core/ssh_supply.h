/* SPDX-License-Identifier: Apache-2.0 */
/* Caches the host's sshd files ("kit"): read at the first use, and again when they change. */
#ifndef EDGE_CORE_SSH_SUPPLY_H
#define EDGE_CORE_SSH_SUPPLY_H

#include "edge/core/call.h"
#include "lib/ssh/kit.h"

struct ssh_supply;

/* A waiting request for the kit: a member of its owner. */
struct ssh_order {
    /* Called once, possibly inside ssh_supply_order(). The kit is borrowed for the callback; NULL
     * if r < 0. */
    void (*done)(struct ssh_order *o, int r, const struct err *e, const struct ssh_kit *kit);
    struct link link_;
};
void ssh_supply_order(struct api *a, struct ssh_order *o);

void ssh_supply_free(struct ssh_supply *s); /* NULL is fine; pending orders are not completed */

#endif
