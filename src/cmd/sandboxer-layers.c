/* SPDX-License-Identifier: Apache-2.0 */
/* A layer worker: does the one job that comes on the socket it was started with (descriptor 3)
 * in the storage directory (descriptor 4). See engine/layers/job.h.
 *
 *     --peer untrusted   the socket was given to a process without our rights */
#include <string.h>

#include "engine/layers/worker.h"
#include "lib/proc/oom.h"

enum { SOCKET = 3, STORAGE = 4 };

int main(int argc, char **argv)
{
    bool untrusted =
        argc == 3 && strcmp(argv[1], "--peer") == 0 && strcmp(argv[2], "untrusted") == 0;

    (void)oom_set(OOM_HELPER, NULL);
    return layer_worker_run(SOCKET, STORAGE, untrusted);
}
