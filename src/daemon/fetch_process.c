/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fetch_process.h"

#include <limits.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/spawn.h"

int fetch_process_exec(const struct identity_choice *who, int sock, int *status, struct err *e)
{
    char path[PATH_MAX], name[] = "sandboxer-fetch", *argv[] = { name, NULL }, *none[] = { NULL };
    const int fds[] = { -1, -1, STDERR_FILENO, sock };
    const struct spawn s = { .path = path,
                             .argv = argv,
                             .envp = none,
                             .fds = fds,
                             .n_fds = COUNT_OF(fds),
                             .become = geteuid() == 0,
                             .uid = who->uid,
                             .gid = who->gid };
    int r = spawn_find(name, path, sizeof path, e);

    return r < 0 ? r : spawn_exec(&s, status, e);
}
