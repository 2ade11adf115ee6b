/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/copies.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/sandbox/workspace.h"
#include "engine/sync/child.h"
#include "engine/sync/report.h"

/* The request, as the child process sees it. */
struct workspace_copy {
    const struct grants *grants;
    const struct monitor_request *message;
    const struct ipc_fds *fds;
};

static size_t count_copy_fds(unsigned has)
{
    return MONITOR_FDS_LEAST + (size_t)__builtin_popcount(has);
}

/* One of the descriptors that may be left out; -1: it was. */
static int optional_fd(const struct workspace_copy *c, enum ask_has which)
{
    unsigned before = c->message->has & ((unsigned)which - 1);

    return c->message->has & (unsigned)which ? c->fds->fd[count_copy_fds(before)] : -1;
}

/* Only the directory's user or root may accept names that programs of the host obey, and must be
 * connected. */
static int check_acceptance(const struct workspace_copy *c, const struct workspace_grant *g,
                            int client, struct err *e)
{
    struct client who;
    int r;

    if (!(c->message->flags & SYNC_ALLOW_SENSITIVE) && !(c->message->has & MONITOR_HAS_ACCEPT))
        return 0;
    r = client_identify(client, c->grants->doors, &who, e);
    if (r >= 0 && who.uid != 0 && who.uid != g->client.uid)
        r = err_set(e, ERR_DENIED, "uid %u cannot accept files into the workspace of uid %u",
                    (unsigned)who.uid, (unsigned)g->client.uid);
    return r;
}

/* The list stays in the new process for as long as it copies. */
static int read_accepted(struct sync_job *job, int fd, struct err *e)
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
static int set_identity(struct sync_job *job, const struct workspace_grant *g, struct err *e)
{
    struct stat st;

    if (fstat(job->dir, &st) < 0)
        return err_sys(e, "reading the attributes of the workspace");
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

/* In the new process, with the rights that the monitor has. */
static int find_dir(struct sync_job *job, struct err *e)
{
    static struct workspace_grant g;
    const struct workspace_copy *c = job->find_ctx;
    int r = monitor_request_check_fds(job->tar, job->manifest_out, job->manifest_in, e);

    if (r >= 0)
        r = grant_open(c->grants, c->message->sandbox, &g, &job->dir, e);
    if (r >= 0 && c->message->receive && !g.writable)
        r = err_set(e, ERR_DENIED, "the workspace %s was granted for reading only", g.path);
    if (r >= 0)
        r = check_acceptance(c, &g, optional_fd(c, MONITOR_HAS_CLIENT), e);
    if (r >= 0)
        r = read_accepted(job, optional_fd(c, MONITOR_HAS_ACCEPT), e);
    return r < 0 ? r : set_identity(job, &g, e);
}

static int start_sync_process(struct children *c, const struct grants *g,
                              const struct monitor_request *a, const struct ipc_fds *fds,
                              struct err *e)
{
    const struct workspace_copy copy = { g, a, fds };
    const struct sync_job job = { .receive = a->receive,
                                  .dir = -1,
                                  .find = find_dir,
                                  .find_ctx = &copy,
                                  .tar = fds->fd[MONITOR_FD_TAR],
                                  .manifest_out = fds->fd[MONITOR_FD_MANIFEST_OUT],
                                  .manifest_in = optional_fd(&copy, MONITOR_HAS_MANIFEST_IN),
                                  .options = { .flags = a->flags, .top = a->top } };
    pid_t pid;
    int r;

    /* Forgets those whose end the monitor has not come to yet. */
    for (size_t i = c->n == c->max ? c->n : 0; i-- > 0;)
        if (waitpid(c->child[i].pid, NULL, WNOHANG) > 0)
            children_ended(c, c->child[i].pid);
    r = children_check(c, e);
    if (r >= 0)
        r = sync_child_fork(&job, fds->fd[MONITOR_FD_REPORT], &pid, e);
    if (r >= 0)
        children_add(c, pid, 0);
    return r;
}

int copies_start(struct children *c, const struct grants *g, const struct monitor_request *a,
                 const struct ipc_fds *fds, struct err *e)
{
    int r;

    if (fds->n != count_copy_fds(a->has))
        return err_set(e, ERR_INVALID, "a copy request with the wrong number of descriptors");
    r = start_sync_process(c, g, a, fds, e);
    /* The report's reader may not read: writing must not block the monitor. */
    if (r < 0 && fcntl(fds->fd[MONITOR_FD_REPORT], F_SETFL, O_NONBLOCK) == 0)
        (void)sync_report_end(fds->fd[MONITOR_FD_REPORT],
                              &(struct sync_report_end){ .r = r, .e = *e }, NULL);
    return r;
}
