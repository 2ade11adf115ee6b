/* SPDX-License-Identifier: Apache-2.0 */
/* Policy DNS over TCP: many questions on one connection, each after a length of two bytes, answered
 * in the order of their decisions. Connections, waiting questions and unread answers are limited; a
 * client that is idle for EGRESS_DNS_IDLE_NS is disconnected. */
#ifndef ENGINE_EGRESS_ADAPTERS_DNS_TCP_H
#define ENGINE_EGRESS_ADAPTERS_DNS_TCP_H

#include "engine/egress/adapters/names.h"

struct dns_tcp;

/* Serves a listening socket, which the caller keeps. *ret is set also on failure. */
int dns_tcp_new(struct dns_names *n, struct loop *l, int fd, struct dns_tcp **ret, struct err *e);
void dns_tcp_free(struct dns_tcp *t); /* closes every connection; accepts NULL */

#endif
