/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "cli/run/helper.h"
#include "lib/proc/spawn.h"
#include "engine/runtime/rootfs.h"

enum { PARTS_MAX = 512 };
#define READ_NS (60 * NS_PER_S)

/* Names the parts of a root that has no layers: its system directories are overlays on the host's,
 * and everything else was made for the sandbox. */
static int name_root(const struct rootfs_part *root, struct buf *out)
{
    int r = buf_add(out, str_from(root->dir));

    for (const struct rootfs_part *p = rootfs_parts; p->dir && r >= 0; p++)
        if (p->has_lower && p->at[0])
            r = buf_addf(out, "+%s", p->at);
    return r < 0 ? r : buf_add_c(out, '=');
}

/* All parts that a writable layer can have, as engine/attest/changes.h has them. */
static int name_parts(bool layered, struct buf *out, struct err *e)
{
    int r = 0;

    for (const struct rootfs_part *p = rootfs_parts; p->dir && r >= 0; p++) {
        if (p != rootfs_parts)
            r = buf_add_c(out, ',');
        if (r >= 0 && p->has_lower && !p->at[0] && !layered)
            r = name_root(p, out);
        else if (r >= 0)
            r = buf_addf(out, "%s%s=%s", p->dir, p->has_lower ? "+" : "", p->at);
    }
    return r < 0 || buf_add_c(out, '\0') < 0 ? err_set(e, ERR_BUG, "more parts than fit") : 0;
}

static int start_changes_tool(struct run_changes *c, bool layered, const int *fds, int n,
                              struct err *e)
{
    AUTO(buf_done) struct buf parts = BUF_INIT(PARTS_MAX);
    char path[PATH_MAX], name[] = "sandboxer-seal", task[] = "changes";
    char *argv[] = { name, task, NULL, NULL }, *envp[] = { NULL };
    struct spawn s = { .path = path, .argv = argv, .envp = envp, .fds = fds, .n_fds = n };
    int r = name_parts(layered, &parts, e);

    if (r >= 0)
        r = spawn_find(name, path, sizeof path, e);
    argv[2] = parts.p;
    return r < 0 ? r : spawn_start(&s, &c->pid, e);
}

/* The tool writes a newline when it has read the layer. */
static int await_changes_ready(struct run_changes *c, struct err *e)
{
    struct pollfd wait = { .fd = c->from, .events = POLLIN };
    int64_t deadline = clock_mono() + READ_NS;
    char said;

    while (poll(&wait, 1, clock_poll_ms(deadline)) <= 0)
        if (clock_mono() >= deadline)
            return err_set(
                e, ERR_TIMEOUT,
                "the sandbox's files could not be read in time; nothing is known of its changes");
    return read(c->from, &said, 1) == 1 ? 0 : helper_failed(HELPER_SEAL, c->complaint, e);
}

int changes_begin(struct run_changes *c, int layer, int lower, bool layered, int userns,
                  struct err *e)
{
    AUTO_CLOSE int in = -1, out = -1;
    int to[2], from[2], r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to) < 0)
        return err_sys(e, "making a pair of sockets");
    in = to[0];
    c->to = to[1];
    if (pipe2(from, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    c->from = from[0];
    out = from[1];
    c->complaint = memfd_create("complaint", MFD_CLOEXEC);
    if (c->complaint < 0)
        return err_sys(e, "making memory for a complaint");
    r = start_changes_tool(c, layered, (const int[]){ in, out, c->complaint, layer, lower, userns },
                           6, e);
    drop_fd(&out); /* so that its end is an end of file */
    drop_fd(&in);
    if (r >= 0)
        r = await_changes_ready(c, e);
    return err_wrap(e, r, "reading the sandbox's files");
}

/* Reads the tool's report up to its end. */
static int read_changes(int from, int64_t deadline, struct buf *out, struct err *e)
{
    struct pollfd wait = { .fd = from, .events = POLLIN };
    char *room;
    ssize_t n;

    for (;;) {
        if (clock_mono() >= deadline)
            return err_set(e, ERR_TIMEOUT,
                           "sandboxer-seal did not end in time, so the changes are unknown");
        if (poll(&wait, 1, clock_poll_ms(deadline)) <= 0)
            continue;
        if (buf_room(out, PIPE_BUF, &room) < 0)
            return err_set(e, ERR_TOO_BIG, "the output of sandboxer-seal is longer than %zu bytes",
                           out->max);
        n = read(from, room, PIPE_BUF);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return err_sys(e, "reading the output of sandboxer-seal");
        if (n == 0)
            return 0;
        buf_grew(out, n > 0 ? (size_t)n : 0);
    }
}

int changes_end(struct run_changes *c, struct buf *out, struct err *e)
{
    int status, r;

    if (!c->pid)
        return err_set(e, ERR_BUG,
                       "internal error: the sandbox's files were not read before the run");
    if (send(c->to, "\n", 1, MSG_NOSIGNAL) != 1) /* it may have died */
        return helper_failed(HELPER_SEAL, c->complaint, e);
    r = read_changes(c->from, clock_mono() + READ_NS, out, e);
    if (r < 0)
        return err_wrap(e, r, "reading the sandbox's files");
    r = spawn_wait(c->pid, &status, e);
    c->pid = 0;
    if (r >= 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        r = helper_failed(HELPER_SEAL, c->complaint, e);
    return err_wrap(e, r, "reading the sandbox's files");
}

void changes_done(struct run_changes *c)
{
    int status;

    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        spawn_wait(c->pid, &status, NULL);
    }
    c->pid = 0;
    drop_fd(&c->to);
    drop_fd(&c->from);
    drop_fd(&c->complaint);
}
