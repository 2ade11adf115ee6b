/* The launcher: serves the socket it was started with (descriptor 3). See runtime/server.h.
 *
 * Its arguments come from whoever started it, who has its rights anyway:
 *     --peer untrusted   the socket was given to somebody who has not
 *     --root DIR         a directory that plans may name files below; again for more
 *     --store DIR        the directory of layers that plans may name
 *     --driver NAME      how what sandboxes write is kept there (uppers/driver.h)
 *     --limits disk      that driver limits it
 *     --tag TAG          whose sandboxes these are: it destroys no others that it did not make */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/build.h"
#include "runtime/cgroup.h"
#include "runtime/server.h"

enum { SOCKET = 3 };

static int list_steps(void)
{
    for (size_t i = 0; build_step_name(i); i++)
        puts(build_step_name(i));
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "sandboxer-launch: started by sandboxer and sandboxerd, not by hand.\n"
                    "  --list-steps   name the steps of building a sandbox\n");
    return 2;
}

static bool read_options(char **argv, struct server_options *ret)
{
    for (; argv[0]; argv += 2) {
        if (!argv[1])
            return false;
        if (strcmp(argv[0], "--peer") == 0 && strcmp(argv[1], "untrusted") == 0)
            ret->untrusted = true;
        else if (strcmp(argv[0], "--tag") == 0 && cgroup_tag_valid(argv[1]))
            ret->tag = argv[1];
        else if (strcmp(argv[0], "--store") == 0 && argv[1][0] == '/')
            ret->store = argv[1];
        else if (strcmp(argv[0], "--driver") == 0 && driver_find(argv[1]))
            ret->driver = driver_find(argv[1]);
        else if (strcmp(argv[0], "--limits") == 0 && strcmp(argv[1], "disk") == 0)
            ret->limited = true;
        else if (strcmp(argv[0], "--root") == 0 && argv[1][0] == '/' &&
                 ret->n_roots < PLAN_ROOTS_MAX)
            ret->roots[ret->n_roots++] = argv[1];
        else
            return false;
    }
    return !ret->driver || !ret->driver->on_disk || ret->store;
}

int main(int argc, char **argv)
{
    struct server_options o = { 0 };
    struct err e;

    if (argc == 2 && strcmp(argv[1], "--list-steps") == 0)
        return list_steps();
    if (argc > 1 && !read_options(argv + 1, &o))
        return usage();
    /* Signals from our caller's terminal are for our caller, who tells us what to do about them. */
    setsid();
    /* A plain user's launcher must be able to write its own id maps, which belong to it only while
     * it is dumpable; and it has nothing that its user has not. */
    if (geteuid() == 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return server_run(SOCKET, &o, &e) < 0 ? 125 : 0;
}
