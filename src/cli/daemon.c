/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/state_dir.h"
#include "lib/proc/spawn.h"
#include "lib/proc/sys.h"

enum { READY_FD = 3, WORDS_MAX = 200, LISTEN_OPTION_MAX = 128 };

#define READY_PATIENCE (30 * NS_PER_S)

static const char name[] = "sandboxerd";
static const char log_name[] = "sandboxerd.log";

bool daemon_find_in_path(const char *program, char *out, size_t cap)
{
    struct str rest = str_from(getenv("PATH")), dir;

    while (rest.p) {
        rest = str_cut(rest, ':', &dir);
        if (dir.n && dir.p[0] == '/' &&
            snprintf(out, cap, STR_FMT "/%s", STR_ARG(dir), program) < (int)cap &&
            access(out, X_OK) == 0)
            return true;
    }
    return false;
}

int daemon_find(char *out, size_t cap, struct err *e)
{
    if (spawn_find(name, out, cap, NULL) >= 0 || daemon_find_in_path(name, out, cap))
        return 0;
    return err_set(e, ERR_NOT_FOUND,
                   "no daemon is running, and %s is neither beside this program nor in "
                   "../libexec/sandboxer nor in PATH",
                   name);
}

/* For its last words; without a state directory they are lost. */
static int open_daemon_log(void)
{
    AUTO_CLOSE int state = -1;
    int log = -1;

    if (state_dir_open(&state, NULL) >= 0)
        log = openat(state, log_name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    return log >= 0 ? log : open("/dev/null", O_WRONLY | O_CLOEXEC);
}

/* In the child: only system calls from here on. */
static _Noreturn void exec_daemon(const char *path, char *listen, int null, int log, int ready)
{
    static char program[] = "sandboxerd", option[] = "--ready-fd", number[] = "3"; /* READY_FD */
    static char on_demand[] = "--on-demand";
    char *argv[] = { program, on_demand, option, number, listen, NULL };
    int high[] = { null, log, log, ready };
    sigset_t none;

    setsid();
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (size_t i = 0; i < COUNT_OF(high); i++)
        high[i] = fcntl(high[i], F_DUPFD_CLOEXEC, READY_FD + 1);
    for (size_t i = 0; i < COUNT_OF(high); i++)
        if (dup2(high[i], (int)i) < 0)
            _exit(EXIT_FAILURE);
    sys_close_range(READY_FD + 1, ~0u);
    if (chdir("/") == 0)
        execve(path, argv, environ);
    dprintf(READY_FD, "starting %s: %s", path, strerror(errno));
    _exit(EXIT_FAILURE);
}

/* Reads until the end, or until the buffer is full; returns the length. */
static size_t read_rest(int fd, char *out, size_t at, size_t cap)
{
    ssize_t n;

    while (at < cap && (n = read(fd, out + at, cap - at)) != 0) {
        if (n < 0 && errno != EINTR)
            break;
        at += n > 0 ? (size_t)n : 0;
    }
    return at;
}

/* The daemon writes one byte when it listens; any other text is its error message, and then it
 * exits. */
static int await_daemon_ready(pid_t pid, int ready, struct err *e)
{
    int64_t deadline = clock_mono() + READY_PATIENCE;
    struct pollfd in = { .fd = ready, .events = POLLIN };
    char words[WORDS_MAX + 1];
    ssize_t n;
    size_t said;
    int status = 0;

    do
        n = poll(&in, 1, clock_poll_ms(deadline));
    while (n < 0 && errno == EINTR);
    if (n <= 0) {
        kill(pid, SIGTERM);
        return err_set(e, ERR_TIMEOUT, "%s (process %d) did not get ready in time", name, (int)pid);
    }
    do
        n = read(ready, words, WORDS_MAX);
    while (n < 0 && errno == EINTR);
    if (n == 1)
        return 1;
    said = read_rest(ready, words, n > 0 ? (size_t)n : 0, WORDS_MAX);
    words[said] = '\0';
    if (spawn_wait(pid, &status, e) < 0)
        return -ERR_SYS;
    if (said)
        (void)err_set(e, ERR_UPSTREAM, "%s: %s", name, words);
    if (WIFEXITED(status) && WEXITSTATUS(status) == DAEMON_NOT_FIRST)
        return 0;
    if (said)
        return -ERR_UPSTREAM;
    return err_set(e, ERR_UPSTREAM, "%s ended with %s %d; see %s in the state directory", name,
                   WIFSIGNALED(status) ? "signal" : "status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), log_name);
}

/* "--listen=ADDRESS"; NULL without one. */
static char *write_listen_option(const char *listen, char *out, size_t cap)
{
    if (!listen)
        return NULL;
    snprintf(out, cap, "--listen=%s", listen);
    return out;
}

int daemon_start(struct err *e)
{
    return daemon_start_listening(NULL, e);
}

int daemon_start_listening(const char *listen, struct err *e)
{
    char option[LISTEN_OPTION_MAX];
    AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC), log = -1;
    AUTO_CLOSE int ready = -1, ready_write = -1;
    char path[PATH_MAX];
    int ends[2], r = daemon_find(path, sizeof path, e);
    pid_t pid;

    if (r < 0)
        return r;
    log = open_daemon_log();
    if (null < 0 || log < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, "starting %s", path);
    ready = ends[0];
    ready_write = ends[1];
    pid = fork();
    if (pid < 0)
        return err_sys(e, "starting %s", path);
    if (pid == 0)
        exec_daemon(path, write_listen_option(listen, option, sizeof option), null, log,
                    ready_write);
    drop_fd(&ready_write);
    return await_daemon_ready(pid, ready, e);
}

int daemon_check(struct err *e)
{
    return daemon_check_listening(NULL, e);
}

int daemon_check_listening(const char *listen, struct err *e)
{
    static char program[] = "sandboxerd", option[] = "--check-config", prefix[] = "sandboxerd: ";
    char listening[LISTEN_OPTION_MAX];
    char *argv[] = { program, option, write_listen_option(listen, listening, sizeof listening),
                     NULL };
    char path[PATH_MAX], words[WORDS_MAX + 1];
    AUTO_CLOSE int heard = -1, said = -1;
    int ends[2], status = 0, r = daemon_find(path, sizeof path, e);
    size_t skip = 0;
    pid_t pid;

    if (r < 0)
        return r;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(e, "starting %s", path);
    heard = ends[0];
    said = ends[1];
    r = spawn_start(&(struct spawn){ .path = path,
                                     .argv = argv,
                                     .envp = environ,
                                     .fds = (const int[]){ -1, -1, said },
                                     .n_fds = 3 },
                    &pid, e);
    if (r < 0)
        return r;
    drop_fd(&said);
    words[read_rest(heard, words, 0, WORDS_MAX)] = '\0';
    r = spawn_wait(pid, &status, e);
    if (r < 0 || status == 0)
        return r;
    words[strcspn(words, "\n")] = '\0';
    if (str_starts(str_from(words), str_from(prefix)))
        skip = sizeof prefix - 1;
    return err_set(e, ERR_UPSTREAM, "%s", words[0] ? words + skip : "sandboxerd gave no reason");
}

int daemon_print(const char *option, const char *config, int out, struct err *e)
{
    const char *argv[] = { name, option, config ? "--config" : NULL, config, NULL };
    char path[PATH_MAX];
    int status = 0, r = daemon_find(path, sizeof path, e);
    pid_t pid;

    if (r >= 0)
        r = spawn_start(&(struct spawn){ .path = path,
                                         .argv = (char **)(void *)argv, /* only read */
                                         .envp = environ,
                                         .fds = (const int[]){ -1, out, STDERR_FILENO },
                                         .n_fds = 3 },
                        &pid, e);
    if (r >= 0)
        r = spawn_wait(pid, &status, e);
    return r < 0 ? r : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int daemon_config_path(char *out, size_t cap, struct err *e)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n;

    if (geteuid() == 0)
        n = snprintf(out, cap, "/etc/sandboxer/sandboxer.yaml");
    else if (config && config[0] == '/')
        n = snprintf(out, cap, "%s/sandboxer/sandboxer.yaml", config);
    else if (home && home[0] == '/')
        n = snprintf(out, cap, "%s/.config/sandboxer/sandboxer.yaml", home[1] ? home : "");
    else
        return err_set(e, ERR_INVALID, "neither HOME nor XDG_CONFIG_HOME is set: name a FILE");
    return n < (int)cap
               ? 0
               : err_set(e, ERR_TOO_BIG, "the path is longer than %zu bytes: name a FILE", cap - 1);
}
