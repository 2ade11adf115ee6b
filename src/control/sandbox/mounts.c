/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "control/sandbox/grant_slots.h"
#include "control/sandbox/sandbox.h"
#include "control/sandbox/spec.h"

/* A request to the supervisor. It stays until the answer, also if the sandbox no longer waits. */
struct mounts_opening {
    struct control_request request;
    struct sandbox *sandbox; /* referenced */
    mounts_fn *done;
};

int mounts_check(struct control *c, const struct caller *who, const struct create_request *q,
                 const struct control_client *client, struct err *e)
{
    const struct account a = account_of(c, who->owner, who->family);

    if (!q->mounts.n)
        return 0;
    if (!who->host_paths || !client || client->handed < 0 ||
        (c->context.roots_only && strncmp(who->owner, "uid:", 4) != 0))
        return err_set(e, ERR_DENIED,
                       "mounts: only users of the daemon's machine can grant files, with the "
                       "sandboxer command and on its unix socket; copy files with the API instead");
    if (!c->supervisor.grant)
        return err_set(e, ERR_UNSUPPORTED, "mounts: this daemon has no supervisor that opens them");
    if (q->capabilities.filesystem &&
        request_mounts_access(&q->mounts) > q->capabilities.filesystem)
        return err_set(e, ERR_DENIED,
                       "mounts: one is %s, but capabilities.filesystem declares no more than %s",
                       workspace_access_names[request_mounts_access(&q->mounts)],
                       workspace_access_names[q->capabilities.filesystem]);
    return grant_slots_check(c, &a, e);
}

void mounts_fill_grant(const struct create_request *q, struct control_grant *g)
{
    g->mounts = (uint32_t)q->mounts.n;
    for (size_t i = 0; i < q->mounts.n; i++)
        if (request_mount_at(&q->mounts, i)->access == MOUNT_ACCESS_RW)
            g->writable_mounts |= UINT32_C(1) << i;
    if (!g->path && q->mounts.n)
        g->path = request_mount_at(&q->mounts, 0)->source;
}

int mounts_note_grant(const struct sandbox *s, struct err *e)
{
    int state = s->control->context.state;
    AUTO_CLOSE int fd = -1;
    char name[64 + ID_MAX];

    if (!s->request.mounts.n)
        return 0;
    snprintf(name, sizeof name, "mirror/%s.mounts", s->record.id);
    if (mkdirat(state, "mirror", 0700) == 0 || errno == EEXIST)
        fd = openat(state, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? err_sys(e, "noting the mounts of %s", s->record.id) : 0;
}

void mounts_cancel(struct sandbox *s)
{
    s->opening = NULL;
    drop_fd(&s->granted);
}

int mounts_take(struct sandbox *s)
{
    return take_fd(&s->granted);
}

static void on_mounts_opened(struct control_request *q, int r, const struct err *e, int *fd)
{
    struct mounts_opening *o = container_of(q, struct mounts_opening, request);
    struct sandbox *s = o->sandbox;
    struct err why = { 0 };

    if (r < 0)
        why = *e;
    if (r == -(int)ERR_TIMEOUT) /* the only error that does not name the file */
        (void)err_wrap(&why, r, "%.120s", spec_granted_path(&s->request));
    if (s->opening == o) {
        s->opening = NULL;
        drop_fd(&s->granted);
        if (r >= 0)
            s->granted = take_fd(fd);
        o->done(s, r, &why);
    }
    free(o);
    sandbox_unref(s);
}

int mounts_open(struct sandbox *s, mounts_fn *done, struct err *e)
{
    const struct account a = sandbox_account(s);
    struct control_grant g = {
        .sandbox = s->record.id, .open_mounts = true, .client = -1, .handed = -1
    };
    struct mounts_opening *o;
    int r;

    mounts_cancel(s);
    if (!s->request.mounts.n)
        return 0;
    mounts_fill_grant(&s->request, &g);
    o = new0(sizeof *o);
    *o = (struct mounts_opening){ .request.done = on_mounts_opened,
                                  .sandbox = sandbox_ref(s),
                                  .done = done };
    r = grant_slots_ask(s->control, &a, s->salvage, &g, &o->request, e);
    if (r < 0) {
        free(o);
        sandbox_unref(s);
        return r;
    }
    s->opening = o;
    return 1;
}
