/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/helper.h"

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/proc/spawn.h"

enum { ARGUMENTS_MAX = 16, COMPLAINT_MAX = 512 };

static const struct {
    const char *name;
    bool inherits; /* our environment and stderr: it starts programs of the user */
} helpers[] = {
    [HELPER_EGRESS] = { "sandboxer-egress", false },
    [HELPER_SEAL] = { "sandboxer-seal", false },
    [HELPER_STEP] = { "sandboxer-step", true },
};

static int start_helper(enum helper_program h, const char *const *arguments,
                        const int fds[static 3], pid_t *ret, struct err *e)
{
    char path[PATH_MAX], *argv[ARGUMENTS_MAX + 2] = { NULL }, *nothing[] = { NULL };
    struct spawn s = { .path = path,
                       .argv = argv,
                       .envp = helpers[h].inherits ? environ : nothing,
                       .fds = fds,
                       .n_fds = 3 };
    int r = spawn_find(helpers[h].name, path, sizeof path, e);

    memcpy(&argv[0], &helpers[h].name, sizeof argv[0]); /* execve() does not modify them */
    for (size_t i = 0; i < ARGUMENTS_MAX && arguments[i]; i++)
        memcpy(&argv[i + 1], &arguments[i], sizeof argv[0]);
    return r < 0 ? r : spawn_start(&s, ret, e);
}

int helper_failed(enum helper_program h, int fd, struct err *e)
{
    char text[COMPLAINT_MAX], prefix[32];
    ssize_t n = pread(fd, text, sizeof text, 0);
    struct str line = { text, n > 0 ? (size_t)n : 0 };
    size_t known = (size_t)snprintf(prefix, sizeof prefix, "%s: ", helpers[h].name);

    line.n = str_find(line, '\n');
    if (str_starts(line, str_from(prefix)))
        line = (struct str){ line.p + known, line.n - known };
    if (!line.n)
        return err_set(e, ERR_UPSTREAM, "%s died", helpers[h].name);
    return err_set(e, ERR_INVALID, STR_FMT, STR_ARG(line));
}

int helper_start(enum helper_program h, const char *const *arguments, int in,
                 struct helper_call *ret, struct err *e)
{
    *ret = (struct helper_call){ .program = h,
                                 .said = memfd_create("answer", MFD_CLOEXEC),
                                 .complaint = memfd_create("complaint", MFD_CLOEXEC) };
    if (ret->said < 0 || ret->complaint < 0)
        return err_sys(e, "making memory for %s", helpers[h].name);
    return start_helper(
        h, arguments,
        (const int[]){ in, ret->said, helpers[h].inherits ? STDERR_FILENO : ret->complaint },
        &ret->pid, e);
}

int helper_finish(struct helper_call *c, struct buf *out, struct err *e)
{
    const char *name = helpers[c->program].name;
    int status = 0, r = spawn_wait(c->pid, &status, e);

    c->pid = 0;
    if (r < 0)
        return r;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return helper_failed(c->program, c->complaint, e);
    if (lseek(c->said, 0, SEEK_SET) < 0)
        return err_sys(e, "reading the output of %s", name);
    return err_wrap(e, buf_read_fd(out, c->said, e), "the output of %s", name);
}

void helper_call_done(struct helper_call *c)
{
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        spawn_wait(c->pid, &(int){ 0 }, NULL);
    }
    c->pid = 0;
    drop_fd(&c->said);
    drop_fd(&c->complaint);
}

int helper_run(enum helper_program h, const char *const *arguments, int in, struct buf *out,
               struct err *e)
{
    AUTO(helper_call_done) struct helper_call c;
    int r = helper_start(h, arguments, in, &c, e);

    return r < 0 ? r : helper_finish(&c, out, e);
}

int helper_run_text(enum helper_program h, const char *const *arguments, struct str text,
                    struct buf *out, struct err *e)
{
    AUTO_CLOSE int in = memfd_create("question", MFD_CLOEXEC);
    int r;

    if (in < 0)
        return err_sys(e, "making memory for %s", helpers[h].name);
    r = write_all(in, text, e);
    if (r >= 0 && lseek(in, 0, SEEK_SET) < 0)
        r = err_sys(e, "rewinding the input of %s", helpers[h].name);
    return r < 0 ? r : helper_run(h, arguments, in, out, e);
}

int helper_show(enum helper_program h, const char *const *arguments, int *ret_status, struct err *e)
{
    pid_t pid;
    int status,
        r = start_helper(h, arguments, (const int[]){ -1, STDOUT_FILENO, STDERR_FILENO }, &pid, e);

    if (r >= 0)
        r = spawn_wait(pid, &status, e);
    if (r < 0)
        return r;
    if (!WIFEXITED(status))
        return err_set(e, ERR_UPSTREAM, "%s died", helpers[h].name);
    *ret_status = WEXITSTATUS(status);
    return 0;
}
