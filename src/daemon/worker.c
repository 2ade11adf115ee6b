#include "daemon/worker.h"

#include <limits.h>
#include <signal.h>
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

static int start(const struct worker_options *o, int *ret, pid_t *ret_pid, struct err *e)
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
    int pair[2], r = spawn_find("sandboxer-egress", path, sizeof path, e);

    if (r >= 0)
        r = ipc_pair(pair, e);
    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    fill(&arguments, o);
    s.fds = (const int[]){ -1, -1, STDERR_FILENO, theirs };
    r = spawn_start(&s, ret_pid, e);
    if (r >= 0)
        *ret = take_fd(&ours);
    return r;
}

int workers_start(struct workers *w, const struct worker_options *o, int *ret, pid_t *ret_pid,
                  struct err *e)
{
    int r;

    if (w->n == WORKERS_MAX)
        return err_set(e, ERR_BUSY, "there are %d egress workers", WORKERS_MAX);
    r = start(o, ret, ret_pid, e);
    if (r >= 0)
        w->pid[w->n++] = *ret_pid;
    return r;
}

/* Where it is, or behind the last. */
static size_t find(const struct workers *w, pid_t pid)
{
    size_t i = 0;

    while (i < w->n && w->pid[i] != pid)
        i++;
    return i;
}

void workers_end(const struct workers *w, pid_t pid)
{
    if (find(w, pid) < w->n)
        kill(pid, SIGKILL);
}

void workers_ended(struct workers *w, pid_t pid)
{
    size_t i = find(w, pid);

    if (i < w->n)
        w->pid[i] = w->pid[--w->n];
}
