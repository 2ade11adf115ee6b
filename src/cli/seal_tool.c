#include "cli/seal_tool.h"

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
#include "cli/write.h"
#include "proc/spawn.h"

enum { ARGUMENTS_MAX = 8, PIECE = 64 << 10, COMPLAINT_MAX = 512 };

static const char name[] = SEAL_TOOL;

static int start(const char *const *arguments, const int fds[static 3], int *ret_status,
                 struct err *e)
{
    char path[PATH_MAX], *argv[ARGUMENTS_MAX + 2] = { NULL }, *envp[] = { NULL };
    struct spawn s = { .path = path, .argv = argv, .envp = envp, .fds = fds, .n_fds = 3 };
    const char *own = name;
    pid_t pid;
    int r = spawn_find(name, path, sizeof path, e);

    memcpy(&argv[0], &own, sizeof own); /* execve() writes to none of it */
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
        return err_sys(e, "making memory for a step");
    if (write_all(*ret, text, e) < 0)
        return -(int)ERR_SYS;
    return lseek(*ret, 0, SEEK_SET) < 0 ? err_sys(e, "handing over a text") : 0;
}

static int read_back(int fd, struct buf *out, struct err *e)
{
    char *room;
    ssize_t n;

    do {
        if (buf_room(out, PIECE, &room) < 0)
            return err_set(e, ERR_TOO_BIG, "%s says too much", name);
        n = pread(fd, room, PIECE, (off_t)out->n);
        if (n < 0 && errno != EINTR)
            return err_sys(e, "reading what %s says", name);
        buf_grew(out, n > 0 ? (size_t)n : 0);
    } while (n != 0);
    return 0;
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
        r = start(arguments, (const int[]){ in, said, complaint }, &status, e);
    if (r < 0)
        return r;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return seal_tool_complain(complaint, e);
    return read_back(said, out, e);
}

int seal_tool_show(const char *const *arguments, int *ret_status, struct err *e)
{
    int status, r = start(arguments, (const int[]){ -1, STDOUT_FILENO, STDERR_FILENO }, &status, e);

    if (r < 0)
        return r;
    if (!WIFEXITED(status))
        return err_set(e, ERR_UPSTREAM, "%s died", name);
    *ret_status = WEXITSTATUS(status);
    return 0;
}

/* --- Commands that stand in for a step --- */

int seal_tool_hear(int from, int64_t deadline, struct buf *out, struct err *e)
{
    struct pollfd wait = { .fd = from, .events = POLLIN };
    char *room;
    ssize_t n;

    for (;;) {
        if (clock_mono() >= deadline)
            return err_set(e, ERR_TIMEOUT, "it took too long");
        if (poll(&wait, 1, clock_poll_ms(deadline)) <= 0)
            continue;
        if (buf_room(out, PIPE_BUF, &room) < 0)
            return err_set(e, ERR_TOO_BIG, "it says more than it may");
        n = read(from, room, PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return err_sys(e, "reading its answer");
        if (n == 0)
            return 0;
        buf_grew(out, n > 0 ? (size_t)n : 0);
    }
}

static pid_t start_command(const char *command, int in, int out, struct err *e)
{
    pid_t pid = fork();

    if (pid < 0)
        return err_sys(e, "starting a command");
    if (pid == 0) {
        setpgid(0, 0);
        if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    setpgid(pid, pid); /* both do it, so that it is done whoever is first */
    return pid;
}

/* Its end, which is not later than the deadline. */
static int await(pid_t pid, int64_t deadline, int *ret_status, struct err *e)
{
    while (waitpid(pid, ret_status, WNOHANG) == 0) {
        if (clock_mono() >= deadline)
            return err_set(e, ERR_TIMEOUT, "it took too long");
        poll(NULL, 0, 2);
    }
    return 0;
}

int step_command_run(const char *command, struct str text, int64_t timeout_ns, struct buf *out,
                     struct err *e)
{
    int64_t deadline = clock_mono() + timeout_ns;
    AUTO_CLOSE int in = -1, from = -1;
    int pair[2], status = 0, r = memory_with(text, &in, e);
    pid_t pid;

    if (r < 0)
        return r;
    if (pipe2(pair, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    from = pair[0];
    pid = start_command(command, in, pair[1], e);
    close(pair[1]);
    if (pid < 0)
        return (int)pid;
    r = seal_tool_hear(from, deadline, out, e);
    if (r >= 0)
        r = await(pid, deadline, &status, e);
    kill(-pid, SIGKILL); /* what it left behind, too */
    if (r < 0) {
        waitpid(pid, &status, 0);
        return r;
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(e, ERR_UPSTREAM, "it failed (%d)",
                       WIFEXITED(status) ? WEXITSTATUS(status) : status);
    return 0;
}
