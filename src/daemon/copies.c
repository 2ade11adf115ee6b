#include "daemon/copies.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "mirror/child.h"
#include "mirror/report.h"

/* What the new process is to know of the request. */
struct place {
    const struct launcher_options *options;
    const struct warden_ask *ask;
};

/* In the new process, with the rights that we have. */
static int find_dir(struct mirror_job *job, struct err *e)
{
    const struct place *p = job->find_ctx;
    struct stat st;
    int r = ask_check_fds(job->tar, job->manifest_out, job->manifest_in, e);

    if (r >= 0)
        r = ask_open_dir(p->ask, p->options, &job->dir, e);
    if (r < 0)
        return r;
    if (fstat(job->dir, &st) < 0)
        return err_sys(e, "looking at the workspace");
    if (p->ask->uid != 0 && p->ask->uid != st.st_uid)
        return err_set(e, ERR_DENIED, "the workspace belongs to uid %u, not to uid %u",
                       (unsigned)st.st_uid, (unsigned)p->ask->uid);
    job->uid = geteuid() == 0 ? st.st_uid : geteuid();
    job->gid = geteuid() == 0 ? st.st_gid : getegid();
    return 0;
}

static int start(struct copies *c, const struct launcher_options *o, const struct warden_ask *a,
                 const struct ipc_fds *fds, struct err *e)
{
    const struct place place = { o, a };
    const struct mirror_job job = { .receive = a->receive,
                                    .dir = -1,
                                    .find = find_dir,
                                    .find_ctx = &place,
                                    .tar = fds->fd[ASK_FD_TAR],
                                    .manifest_out = fds->fd[ASK_FD_MANIFEST_OUT],
                                    .manifest_in = fds->n > ASK_FD_MANIFEST_IN
                                                       ? fds->fd[ASK_FD_MANIFEST_IN]
                                                       : -1,
                                    .options = { .flags = a->flags, .top = a->top } };
    int r;

    if (c->n == COPIES_MAX)
        return err_set(e, ERR_BUSY, "%d workspaces are being copied", COPIES_MAX);
    r = mirror_child_fork(&job, fds->fd[ASK_FD_REPORT], &c->pid[c->n], e);
    if (r >= 0)
        c->n++;
    return r;
}

/* Whoever reads it may not: that must not hold us up. */
static void tell(int report, int r, const struct err *e)
{
    const struct mirror_report_end end = { .r = r, .e = *e };

    LOG(ERROR, "warden.failed", LOG_S("error", e->msg));
    if (fcntl(report, F_SETFL, O_NONBLOCK) == 0)
        (void)mirror_report_end(report, &end, NULL);
}

void copies_start(struct copies *c, const struct launcher_options *o, const struct warden_ask *a,
                  const struct ipc_fds *fds)
{
    struct err e;
    int r;

    if (fds->n < ASK_FD_MANIFEST_IN || fds->n > ASK_FDS_MAX) {
        LOG(ERROR, "warden.failed", LOG_S("error", "a copy with too few or too many descriptors"));
        return;
    }
    r = start(c, o, a, fds, &e);
    if (r < 0)
        tell(fds->fd[ASK_FD_REPORT], r, &e);
}

void copies_ended(struct copies *c, pid_t pid)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->pid[i] == pid) {
            c->pid[i] = c->pid[--c->n];
            return;
        }
}
