/* SPDX-License-Identifier: Apache-2.0 */
/* Placement targets: this machine, those of the configuration, and those in the store. */
#ifndef CONTROL_HOST_HOSTS_H
#define CONTROL_HOST_HOSTS_H

#include "control/owner/caller.h"
#include "domain/store/store.h"
#include "lib/loop/loop.h"

struct control;

/* Adds or removes a host of the store. */
struct host_op {
    struct host_record record; /* in: name, and to add one: address, labels, borrowed until done */
    void (*done)(struct host_op *op, int r, const struct err *e);
    /* private */
    struct control *control_;
    bool add_;
    struct store_query query_;
    struct store_txn txn_;
    struct event_record event_;
    struct loop_later later_;
    struct err err_;
};
/* It cannot be cancelled: the owner stays until done. -ERR_CONFLICT if the name is taken. */
void hosts_add(struct control *c, const struct caller *who, struct host_op *op);
/* -ERR_NOT_FOUND; -ERR_CONFLICT if the configuration names it. */
void hosts_remove(struct control *c, const struct caller *who, struct host_op *op);

/* Whether it is this machine, or in the configuration. */
bool hosts_configured(const struct control *c, const char *name);

#endif
