/* Policy DNS over TCP: many questions a connection, behind two bytes of length each, answered as
 * they are decided. Connections, waiting questions and unread answers are bounded; a client that
 * does not go on is closed after EGRESS_DNS_IDLE_NS. */
#ifndef EGRESS_ADAPTERS_DNS_TCP_H
#define EGRESS_ADAPTERS_DNS_TCP_H

#include "egress/adapters/names.h"

struct dns_tcp;

/* Serves a listening socket, which stays the caller's. */
int dns_tcp_new(struct names *n, struct loop *l, int fd, struct dns_tcp **ret, struct err *e);
void dns_tcp_free(struct dns_tcp *t); /* with every connection; NULL is fine */

#endif
