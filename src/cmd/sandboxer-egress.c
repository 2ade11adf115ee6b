/* The egress worker: alone, as a proxy for any program, or for a control plane. */
#include <stdio.h>

#include "egress/options.h"
#include "egress/standalone.h"
#include "egress/trial.h"
#include "egress/worker.h"
#include "proc/oom.h"

int main(int argc, char **argv)
{
    struct egress_options options;
    struct err e;
    int status, r;

    if (!options_read(argc, argv, &options, &status))
        return status;
    (void)oom_set(OOM_HELPER, NULL);
    if (options.check || options.explain || options.verify_log)
        r = trial_run(&options, &e);
    else
        r = options.standalone ? standalone_run(&options, &e) : worker_run(&options, &e);
    if (r < 0)
        fprintf(stderr, "sandboxer-egress: %s\n", e.msg);
    return r < 0 ? 1 : 0;
}
