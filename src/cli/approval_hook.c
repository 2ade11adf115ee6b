/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/approval_hook.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/own.h"
#include "lib/json/writer.h"
#include "lib/proc/sealed.h"
#include "lib/proc/spawn.h"

enum { CALL_MAX = 4 << 20 };

bool approval_hook_is_free(const struct approval_hook *h)
{
    return h->command && !h->pid;
}

/* The call in a file without a name, so that no pipe can block. */
static int make_hook_input(const struct json *call, int *ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(CALL_MAX);
    AUTO_CLOSE int fd = -1;
    struct json_writer w;
    int r;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_put_tree(&w, call);
    r = json_writer_finish(&w, e);
    if (r >= 0 && buf_add_c(&text, '\n') < 0)
        r = err_set(e, ERR_TOO_BIG, "the call has more than %d bytes", CALL_MAX);
    if (r >= 0)
        r = sealed_text(buf_str(&text), "held call", &fd, e);
    if (r < 0)
        return r;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, "preparing the input of the command");
    *ret = take_fd(&fd);
    return 0;
}

int approval_hook_start(struct approval_hook *h, const struct json *call, struct err *e)
{
    AUTO_CLOSE int input = -1;
    char *argv[] = { NULL, NULL, NULL, NULL };
    static const char *const words[] = { "sh", "-c" };
    int r = make_hook_input(call, &input, e);
    /* stdout is for the calls */
    const int fds[] = { input, STDERR_FILENO, STDERR_FILENO };
    const struct spawn s = {
        .path = "/bin/sh", .argv = argv, .envp = environ, .fds = fds, .n_fds = COUNT_OF(fds)
    };

    if (r < 0)
        return r;
    memcpy(argv, words, sizeof words); /* execve() does not modify them */
    memcpy(&argv[COUNT_OF(words)], &h->command, sizeof h->command);
    h->deadline = clock_mono() + APPROVAL_HOOK_S * NS_PER_S;
    return spawn_start(&s, &h->pid, e);
}

int approval_hook_check(struct approval_hook *h, struct err *e)
{
    bool late = h->pid && clock_mono() >= h->deadline;
    int status;

    if (late)
        kill(h->pid, SIGKILL);
    if (!h->pid || waitpid(h->pid, &status, late ? 0 : WNOHANG) != h->pid)
        return 0;
    h->pid = 0;
    if (late)
        return err_set(e, ERR_UPSTREAM, "the command of --exec was killed after %d s",
                       APPROVAL_HOOK_S);
    if (WIFSIGNALED(status))
        return err_set(e, ERR_UPSTREAM, "the command of --exec was killed by signal %d",
                       WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return err_set(e, ERR_UPSTREAM, "the command of --exec ended with %d", WEXITSTATUS(status));
    return 0;
}

void approval_hook_done(struct approval_hook *h)
{
    if (!h->pid)
        return;
    kill(h->pid, SIGKILL);
    waitpid(h->pid, NULL, 0);
    h->pid = 0;
}
