/* SPDX-License-Identifier: Apache-2.0 */
/* The fence of the fetch process (lib/fence/fence.h): outgoing connections, name resolution and
 * TLS. */
#ifndef ENGINE_FETCHER_CONFINE_H
#define ENGINE_FETCHER_CONFINE_H

#include "base/err.h"

/* Before the first thread, and after libcurl was initialised. */
int fetcher_confine(struct err *e);

#endif
