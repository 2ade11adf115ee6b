/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/layer_workers.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/spawn.h"

enum { VARIABLE_MAX = 256 };

/* Tests choose the point at which a layer worker dies. */
static void set_test_environment(char variable[VARIABLE_MAX], char **envp)
{
    const char *at = SANDBOXER_TEST_HOOKS ? getenv("SANDBOXER_DIE_AT") : NULL;

    if (at && snprintf(variable, VARIABLE_MAX, "SANDBOXER_DIE_AT=%s", at) < VARIABLE_MAX)
        envp[0] = variable;
}

int layer_worker_exec(int storage, int sock, bool untrusted, int *status, struct err *e)
{
    char path[PATH_MAX], name[] = "sandboxer-layers", variable[VARIABLE_MAX];
    char option[] = "--peer", word[] = "untrusted";
    char *argv[] = { name, untrusted ? option : NULL, word, NULL }, *envp[] = { NULL, NULL };
    const int fds[] = { -1, -1, STDERR_FILENO, sock, storage };
    const struct spawn s = {
        .path = path, .argv = argv, .envp = envp, .fds = fds, .n_fds = COUNT_OF(fds)
    };
    int r = spawn_find(name, path, sizeof path, e);

    set_test_environment(variable, envp);
    return r < 0 ? r : spawn_exec(&s, status, e);
}
