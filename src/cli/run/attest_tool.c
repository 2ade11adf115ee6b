/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/attest_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/io.h"
#include "lib/proc/spawn.h"

enum { ARGUMENTS_MAX = 8, COMPLAINT_MAX = 512 };

static const char name[] = SEAL_TOOL;
static char *nothing[] = { NULL }; /* an environment */

static int start_attest_tool(const char *program, char **envp, const char *const *arguments,
                             const int fds[static 3], int *ret_status, struct err *e)
{
    char path[PATH_MAX], *argv[ARGUMENTS_MAX + 2] = { NULL };
    struct spawn s = { .path = path, .argv = argv, .envp = envp, .fds = fds, .n_fds = 3 };
    pid_t pid;
    int r = spawn_find(program, path, sizeof path, e);

    memcpy(&argv[0], &program, sizeof program); /* execve() writes to none of it */
    for (size_t i = 0; i < ARGUMENTS_MAX && arguments[i]; i++)
        memcpy(&argv[i + 1], &arguments[i], sizeof arguments[i]);
    if (r >= 0)
        r = spawn_start(&s, &pid, e);
    return r < 0 ? r : spawn_wait(pid, ret_status, e);
}

static int memory_with(struct str text, int *ret, struct err *e)
{
    *ret = memfd_create("step", MFD_CLOEXEC);
    if (*ret < 0)
        return err_sys(e, "making a memory file for a hook");
    if (write_all(*ret, text, e) < 0)
        return -(int)ERR_SYS;
    return lseek(*ret, 0, SEEK_SET) < 0 ? err_sys(e, "rewinding a memory file") : 0;
}

static int read_tool_output(int fd, struct buf *out, struct err *e)
{
    if (lseek(fd, 0, SEEK_SET) < 0)
        return err_sys(e, "reading an answer");
    return err_wrap(e, buf_read_fd(out, fd, e), "the answer of a tool");
}

int seal_tool_complain(int fd, struct err *e)
{
    char text[COMPLAINT_MAX];
    ssize_t n = pread(fd, text, sizeof text, 0);
    struct str line = { text, n > 0 ? (size_t)n : 0 };

    line.n = str_find(line, '\n');
    if (str_starts(line, STR("sandboxer-seal: ")))
        line = (struct str){ line.p + 16, line.n - 16 };
    return err_set(e, ERR_UPSTREAM, STR_FMT, STR_ARG(line));
}

int seal_tool_run(const char *const *arguments, struct str text, struct buf *out, struct err *e)
{
    AUTO_CLOSE int in = -1, said = memfd_create("answer", MFD_CLOEXEC);
    AUTO_CLOSE int complaint = memfd_create("complaint", MFD_CLOEXEC);
    int status = 0, r = memory_with(text, &in, e);

    if (r >= 0 && (said < 0 || complaint < 0))
        r = err_sys(e, "making memory for %s", name);
    if (r >= 0)
        r = start_attest_tool(name, nothing, arguments, (const int[]){ in, said, complaint },
                              &status, e);
    if (r < 0)
        return r;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return seal_tool_complain(complaint, e);
    return read_tool_output(said, out, e);
}

int step_tool_run(const char *const *arguments, struct str text, struct buf *out, struct err *e)
{
    AUTO_CLOSE int in = -1, said = memfd_create("answer", MFD_CLOEXEC);
    int status = 0, r = memory_with(text, &in, e);

    if (r >= 0 && said < 0)
        r = err_sys(e, "making a memory file for a hook");
    if (r >= 0)
        r = start_attest_tool(STEP_TOOL, environ, arguments,
                              (const int[]){ in, said, STDERR_FILENO }, &status, e);
    if (r < 0)
        return r;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(e, ERR_UPSTREAM, "%s died", STEP_TOOL);
    return read_tool_output(said, out, e);
}

int seal_tool_show(const char *const *arguments, int *ret_status, struct err *e)
{
    int status,
        r = start_attest_tool(name, nothing, arguments,
                              (const int[]){ -1, STDOUT_FILENO, STDERR_FILENO }, &status, e);

    if (r < 0)
        return r;
    if (!WIFEXITED(status))
        return err_set(e, ERR_UPSTREAM, "%s died", name);
    *ret_status = WEXITSTATUS(status);
    return 0;
}

int seal_tool_read_report(int from, int64_t deadline, struct buf *out, struct err *e)
{
    struct pollfd wait = { .fd = from, .events = POLLIN };
    char *room;
    ssize_t n;

    for (;;) {
        if (clock_mono() >= deadline)
            return err_set(e, ERR_TIMEOUT, "sandboxer-seal took too long");
        if (poll(&wait, 1, clock_poll_ms(deadline)) <= 0)
            continue;
        if (buf_room(out, PIPE_BUF, &room) < 0)
            return err_set(e, ERR_TOO_BIG, "the output of sandboxer-seal is too long");
        n = read(from, room, PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return err_sys(e, "reading the output of sandboxer-seal");
        if (n == 0)
            return 0;
        buf_grew(out, n > 0 ? (size_t)n : 0);
    }
}
