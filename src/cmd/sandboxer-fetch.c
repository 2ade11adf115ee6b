/* SPDX-License-Identifier: Apache-2.0 */
/* The fetch process: makes the daemon's requests to HTTP servers for the control plane, which it
 * serves on the socket that it was started with (descriptor 3). See engine/fetcher/server.h. */
#include <unistd.h>

#include "engine/fetcher/server.h"
#include "lib/proc/oom.h"

enum { SOCKET = 3 };

int main(void)
{
    (void)oom_set(OOM_HELPER, NULL);
    _exit(fetcher_serve(SOCKET)); /* threads that look up names need not be waited for */
}
