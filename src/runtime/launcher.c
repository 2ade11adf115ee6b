#include "runtime/launcher.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "ipc/channel.h"
#include "proc/spawn.h"

/* The launcher inherits no environment: nothing of ours may be found in its /proc entry. */
static void test_environment(char *out, size_t cap, char **envp)
{
    const char *step = SANDBOXER_TEST_HOOKS ? getenv("SANDBOXER_TEST_FAIL_STEP") : NULL;

    envp[0] = NULL;
    if (step && snprintf(out, cap, "SANDBOXER_TEST_FAIL_STEP=%s", step) < (int)cap)
        envp[0] = out;
}

int launcher_start(struct launcher *ret, struct err *e)
{
    AUTO_CLOSE int ours = -1, theirs = -1;
    char path[PATH_MAX], variable[128], name[] = "sandboxer-launch";
    char *argv[] = { name, NULL }, *envp[2] = { NULL, NULL };
    struct spawn s = { .path = path, .argv = argv, .envp = envp, .n_fds = 4 };
    int pair[2], r = spawn_find(name, path, sizeof path, e);

    if (r >= 0)
        r = ipc_pair(pair, e);
    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    test_environment(variable, sizeof variable, envp);
    s.fds = (const int[]){ -1, -1, STDERR_FILENO, theirs };
    r = spawn_start(&s, &ret->pid, e);
    if (r < 0)
        return r;
    ret->sock = take_fd(&ours);
    return 0;
}

void launcher_done(struct launcher *l)
{
    drop_fd(&l->sock);
    if (l->pid > 0)
        spawn_wait(l->pid, &(int){ 0 }, NULL);
    l->pid = 0;
}

void launcher_leave(struct launcher *l)
{
    drop_fd(&l->sock);
    l->pid = 0;
}

int launcher_create(const struct launcher *l, const struct plan *p, const int *fds, size_t n,
                    struct err *e)
{
    struct launch_create m = { .plan = *p };

    launch_fill(&m.head, LAUNCH_CREATE, sizeof m);
    return ipc_send(l->sock, &m, sizeof m, fds, n, e);
}

int launcher_destroy(const struct launcher *l, const char *id, struct err *e)
{
    struct launch_destroy m = { 0 };

    launch_fill(&m.head, LAUNCH_DESTROY, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    return ipc_send(l->sock, &m, sizeof m, NULL, 0, e);
}

static int failure(const struct launch_failed *f, struct err *e)
{
    int code =
        f->err.code > ERR_OK && f->err.code < ERR_CODE_COUNT_ ? (int)f->err.code : (int)ERR_BUG;

    if (e)
        *e = f->err;
    if (e)
        e->msg[sizeof e->msg - 1] = '\0';
    return f->step[0] ? err_wrap(e, -code, "building the sandbox failed at step '%.*s'",
                                 (int)strnlen(f->step, sizeof f->step), f->step)
                      : -code;
}

int launcher_answer(const struct launcher *l, union launch_answer *ret, int *ret_pidfd,
                    struct err *e)
{
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    union launch_answer a;
    ssize_t n = ipc_recv(l->sock, &a, sizeof a, &fds, e);
    int r;

    if (n < 0)
        return (int)n;
    if (n == 0)
        return err_set(e, ERR_UPSTREAM, "the launcher died");
    r = launch_check(&a, (size_t)n, e);
    if (r < 0)
        return r;
    if (a.head.type == LAUNCH_FAILED)
        return failure(&a.failed, e);
    if (a.head.type == LAUNCH_CREATED && ret_pidfd && fds.n)
        *ret_pidfd = take_fd(&fds.fd[0]);
    *ret = a;
    return 0;
}
