#include "daemon/copies.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "control/workspace.h"
#include "mirror/child.h"
#include "mirror/report.h"

/* What the new process knows of the request. */
struct copy {
    const struct grants *grants;
    const struct warden_ask *ask;
    const struct ipc_fds *fds;
};

static size_t count_fds(unsigned has)
{
    return ASK_FDS_LEAST + (size_t)__builtin_popcount(has);
}

/* One of the descriptors that may be left out; -1: it was. */
static int optional_fd(const struct copy *c, enum ask_has which)
{
    unsigned before = c->ask->has & ((unsigned)which - 1);

    return c->ask->has & (unsigned)which ? c->fds->fd[count_fds(before)] : -1;
}

/* Accepting names that programs of the host obey is up to the user whose directory it is, or root,
 * who must be connected. */
static int check_acceptance(const struct copy *c, const struct grant *g, int client, struct err *e)
{
    struct client who;
    int r;

    if (!(c->ask->flags & MIRROR_ALLOW_SENSITIVE) && !(c->ask->has & ASK_HAS_ACCEPT))
        return 0;
    r = client_identify(client, c->grants->doors, &who, e);
    if (r >= 0 && who.uid != 0 && who.uid != g->client.uid)
        r = err_set(e, ERR_DENIED, "uid %u cannot accept files into the workspace of uid %u",
                    (unsigned)who.uid, (unsigned)g->client.uid);
    return r;
}

/* The list stays in the new process for as long as it copies. */
static int read_accepted(struct mirror_job *job, int fd, struct err *e)
{
    static char text[WORKSPACE_ACCEPT_BYTES];
    static const char *paths[WORKSPACE_ACCEPT_MAX];
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof text, 0);
    size_t count = 0;

    if (n < 0)
        return err_sys(e, "reading the accepted paths");
    if (n > 0 && text[n - 1] != '\0')
        return err_set(e, ERR_TOO_BIG, "the accepted paths have more than %d bytes together",
                       WORKSPACE_ACCEPT_BYTES);
    for (const char *at = text; at < text + n; at += strlen(at) + 1) {
        if (count == WORKSPACE_ACCEPT_MAX)
            return err_set(e, ERR_TOO_BIG, "more than %d paths are accepted", WORKSPACE_ACCEPT_MAX);
        paths[count++] = at;
    }
    job->options.accept = paths;
    job->options.n_accept = count;
    return 0;
}

/* A client that is root opens the directory as root, and then needs no more than its owner's rights
 * to copy. */
static int set_identity(struct mirror_job *job, const struct grant *g, struct err *e)
{
    struct stat st;

    if (fstat(job->dir, &st) < 0)
        return err_sys(e, "looking at the workspace");
    job->uid = geteuid();
    job->gid = getegid();
    if (geteuid() != 0)
        return 0;
    job->uid = g->client.uid ? g->client.uid : st.st_uid;
    job->gid = g->client.uid ? g->client.gid : st.st_gid;
    job->groups = g->client.groups;
    job->n_groups = g->client.uid ? g->client.n_groups : 0;
    return 0;
}

/* In the new process, with the rights that the supervisor has. */
static int find_dir(struct mirror_job *job, struct err *e)
{
    static struct grant g;
    const struct copy *c = job->find_ctx;
    int r = ask_check_fds(job->tar, job->manifest_out, job->manifest_in, e);

    if (r >= 0)
        r = grant_open(c->grants, c->ask->sandbox, &g, &job->dir, e);
    if (r >= 0 && c->ask->receive && !g.writable)
        r = err_set(e, ERR_DENIED, "the workspace %s was granted for reading only", g.path);
    if (r >= 0)
        r = check_acceptance(c, &g, optional_fd(c, ASK_HAS_CLIENT), e);
    if (r >= 0)
        r = read_accepted(job, optional_fd(c, ASK_HAS_ACCEPT), e);
    return r < 0 ? r : set_identity(job, &g, e);
}

static int start(struct copies *c, const struct grants *g, const struct warden_ask *a,
                 const struct ipc_fds *fds, struct err *e)
{
    const struct copy copy = { g, a, fds };
    const struct mirror_job job = { .receive = a->receive,
                                    .dir = -1,
                                    .find = find_dir,
                                    .find_ctx = &copy,
                                    .tar = fds->fd[ASK_FD_TAR],
                                    .manifest_out = fds->fd[ASK_FD_MANIFEST_OUT],
                                    .manifest_in = optional_fd(&copy, ASK_HAS_MANIFEST_IN),
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

void copies_start(struct copies *c, const struct grants *g, const struct warden_ask *a,
                  const struct ipc_fds *fds)
{
    struct err e;
    int r;

    if (fds->n != count_fds(a->has)) {
        LOG(ERROR, "warden.failed", LOG_S("error", "a copy with too few or too many descriptors"));
        return;
    }
    r = start(c, g, a, fds, &e);
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
