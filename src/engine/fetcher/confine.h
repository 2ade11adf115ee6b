/* The fence of the fetch process (fence/fence.h): outgoing connections, name resolution and TLS. */
#ifndef FETCHER_CONFINE_H
#define FETCHER_CONFINE_H

#include "base/err.h"

/* Before the first thread, and after libcurl was initialised. */
int fetcher_confine(struct err *e);

#endif
