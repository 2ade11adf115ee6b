/* SPDX-License-Identifier: Apache-2.0 */
/* The child of PID 1 that executes a program or carries out a file operation. Its steps are in the
 * order in which privileges are dropped; the program inherits nothing else. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/ipc/environment.h"
#include "lib/proc/sys.h"

enum { SYNC = 3, OWN_VARIABLES = 4 };
_Static_assert(START_LENT_AT == SYNC + 1, "what is lent is behind all that is ours");

struct starting_child {
    const struct init_options *options;
    const struct control_start *start;
    int text_fd, sync;
    int lent[START_LENT_MAX];
    int n_lent;
    const char *text, *name, *cwd;
    char **argv;
    const char **envp;
    struct passwd_entry user;
    int inner[3];
};

static int send_child_message(int sync, enum child_word word, const char *step, const struct err *e,
                              const int *fds, int n)
{
    struct child_message m = { .word = word };

    if (word == CHILD_READY)
        m.mark = kill_mark_of(getpid());
    snprintf(m.step, sizeof m.step, "%s", step);
    if (e) {
        m.sys = e->sys;
        m.code = e->code;
        snprintf(m.msg, sizeof m.msg, "%.*s", (int)sizeof m.msg - 1, e->msg);
    }
    return ipc_send(sync, &m, sizeof m, fds, (size_t)n, NULL);
}

void exec_fail(int sync, const char *step, const struct err *e)
{
    send_child_message(sync, CHILD_FAILED, step, e, NULL, 0);
    _exit(126);
}

/* Maps text that came in a memfd: it must be sealed, or it could change while it is read. */
static int map_text(struct starting_child *c, struct err *e)
{
    size_t size = c->start->text_size;
    int seals = fcntl(c->text_fd, F_GET_SEALS);
    struct stat st;
    void *p;

    if (seals < 0 || !(seals & F_SEAL_WRITE) || !(seals & F_SEAL_SHRINK) ||
        fstat(c->text_fd, &st) < 0 || st.st_size != (off_t)size)
        return err_set(e, ERR_INVALID,
                       "the memfd of a start request is not sealed or has the wrong size");
    /* Writable, like text in a message: some operations split paths in place. */
    p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, c->text_fd, 0);
    if (p == MAP_FAILED)
        return err_sys(e, "mapping the text of a start request");
    c->text = p;
    return control_check_text(c->start, p, size, e);
}

static int read_request_text(struct starting_child *c, struct err *e)
{
    static char *strings[2 * CONTROL_STRINGS_MAX + OWN_VARIABLES + 2];
    const char *at;
    int r = c->start->flags & CONTROL_TEXT_FD ? map_text(c, e) : 0;

    if (r < 0)
        return r;
    at = c->text;
    c->name = c->start->flags & CONTROL_USER_NAME ? control_next_string(&at) : NULL;
    c->cwd = control_next_string(&at);
    c->argv = strings;
    c->envp = (const char **)(void *)(strings + c->start->argc + 1); /* only read */
    for (uint32_t i = 0; i < c->start->argc + c->start->envc; i++) {
        const char *s = control_next_string(&at);

        memcpy(&strings[i < c->start->argc ? i : i + 1], &s, sizeof s);
    }
    return 0;
}

static int become_target_user(struct starting_child *c, struct err *e)
{
    int r = user_find(c->name, c->start->uid, c->start->gid, &c->user, e);

    return r < 0 ? r : user_become(&c->user, c->options->caps, e);
}

static int make_stdio(struct starting_child *c, struct err *e)
{
    int outer[INIT_STDIO_MAX], n, r = stdio_make(c->start, outer, &n, c->inner, e);

    if (r < 0)
        return r;
    return send_child_message(c->sync, CHILD_READY, "", NULL, outer, n) < 0
               ? err_set(e, ERR_SYS, "sending the program's stdin, stdout and stderr")
               : 0;
}

static int place_lent_fds(struct starting_child *c, struct err *e)
{
    for (int i = 0; i < c->n_lent; i++)
        if (dup2(c->lent[i], START_LENT_AT + i) < 0)
            return err_sys(e, "arranging descriptors");
    return sys_close_range((unsigned)(START_LENT_AT + c->n_lent), ~0u) < 0
               ? err_sys(e, "closing descriptors")
               : 0;
}

