/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/grants.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "lib/proc/sys.h"

enum { GRANT_MAGIC = 0x544e5247 /* "GRNT" */, GRANT_VERSION = 1 };

bool grant_name_valid(const char *sandbox)
{
    size_t n = strnlen(sandbox, ID_MAX);

    return n > 0 && n < ID_MAX && sandbox[0] != '.' && !memchr(sandbox, '/', n);
}

/* --- records --- */

static bool ends_inside(const char *text)
{
    return memchr(text, 0, GRANT_PATH_MAX);
}

static int read_grant(const struct grants *g, const char *sandbox, struct workspace_grant *ret,
                      struct err *e)
{
    ssize_t n;

    if (!grant_name_valid(sandbox))
        return err_set(e, ERR_INVALID, "invalid sandbox id in a workspace request");
    n = host_record_read(g->dir, sandbox, ret, sizeof *ret, e);
    if (n == -(ssize_t)ERR_NOT_FOUND)
        return err_set(e, ERR_NOT_FOUND, "no client granted a directory to sandbox %s", sandbox);
    if (n < 0)
        return err_wrap(e, (int)n, "the workspace of %s", sandbox);
    if (n != (ssize_t)sizeof *ret || ret->magic != GRANT_MAGIC || ret->version != GRANT_VERSION ||
        ret->client.n_groups > CLIENT_GROUPS_MAX || !ends_inside(ret->root) ||
        !ends_inside(ret->path))
        return err_set(e, ERR_INVALID, "the workspace record of %s is damaged", sandbox);
    return 0;
}

int grant_remove(const struct grants *g, const char *sandbox, struct err *e)
{
    if (!grant_name_valid(sandbox))
        return err_set(e, ERR_INVALID, "invalid sandbox id in a workspace request");
    if (unlinkat(g->dir, sandbox, 0) < 0 && errno != ENOENT)
        return err_sys(e, "removing the workspace record of %s", sandbox);
    return 0;
}

/* --- directories --- */

static int refuse_open(const char *path, struct err *e)
{
    switch (errno) {
    case EXDEV:
    case ELOOP:
        return err_set(e, ERR_DENIED, "the workspace %s leads through a link or out of its root",
                       path);
    case EACCES:
    case EPERM:
        return err_set(e, ERR_DENIED, "the workspace %s is closed to its user", path);
    case ENOENT:
    case ENOTDIR:
        return err_set(e, ERR_INVALID, "the workspace %s is not a directory", path);
    default:
        return err_sys(e, "opening the workspace %s", path);
    }
}

static int open_directory_at(int at, const char *path, uint64_t resolve, const char *shown,
                             int *ret, struct err *e)
{
    int fd = sys_openat2(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, resolve);

    if (fd < 0)
        return refuse_open(shown, e);
    *ret = fd;
    return 0;
}

static int open_granted_directory(const char *root, const char *path, int *ret, struct err *e)
{
    AUTO_CLOSE int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return err_sys(e, "opening the root %s", root);
    return open_directory_at(
        dir, path, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS, path, ret, e);
}

/* With the rights of the client. */
static int open_as(const struct grants *g, const struct workspace_grant *record, int handed,
                   int *ret, struct err *e)
{
    struct err left;
    int r = client_enter(&record->client, e), back;

    if (r >= 0 && handed >= 0)
        r = open_directory_at(handed, ".", 0, "that was handed over", ret, e);
    else if (r >= 0 && record->root[0])
        r = open_granted_directory(record->root, record->path, ret, e);
    else if (r >= 0)
        r = open_directory_at(AT_FDCWD, record->path,
                              g->launcher->untrusted ? RESOLVE_NO_SYMLINKS : 0, record->path, ret,
                              e);
    back = client_leave(&left);
    if (back < 0) {
        if (r >= 0)
            drop_fd(ret);
        *e = left;
        return back;
    }
    return r;
}

/* Records have the members of struct host_file in places of their own. */
static void note_identity(const struct host_file *f, struct workspace_grant *record)
{
    record->has_birth = f->has_birth;
    record->birth_s = f->birth_s;
    record->birth_ns = f->birth_ns;
    record->inode = f->inode;
    record->device = f->device;
}

static bool is_same_directory(const struct workspace_grant *record, const struct host_file *now)
{
    const struct host_file recorded = { .inode = record->inode,
                                        .device = record->device,
                                        .birth_s = record->birth_s,
                                        .birth_ns = record->birth_ns,
                                        .has_birth = record->has_birth };

    return host_file_same(&recorded, now);
}

