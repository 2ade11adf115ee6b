/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1 of a sandbox: see engine/init/init.h. Its arguments come from the launcher:
 * capabilities of the workload, flags of the plan, process limit, which parts of the kernel it may
 * use (lib/ipc/kernel.h), and which listeners there are; all numbers in hex. */
#include <stdlib.h>

#include "engine/init/init.h"
#include "engine/runtime/plan.h"

int main(int argc, char **argv)
{
    struct init_options o = { 0 };
    unsigned long flags;

    if (argc != 6)
        return 125;
    o.caps = strtoull(argv[1], NULL, 16);
    flags = strtoul(argv[2], NULL, 16);
    o.ephemeral = flags & PLAN_EPHEMERAL;
    o.one_shot = flags & PLAN_ONE_SHOT;
    o.listens = flags & PLAN_LISTENER;
    o.prepared = flags & PLAN_PREPARED;
    o.pids = (uint32_t)strtoul(argv[3], NULL, 16);
    o.kernel = (uint32_t)strtoul(argv[4], NULL, 16);
    o.listeners = (uint32_t)strtoul(argv[5], NULL, 16);
    return init_run(&o);
}