static int arrange_child_fds(struct starting_child *c, struct err *e)
{
    int r;

    /* Lent descriptors go above the numbers that they, and 0, 1 and 2, will get. */
    for (int i = 0; i < c->n_lent; i++) {
        c->lent[i] = fcntl(c->lent[i], F_DUPFD_CLOEXEC, START_LENT_AT + START_LENT_MAX);
        if (c->lent[i] < 0)
            return err_sys(e, "arranging descriptors");
    }
    /* The sync socket must survive the placement of 0, 1 and 2, and be the only descriptor above
     * them. */
    c->sync = fcntl(c->sync, F_DUPFD_CLOEXEC, SYNC);
    if (c->sync < 0)
        return err_sys(e, "arranging descriptors");
    r = stdio_arrange(c->start, c->inner, e);
    if (r < 0)
        return r;
    if (c->sync != SYNC && dup3(c->sync, SYNC, O_CLOEXEC) < 0)
        return err_sys(e, "arranging descriptors");
    c->sync = SYNC;
    return place_lent_fds(c, e);
}

/* The last source of variables: the target user's entry in /etc/passwd. */
static int fill_environment(struct starting_child *c, struct err *e)
{
    static char home[300], user[80], logname[80];
    const char *own[OWN_VARIABLES];
    size_t n = 0;

    if (c->user.home[0]) {
        snprintf(home, sizeof home, "HOME=%s", c->user.home);
        own[n++] = home;
    }
    if (c->user.name[0]) {
        snprintf(user, sizeof user, "USER=%s", c->user.name);
        snprintf(logname, sizeof logname, "LOGNAME=%s", c->user.name);
        own[n++] = user;
        own[n++] = logname;
    }
    own[n++] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    environment_append(c->envp, c->start->envc, own, n);
    return 0;
}

static int enter_directory(struct starting_child *c, struct err *e)
{
    if (c->cwd[0])
        return chdir(c->cwd) < 0 ? err_sys(e, "entering the working directory %s", c->cwd) : 0;
    if (chdir(c->user.home) < 0 && chdir("/") < 0)
        return err_sys(e, "entering the working directory /");
    return 0;
}

uint64_t exec_raise_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return 0;
    if (files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur;
}

static int set_child_limits(struct starting_child *c, struct err *e)
{
    umask(022);
    return limits_set(c->options->pids, e);
}

static int unblock_signals(struct starting_child *c, struct err *e)
{
    sigset_t none;

    /* Dispositions are at their defaults since the launcher started, and PID 1 sets none. */
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        return err_sys(e, "unblocking signals");
    return 0;
}

static int exec_program(struct starting_child *c, struct err *e)
{
    environ = (char **)(void *)c->envp;
    execvp(c->argv[0], c->argv);
    return err_sys(e, "%s", c->argv[0]);
}

static int report_home(const struct starting_child *c, struct err *e)
{
    const char *home = c->user.home[0] ? c->user.home : "/";
    int r = files_write_output(home, strlen(home), e);

    return r < 0 ? r : files_flush(e);
}

/* Reports the result of a file operation as the last message; the exit status is only success or
 * failure. */
static int run_file_operation(struct starting_child *c, struct err *e)
{
    int r = c->start->what == START_HOME
                ? report_home(c, e)
                : files_run((enum start_what)c->start->what, c->start->mode, c->argv, e);

    if (r >= 0)
        _exit(0);
    send_child_message(c->sync, CHILD_RESULT, "files", e, NULL, 0);
    _exit(1);
}

struct child_step {
    const char *name;
    int (*run)(struct starting_child *c, struct err *e);
};

static const struct child_step program_steps[] = {
    { "request", read_request_text },
    { "user", become_target_user },
    { "stdio", make_stdio },
    { "stdio", arrange_child_fds },
    { "environment", fill_environment },
    { "limits", set_child_limits },
    { "workdir", enter_directory },
    { "signals", unblock_signals },
    { "program", exec_program },
};

static const struct child_step file_steps[] = {
    { "request", read_request_text }, { "user", become_target_user },
    { "stdio", make_stdio },          { "stdio", arrange_child_fds },
    { "limits", set_child_limits },   { "workdir", enter_directory },
    { "signals", unblock_signals },   { "files", run_file_operation },
};

void exec_child(const struct init_options *o, const struct control_start *s, const char *text,
                const struct ipc_fds *fds, int sync)
{
    struct starting_child c = { .options = o, .start = s, .sync = sync, .text = text };
    bool program = s->what == START_PROGRAM;
    const struct child_step *steps = program ? program_steps : file_steps;
    size_t n = program ? COUNT_OF(program_steps) : COUNT_OF(file_steps);
    struct err e = { 0 };
    size_t at = 0;

    c.text_fd = s->flags & CONTROL_TEXT_FD ? fds->fd[at++] : -1;
    while (at < fds->n)
        c.lent[c.n_lent++] = fds->fd[at++];
    for (size_t i = 0; i < n; i++)
        if (steps[i].run(&c, &e) < 0)
            exec_fail(c.sync, steps[i].name, &e);
    _exit(126);
}
