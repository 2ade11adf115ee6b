/* SPDX-License-Identifier: Apache-2.0 */
/* The egress worker: alone, as a proxy for any program, or for a control plane. */
#include <stdio.h>

#include "engine/egress/options.h"
#include "engine/egress/standalone.h"
#include "engine/egress/explain.h"
#include "engine/egress/worker.h"
#include "lib/proc/oom.h"

int main(int argc, char **argv)
{
    struct egress_options options;
    struct err e;
    int status, r;

    if (!options_read(argc, argv, &options, &status))
        return status;
    (void)oom_set(OOM_HELPER, NULL);
    if (options.check || options.explain || options.verify_log || options.learn)
        r = explain_run(&options, &e);
    else
        r = options.standalone ? standalone_run(&options, &e) : worker_run(&options, &e);
    if (r < 0)
        fprintf(stderr, "sandboxer-egress: %s\n", e.msg);
    return r < 0 ? 1 : 0;
}
