/* The launcher: serves the socket it was started with (descriptor 3). See runtime/server.h. */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/build.h"
#include "runtime/server.h"

enum { SOCKET = 3 };

static int list_steps(void)
{
    for (size_t i = 0; build_step_name(i); i++)
        puts(build_step_name(i));
    return 0;
}

int main(int argc, char **argv)
{
    struct err e;

    if (argc == 2 && strcmp(argv[1], "--list-steps") == 0)
        return list_steps();
    if (argc > 1) {
        fprintf(stderr, "sandboxer-launch: started by sandboxer and sandboxerd, not by hand.\n"
                        "  --list-steps   name the steps of building a sandbox\n");
        return 2;
    }
    /* Signals from our caller's terminal are for our caller, who tells us what to do about them. */
    setsid();
    /* A plain user's launcher must be able to write its own id maps, which belong to it only while
     * it is dumpable; and it has nothing that its user has not. */
    if (geteuid() == 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return server_run(SOCKET, &e) < 0 ? 125 : 0;
}
