/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/egress_tool.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/io.h"
#include "lib/proc/spawn.h"

enum { OPTIONS_MAX = 16, COMPLAINT_MAX = 512 };

static const char prefix[] = "sandboxer-egress: ";

/* Its first line, without its name. */
static int report_egress_tool_error(int fd, int status, struct err *e)
{
    char text[COMPLAINT_MAX];
    ssize_t n = pread(fd, text, sizeof text, 0);
    struct str line = { text, n > 0 ? (size_t)n : 0 };

    line.n = str_find(line, '\n');
    if (str_starts(line, str_from(prefix)))
        line = (struct str){ line.p + strlen(prefix), line.n - strlen(prefix) };
    if (!line.n)
        return err_set(e, ERR_UPSTREAM, "sandboxer-egress ended without a message (wait status %d)",
                       status);
    return err_set(e, ERR_INVALID, STR_FMT, STR_ARG(line));
}

static int start_egress_tool(const char *const *options, const int fds[static 3], int *ret_status,
                             struct err *e)
{
    char path[PATH_MAX], *argv[OPTIONS_MAX + 2] = { NULL }, *envp[] = { NULL };
    struct spawn s = { .path = path, .argv = argv, .envp = envp, .fds = fds, .n_fds = 3 };
    const char *name = "sandboxer-egress";
    pid_t pid;
    int r = spawn_find(name, path, sizeof path, e);

    memcpy(&argv[0], &name, sizeof name); /* execve() writes to none of it */
    for (size_t i = 0; i < OPTIONS_MAX && options[i]; i++)
        memcpy(&argv[i + 1], &options[i], sizeof options[i]);
    if (r >= 0)
        r = spawn_start(&s, &pid, e);
    return r < 0 ? r : spawn_wait(pid, ret_status, e);
}

int egress_tool_run(const char *const *options, struct str text, struct buf *out, struct err *e)
{
    AUTO_CLOSE int in = memfd_create("policy", MFD_CLOEXEC);
    int r;

    if (in < 0)
        return err_sys(e, "making memory for sandboxer-egress");
    r = write_all(in, text, e);
    if (r >= 0 && lseek(in, 0, SEEK_SET) < 0)
        r = err_sys(e, "rewinding the policy's memory file");
    return r < 0 ? r : egress_tool_read(options, in, out, e);
}

int egress_tool_read(const char *const *options, int in, struct buf *out, struct err *e)
{
    AUTO_CLOSE int said = memfd_create("answer", MFD_CLOEXEC);
    AUTO_CLOSE int complaint = memfd_create("complaint", MFD_CLOEXEC);
    int status = 0, r = 0;

    if (said < 0 || complaint < 0)
        r = err_sys(e, "making memory for sandboxer-egress");
    if (r >= 0)
        r = start_egress_tool(options, (const int[]){ in, said, complaint }, &status, e);
    if (r < 0)
        return r;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return report_egress_tool_error(complaint, status, e);
    if (lseek(said, 0, SEEK_SET) < 0)
        return err_sys(e, "reading the output of sandboxer-egress");
    return err_wrap(e, buf_read_fd(out, said, e), "the output of sandboxer-egress");
}
