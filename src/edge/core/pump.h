/* SPDX-License-Identifier: Apache-2.0 */
/* Copies bytes between an upgraded client connection and a socket, with back-pressure. It is the
 * first member of its call's state. */
#ifndef EDGE_CORE_PUMP_H
#define EDGE_CORE_PUMP_H

#include "edge/core/call.h"
#include "lib/loop/fd.h"

enum { PUMP_CHUNK = 64 << 10, PUMP_PENDING_MAX = 1 << 20 };

struct pump {
    struct call *call;
    struct loop_fd inner; /* .fd -1: none */
    bool client_full;     /* full until on_pump_drain() */
    struct buf pending;   /* bytes for the inner socket, which is full */
};

void pump_init(struct pump *p, struct call *c);
/* Upgrades the request with these headers and starts copying; takes the socket, also on failure.
 * `first`: bytes that were read already, for the client. */
int pump_start(struct pump *p, int fd, const struct h1_field *fields, size_t n, struct str first,
               struct err *e);
void pump_stop(struct pump *p); /* the client disconnected */
void pump_done(struct pump *p);

#endif
