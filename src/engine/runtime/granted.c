/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/granted.h"

#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/ipc/credentials.h"

enum { GRANTED_MAGIC = 0x544e4d47 /* "GMNT" */, GRANTED_VERSION = 1 };

/* Only the used files are sent. Other packets of the supervisor that the control plane can get hold
 * of are answers (daemon/monitor_request.h): they begin with a number that the control plane has
 * chosen, but have 0 or a negative number in the place of `n`. */
struct granted_message {
    uint32_t magic, version, n, uid, gid;
    char id[ID_MAX];
    struct granted_file file[GRANTED_MAX];
};

static size_t granted_size(size_t n)
{
    return offsetof(struct granted_message, file) + n * sizeof(struct granted_file);
}

void granted_done(struct granted *g)
{
    for (size_t i = 0; i < g->n; i++)
        drop_fd(&g->fd[i]);
    g->n = 0;
}

/* The supervisor works in a child process, and as root sends in its own name. */
static struct credentials supervisor_credentials(void)
{
    struct credentials ret = credentials_own();

    if (ret.uid == 0)
        ret.pid = getppid();
    return ret;
}

int granted_pass(const struct granted *g, int *ret, struct err *e)
{
    const struct credentials self = supervisor_credentials();
    struct granted_message m = {
        .magic = GRANTED_MAGIC, .version = GRANTED_VERSION, .n = g->n, .uid = g->uid, .gid = g->gid
    };

    memcpy(m.id, g->id, sizeof m.id);
    memcpy(m.file, g->file, g->n * sizeof m.file[0]);
    return err_wrap(e, credentials_send(&self, &m, granted_size(g->n), g->fd, g->n, ret, e),
                    "passing the mounts of %s", g->id);
}

static bool is_granted_message(const struct granted_message *m, size_t size, size_t n_fds)
{
    if (size < granted_size(0) || m->magic != GRANTED_MAGIC || m->version != GRANTED_VERSION ||
        m->n == 0 || m->n > GRANTED_MAX || size != granted_size(m->n) || n_fds != m->n ||
        !memchr(m->id, 0, sizeof m->id))
        return false;
    for (size_t i = 0; i < m->n; i++)
        if (m->file[i].writable > 1 || m->file[i].is_dir > 1 ||
            !memchr(m->file[i].target, 0, sizeof m->file[i].target))
            return false;
    return true;
}

int granted_receive(int sock, pid_t supervisor, struct granted *ret, struct err *e)
{
    struct granted_message m = { 0 };
    struct credentials sender;
    struct ipc_fds fds AUTO(ipc_fds_done) = { .n = 0 };
    ssize_t n = credentials_receive(sock, true, &m, sizeof m, &fds, &sender, e);

    if (n < 0 || !is_granted_message(&m, (size_t)n, fds.n) || sender.uid != geteuid() ||
        (supervisor && sender.pid != supervisor))
        return err_set(e, ERR_DENIED, "the mounts were not passed by the supervisor");
    *ret = (struct granted){ .uid = m.uid, .gid = m.gid, .n = m.n };
    memcpy(ret->id, m.id, sizeof ret->id);
    memcpy(ret->file, m.file, m.n * sizeof m.file[0]);
    for (size_t i = 0; i < m.n; i++)
        ret->fd[i] = take_fd(&fds.fd[i]);
    return 0;
}

int granted_check(const struct granted *g, const struct plan *p, struct err *e)
{
    uint32_t at = 0;

    if (strcmp(g->id, p->id) != 0)
        return err_set(e, ERR_DENIED, "the mounts were granted to another sandbox, %s", g->id);
    for (uint32_t i = 0; i < p->n_mounts; i++) {
        const struct plan_mount *m = &p->mounts[i];
        const struct granted_file *f = &g->file[at];

        if (m->root != PLAN_GRANT)
            continue;
        if (at++ == g->n || strcmp(f->target, m->target) != 0)
            return err_set(e, ERR_DENIED, "%s: the client granted no file for this mount",
                           m->target);
        if ((m->flags & PLAN_MOUNT_RW) && !f->writable)
            return err_set(e, ERR_DENIED, "%s: the client granted the file for reading only",
                           m->target);
    }
    return at == g->n ? 0 : err_set(e, ERR_DENIED, "a granted mount is not part of the plan");
}
