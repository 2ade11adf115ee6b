/* A keeper of layers: does the one job that comes on the socket it was started with (descriptor 3)
 * in the storage directory (descriptor 4). See layers/job.h. */
#include "layers/keeper.h"
#include "proc/oom.h"

enum { SOCKET = 3, STORAGE = 4 };

int main(void)
{
    (void)oom_set(OOM_HELPER, NULL);
    return keeper_run(SOCKET, STORAGE);
}
