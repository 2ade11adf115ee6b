#include "daemon/keepers.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "ipc/channel.h"
#include "proc/spawn.h"

enum { STORAGE_FD = 4, VARIABLE_MAX = 256 };

/* A test says where a keeper dies. */
static void test_environment(char variable[VARIABLE_MAX], char **envp)
{
    const char *at = SANDBOXER_TEST_HOOKS ? getenv("SANDBOXER_DIE_AT") : NULL;

    if (at && snprintf(variable, VARIABLE_MAX, "SANDBOXER_DIE_AT=%s", at) < VARIABLE_MAX)
        envp[0] = variable;
}

static int start(int storage, int *ret, pid_t *ret_pid, struct err *e)
{
    AUTO_CLOSE int ours = -1, theirs = -1;
    char path[PATH_MAX], name[] = "sandboxer-layers", variable[VARIABLE_MAX];
    char *argv[] = { name, NULL }, *envp[] = { NULL, NULL };
    struct spawn s = { .path = path, .argv = argv, .envp = envp, .n_fds = STORAGE_FD + 1 };
    int pair[2], r = spawn_find(name, path, sizeof path, e);

    if (r >= 0)
        r = ipc_pair(pair, e);
    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    test_environment(variable, envp);
    s.fds = (const int[]){ -1, -1, STDERR_FILENO, theirs, storage };
    r = spawn_start(&s, ret_pid, e);
    if (r >= 0)
        *ret = take_fd(&ours);
    return r;
}

int keepers_start(struct keepers *k, int storage, int *ret, struct err *e)
{
    int r;

    if (k->n == KEEPERS_MAX)
        return err_set(e, ERR_BUSY, "%d jobs on layers are under way; try again", KEEPERS_MAX);
    r = start(storage, ret, &k->pid[k->n], e);
    if (r >= 0)
        k->n++;
    return r;
}

void keepers_ended(struct keepers *k, pid_t pid)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->pid[i] == pid) {
            k->pid[i] = k->pid[--k->n];
            return;
        }
}
