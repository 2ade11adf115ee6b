/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher: serves the socket it was started with (descriptor 3). See engine/runtime/server.h.
 *
 * Its arguments come from its parent, which has the same rights:
 *     --peer untrusted   the socket was passed to a process with fewer rights
 *     --root DIR         a directory that plans may name files below; again for more
 *     --store DIR        the directory of layers that plans may name
 *     --driver NAME      storage driver of writable layers (engine/storage/driver.h)
 *     --limits disk      the driver enforces disk limits
 *     --tag TAG          only sandboxes with this tag may be destroyed by id */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "engine/runtime/build.h"
#include "engine/runtime/cgroup.h"
#include "engine/runtime/server.h"

enum { SOCKET = 3 };

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

    if (argc == 2 && strcmp(argv[1], "--list-steps") == 0) {
        for (size_t i = 0; build_step_name(i); i++)
            puts(build_step_name(i));
        return 0;
    }
    if (argc > 1 && !read_options(argv + 1, &o)) {
        fprintf(stderr, "sandboxer-launch: started by sandboxer and sandboxerd, not by hand.\n"
                        "  --list-steps   name the steps of building a sandbox\n");
        return 2;
    }
    /* Signals of the caller's terminal are for the caller, which sends the launcher its own
     * requests. */
    setsid();
    /* A plain user's launcher must be able to write its own id maps, which belong to it only while
     * it is dumpable; and it has nothing that its user has not. */
    if (geteuid() == 0)
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return server_run(SOCKET, &o, &e) < 0 ? 125 : 0;
}
