/* One question, asked of a resolver's servers until one of them settles it. Private to dns. */
#ifndef DNS_ASK_H
#define DNS_ASK_H

#include "dns/resolver.h"

/* `resolver`, `settled` and `question` are set, fd is -1, the rest zeroed. Ends with outcome and
 * answer filled and a call of settled(); if nobody can be asked, from inside this one. */
void dns_ask_start(struct dns_ask_ *a);

void dns_ask_stop(struct dns_ask_ *a); /* does not call settled() */

#endif