/* Root alone grants what belongs to root. */
static int check_workspace_owner(const struct workspace_grant *record, const struct host_file *f,
                                 const char *path, struct err *e)
{
    if (f->uid == 0 && record->client.uid != 0 && geteuid() == 0)
        return err_set(e, ERR_DENIED, "the workspace %s belongs to root and the client is uid %u",
                       path, (unsigned)record->client.uid);
    return 0;
}

static int finish_grant(const struct grants *g, const char *sandbox, struct workspace_grant *record,
                        int dir, struct err *e)
{
    struct host_file file;
    int r = host_file_read(dir, &file, e);

    fault_point("grant.open");

    if (r >= 0)
        r = check_workspace_owner(record, &file, record->path, e);
    if (r < 0 || !sandbox)
        return r;
    note_identity(&file, record);
    return err_wrap(e, host_record_write(g->dir, sandbox, record, sizeof *record, e),
                    "recording the workspace of %s", sandbox);
}

int grant_make_named(const struct grants *g, const char *sandbox, int sock, uint32_t root,
                     const char *path, bool writable, struct err *e)
{
    const struct launcher_options *o = g->launcher;
    struct workspace_grant record = { .magic = GRANT_MAGIC,
                                      .version = GRANT_VERSION,
                                      .writable = writable };
    AUTO_CLOSE int dir = -1;
    int r = client_identify(sock, g->doors, &record.client, e);

    if (r >= 0 && (root > o->n_roots || (o->untrusted && !root)))
        r = err_set(e, ERR_DENIED, "the workspace is not below one of workspaces.roots");
    if (r >= 0 &&
        (!str_copy(str_from(path), record.path, sizeof record.path) ||
         !str_copy(str_from(root ? o->roots[root - 1] : ""), record.root, sizeof record.root)))
        r = err_set(e, ERR_TOO_BIG, "the workspace %.100s: the path has more than %d bytes", path,
                    GRANT_PATH_MAX - 1);
    if (r >= 0)
        r = open_as(g, &record, -1, &dir, e);
    return r < 0 ? r : finish_grant(g, sandbox, &record, dir, e);
}

int grant_make_handed(const struct grants *g, const char *sandbox, const struct client *client,
                      const struct handover *h, bool writable, struct err *e)
{
    struct workspace_grant record = { .magic = GRANT_MAGIC,
                                      .version = GRANT_VERSION,
                                      .client = *client };
    AUTO_CLOSE int dir = -1;
    int r;

    if (h->n == 0 || h->file[0].use != HANDOVER_WORKSPACE)
        return err_set(e, ERR_DENIED, "the client handed over no workspace");
    record.writable = writable && h->file[0].writable;
    r = open_as(g, &record, h->fd[0], &dir, e);
    if (r >= 0)
        r = err_wrap(e, host_file_path(dir, record.path, e), "the workspace");
    return r < 0 ? r : finish_grant(g, sandbox, &record, dir, e);
}

/* Refuses workspaces below a root that the operator has removed from the configuration. */
static int check_root(const struct grants *g, const struct workspace_grant *record, struct err *e)
{
    for (size_t i = 0; i < g->launcher->n_roots; i++)
        if (strcmp(g->launcher->roots[i], record->root) == 0)
            return 0;
    return record->root[0]
               ? err_set(e, ERR_DENIED, "the workspace %s/%s: workspaces.roots does not name %s",
                         record->root, record->path, record->root)
               : 0;
}

int grant_open(const struct grants *g, const char *sandbox, struct workspace_grant *ret,
               int *ret_dir, struct err *e)
{
    AUTO_CLOSE int dir = -1;
    struct host_file now;
    int r = read_grant(g, sandbox, ret, e);

    fault_point("ask.open");
    if (r >= 0)
        r = check_root(g, ret, e);
    if (r >= 0)
        r = open_as(g, ret, -1, &dir, e);
    if (r >= 0)
        r = host_file_read(dir, &now, e);
    if (r >= 0)
        r = check_workspace_owner(ret, &now, ret->path, e);
    if (r >= 0 && !is_same_directory(ret, &now))
        r = err_set(e, ERR_CONFLICT,
                    "the workspace %s is not the directory that the sandbox was created with",
                    ret->path);
    if (r >= 0)
        *ret_dir = take_fd(&dir);
    return r;
}
