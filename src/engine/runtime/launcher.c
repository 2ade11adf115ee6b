/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/launcher.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/ipc/channel.h"
#include "lib/proc/spawn.h"

enum { VARIABLE_MAX = 128, VARIABLES = 4 };

/* The launcher inherits no environment: it would be visible in its /proc entry. */
static void test_environment(char variables[][VARIABLE_MAX], char **envp)
{
    static const char *const names[VARIABLES] = { "SANDBOXER_TEST_FAIL_STEP",
                                                  "SANDBOXER_TEST_DIE_STEP", "SANDBOXER_DIE_AT",
                                                  "SANDBOXER_STOP_AT" };
    size_t n = 0;

    for (size_t i = 0; SANDBOXER_TEST_HOOKS && i < VARIABLES; i++) {
        const char *step = getenv(names[i]);

        if (step && snprintf(variables[n], VARIABLE_MAX, "%s=%s", names[i], step) < VARIABLE_MAX) {
            envp[n] = variables[n];
            n++;
        }
    }
    envp[n] = NULL;
}

/* Appends to an argument vector for execve(), which does not modify it. */
static void append_argument(char **argv, size_t *n, const char *s)
{
    memcpy(&argv[(*n)++], &s, sizeof s);
}

/* Arguments and memory for an execve() of sandboxer-launch. */
struct launcher_program {
    char path[PATH_MAX], variables[VARIABLES][VARIABLE_MAX];
    char *argv[12 + 2 * PLAN_ROOTS_MAX], *envp[VARIABLES + 1];
    int fds[4];
    struct spawn spawn;
};

static void append_option(char **argv, size_t *n, const char *option, const char *value)
{
    if (!value)
        return;
    append_argument(argv, n, option);
    append_argument(argv, n, value);
}

static int prepare_launcher(const struct launcher_options *o, int sock, struct launcher_program *p,
                            struct err *e)
{
    size_t n = 0;
    int r = spawn_find("sandboxer-launch", p->path, sizeof p->path, e);

    if (r >= 0 && o->n_roots > PLAN_ROOTS_MAX)
        r = err_set(e, ERR_TOO_BIG, "more than %d roots for a launcher", PLAN_ROOTS_MAX);
    if (r < 0)
        return r;
    memset(p->argv, 0, sizeof p->argv);
    append_argument(p->argv, &n, "sandboxer-launch");
    append_option(p->argv, &n, "--peer", o->untrusted ? "untrusted" : NULL);
    append_option(p->argv, &n, "--tag", o->tag);
    append_option(p->argv, &n, "--store", o->store);
    append_option(p->argv, &n, "--driver", o->driver);
    append_option(p->argv, &n, "--limits", o->limited ? "disk" : NULL);
    for (size_t i = 0; i < o->n_roots; i++)
        append_option(p->argv, &n, "--root", o->roots[i]);
    test_environment(p->variables, p->envp);
    p->fds[0] = p->fds[1] = -1;
    p->fds[2] = STDERR_FILENO;
    p->fds[3] = sock;
    p->spawn = (struct spawn){
        .path = p->path, .argv = p->argv, .envp = p->envp, .fds = p->fds, .n_fds = COUNT_OF(p->fds)
    };
    return 0;
}

int launcher_start_with(const struct launcher_options *o, struct launcher *ret, struct err *e)
{
    AUTO_CLOSE int ours = -1, theirs = -1;
    struct launcher_program p;
    int pair[2], r = ipc_pair(pair, e);

    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    r = prepare_launcher(o, theirs, &p, e);
    if (r >= 0)
        r = spawn_start(&p.spawn, &ret->pid, e);
    if (r < 0)
        return r;
    ret->sock = take_fd(&ours);
    return 0;
}

int launcher_exec(const struct launcher_options *o, int sock, int *status, struct err *e)
{
    struct launcher_program p;
    int r = prepare_launcher(o, sock, &p, e);

    return r < 0 ? r : spawn_exec(&p.spawn, status, e);
}

int launcher_start(struct launcher *ret, struct err *e)
{
    return launcher_start_with(&(struct launcher_options){ 0 }, ret, e);
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
    struct launch_create m;
    size_t size = offsetof(struct launch_create, plan) + plan_size(p);

    memcpy(&m.plan, p, plan_size(p));
    m.pad = 0;
    launch_fill(&m.head, LAUNCH_CREATE, size);
    return ipc_send(l->sock, &m, size, fds, n, e);
}

int launcher_ask(const struct launcher *l, enum launch_type type, const char *id, struct err *e)
{
    struct launch_named m = { 0 };

    launch_fill(&m.head, type, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    return ipc_send(l->sock, &m, sizeof m, NULL, 0, e);
}

int launcher_destroy(const struct launcher *l, const char *id, struct err *e)
{
    return launcher_ask(l, LAUNCH_DESTROY, id, e);
}

int launcher_release(const struct launcher *l, struct err *e)
{
    struct launch_release m;

    launch_fill(&m.head, LAUNCH_RELEASE, sizeof m);
    return ipc_send(l->sock, &m, sizeof m, NULL, 0, e);
}

int launcher_assign(const struct launcher *l, const char *id, const struct cgroup_owner *owner,
                    struct err *e)
{
    struct launch_assign m = { .owner = *owner };

    launch_fill(&m.head, LAUNCH_ASSIGN, sizeof m);
    snprintf(m.id, sizeof m.id, "%s", id);
    return ipc_send(l->sock, &m, sizeof m, NULL, 0, e);
}

int launcher_failure(const struct launch_failed *f, struct err *e)
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

/* Receives the next answer and its descriptors. */
static int receive_answer(const struct launcher *l, union launch_answer *ret,
                          struct ipc_fds *ret_fds, struct err *e)
{
    ssize_t n = ipc_recv(l->sock, ret, sizeof *ret, ret_fds, e);

    if (n < 0)
        return (int)n;
    if (n == 0)
        return err_set(e, ERR_UPSTREAM, "the launcher died");
    return launch_check(ret, (size_t)n, e);
}

int launcher_next(const struct launcher *l, union launch_answer *ret, int *ret_pidfd, struct err *e)
{
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    union launch_answer a;
    int r = receive_answer(l, &a, &fds, e);

    if (r < 0)
        return r;
    if (a.head.type == LAUNCH_CREATED && ret_pidfd && fds.n)
        *ret_pidfd = take_fd(&fds.fd[0]);
    *ret = a;
    return 0;
}

int launcher_answer_with(const struct launcher *l, union launch_answer *ret,
                         struct ipc_fds *ret_fds, struct err *e)
{
    union launch_answer a = { 0 };
    int r = receive_answer(l, &a, ret_fds, e);

    if (r >= 0 && a.head.type == LAUNCH_FAILED)
        r = launcher_failure(&a.failed, e);
    if (r >= 0)
        *ret = a;
    return r;
}
