#include "daemon/worker.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "config/config.h"
#include "ipc/channel.h"
#include "proc/spawn.h"

enum { SOCKET_FD = 3, ARGUMENTS_MAX = 8 + 2 * CONFIG_RESOLVERS_MAX };

struct arguments {
    char *v[ARGUMENTS_MAX]; /* for execve(), which writes to none of it */
    size_t n;
};

static void add(struct arguments *a, const char *s)
{
    memcpy(&a->v[a->n++], &s, sizeof s);
}

static void fill(struct arguments *a, const struct worker_options *o)
{
    add(a, "sandboxer-egress");
    add(a, "--worker");
    add(a, "3");
    for (size_t i = 0; i < o->resolvers.n && i < CONFIG_RESOLVERS_MAX; i++) {
        add(a, "--resolver");
        add(a, o->resolvers.p[i]);
    }
    if (o->upstream) {
        add(a, "--upstream");
        add(a, o->upstream);
    }
}

int worker_start(const struct worker_options *o, int *ret, struct err *e)
{
    AUTO_CLOSE int ours = -1, theirs = -1;
    struct arguments arguments = { .n = 0 };
    char path[PATH_MAX], *none[] = { NULL };
    struct spawn s = { .path = path,
                       .argv = arguments.v,
                       .envp = none,
                       .n_fds = SOCKET_FD + 1,
                       .become = geteuid() == 0,
                       .uid = o->who.uid,
                       .gid = o->who.gid };
    pid_t pid;
    int pair[2], r = spawn_find("sandboxer-egress", path, sizeof path, e);

    if (r >= 0)
        r = ipc_pair(pair, e);
    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    fill(&arguments, o);
    s.fds = (const int[]){ -1, -1, STDERR_FILENO, theirs };
    r = spawn_start(&s, &pid, e);
    if (r >= 0)
        *ret = take_fd(&ours);
    return r;
}
