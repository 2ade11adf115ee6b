/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/run_steps/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"

enum { PIECE = 4096, WORDS_MAX = 256 };

static void exec_child_program(const char *const *argv, int in, int out)
{
    char *words[WORDS_MAX];
    size_t n = 0;

    for (; argv[n] && n + 1 < COUNT_OF(words); n++)
        memcpy(&words[n], &argv[n], sizeof argv[n]); /* execvp() does not modify them */
    words[n] = NULL;
    setpgid(0, 0);
    if (n && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        execvp(words[0], words);
    _exit(127);
}

/* Sockets instead of pipes: a write without a reader is an error and raises no signal. */
int child_start(struct hook_child *c, const char *const *argv, struct err *e)
{
    AUTO_CLOSE int in = -1, out = -1;
    int to[2], from[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) < 0)
        return err_sys(e, "making a pair of sockets");
    in = to[0];
    c->to = to[1];
    if (pipe2(from, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    c->from = from[0];
    out = from[1];
    c->pid = fork();
    if (c->pid == 0)
        exec_child_program(argv, in, out);
    if (c->pid < 0)
        return err_sys(e, "starting %s", argv[0]);
    setpgid(c->pid, c->pid); /* parent and child both call it, so that the order does not matter */
    return 0;
}

/* A child that has stopped reading may still answer. */
static void write_child_input(struct hook_child *c, struct str *pending)
{
    ssize_t n = send(c->to, pending->p, pending->n, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        drop_fd(&c->to);
        n = (ssize_t)pending->n;
    }
    if (n > 0)
        *pending = (struct str){ pending->p + n, pending->n - (size_t)n };
}

static int read_child_output(struct hook_child *c, struct buf *in, struct err *e)
{
    char *room;
    ssize_t n;

    if (buf_room(in, PIECE, &room) < 0)
        return err_set(e, ERR_TOO_BIG, "its output is longer than %zu bytes", in->max);
    n = read(c->from, room, PIECE);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return err_sys(e, "reading its output");
    buf_grew(in, n > 0 ? (size_t)n : 0);
    return n != 0;
}

int child_exchange(struct hook_child *c, struct str *pending, struct buf *in, int64_t deadline,
                   struct err *e)
{
    struct pollfd waits[] = { { .fd = c->from, .events = POLLIN },
                              { .fd = pending->n ? c->to : -1, .events = POLLOUT } };

    if (clock_mono() >= deadline)
        return err_set(e, ERR_TIMEOUT, "it timed out");
    if (poll(waits, COUNT_OF(waits), clock_poll_ms(deadline)) <= 0)
        return 1;
    if (waits[1].revents)
        write_child_input(c, pending);
    return waits[0].revents ? read_child_output(c, in, e) : 1;
}

int child_wait(struct hook_child *c, int64_t deadline, struct err *e)
{
    int status;

    while (waitpid(c->pid, &status, WNOHANG) == 0) {
        if (clock_mono() >= deadline)
            return err_set(e, ERR_TIMEOUT, "it timed out");
        poll(NULL, 0, 2);
    }
    kill(-c->pid, SIGKILL); /* its remaining descendants */
    c->pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(e, ERR_UPSTREAM, "the command failed (status %d)",
                       WIFEXITED(status) ? WEXITSTATUS(status) : status);
    return 0;
}

void child_done(struct hook_child *c)
{
    if (c->pid > 0) {
        kill(-c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
    }
    c->pid = 0;
    drop_fd(&c->to);
    drop_fd(&c->from);
}
