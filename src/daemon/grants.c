/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/grants.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/id.h"
#include "base/io.h"
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

static int write_grant(const struct grants *g, const char *sandbox,
                       const struct workspace_grant *record, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char name[ID_MAX + 8];
    int r;

    snprintf(name, sizeof name, ".%s.new", sandbox);
    fd = openat(g->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = fd < 0 ? err_sys(e, "opening %s", name)
               : write_all(fd, (struct str){ (const char *)record, sizeof *record }, e);
    if (r >= 0 && (fdatasync(fd) < 0 || renameat(g->dir, name, g->dir, sandbox) < 0))
        r = err_sys(e, "writing %s", name);
    return err_wrap(e, r, "recording the workspace of %s", sandbox);
}

static bool ends_inside(const char *text)
{
    return memchr(text, 0, GRANT_PATH_MAX);
}

static int read_grant(const struct grants *g, const char *sandbox, struct workspace_grant *ret,
                      struct err *e)
{
    AUTO_CLOSE int fd = -1;
    ssize_t n;

    if (!grant_name_valid(sandbox))
        return err_set(e, ERR_INVALID, "invalid sandbox id in a workspace request");
    fd = openat(g->dir, sandbox, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "no client granted a directory to sandbox %s", sandbox);
    n = fd < 0 ? -1 : read(fd, ret, sizeof *ret);
    if (n < 0)
        return err_sys(e, "reading the workspace record of %s", sandbox);
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

static int stat_workspace(int dir, struct statx *ret, struct err *e)
{
    if (syscall(SYS_statx, dir, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, ret) < 0)
        return err_sys(e, "reading the attributes of the workspace");
    return 0;
}

static void note_identity(const struct statx *st, struct workspace_grant *record)
{
    record->has_birth = (st->stx_mask & STATX_BTIME) != 0;
    record->birth_s = record->has_birth ? st->stx_btime.tv_sec : 0;
    record->birth_ns = record->has_birth ? st->stx_btime.tv_nsec : 0;
    record->inode = st->stx_ino;
    record->device = (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor;
}

/* Numbers of devices can change when the machine starts; the time of birth does not. */
static bool is_same_directory(const struct workspace_grant *record, const struct statx *st)
{
    struct workspace_grant now = { 0 };

    note_identity(st, &now);
    return now.inode == record->inode && now.has_birth == record->has_birth &&
           (now.has_birth ? now.birth_s == record->birth_s && now.birth_ns == record->birth_ns
                          : now.device == record->device);
}

/* Root alone grants what belongs to root. */
static int check_workspace_owner(const struct workspace_grant *record, const struct statx *st,
                                 const char *path, struct err *e)
{
    if (st->stx_uid == 0 && record->client.uid != 0 && geteuid() == 0)
        return err_set(e, ERR_DENIED, "the workspace %s belongs to root and the client is uid %u",
                       path, (unsigned)record->client.uid);
    return 0;
}

static int finish_grant(const struct grants *g, const char *sandbox, struct workspace_grant *record,
                        int dir, struct err *e)
{
    struct statx st = { 0 };
    int r = stat_workspace(dir, &st, e);

    fault_point("grant.open");

    if (r >= 0)
        r = check_workspace_owner(record, &st, record->path, e);
    if (r < 0 || !sandbox)
        return r;
    note_identity(&st, record);
    return write_grant(g, sandbox, record, e);
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

/* The path by which a directory can be opened again. */
static int find_path(int dir, char ret[static GRANT_PATH_MAX], struct err *e)
{
    static const char gone[] = " (deleted)";
    char link[32];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    n = readlink(link, ret, GRANT_PATH_MAX - 1);
    if (n < 0)
        return err_sys(e, "finding the path of the workspace");
    ret[n] = 0;
    if (n == GRANT_PATH_MAX - 1)
        return err_set(e, ERR_TOO_BIG, "the workspace %.100s…: the path has more than %d bytes",
                       ret, GRANT_PATH_MAX - 2);
    if (ret[0] != '/' ||
        (n >= (ssize_t)sizeof gone && strcmp(ret + n - (sizeof gone - 1), gone) == 0))
        return err_set(e, ERR_INVALID, "the workspace %.200s cannot be found by its path", ret);
    return 0;
}

int grant_make_handed(const struct grants *g, const char *sandbox, int sock, bool writable,
                      struct err *e)
{
    struct workspace_grant record = { .magic = GRANT_MAGIC, .version = GRANT_VERSION };
    AUTO_CLOSE int handed = -1, dir = -1;
    struct handover_sender sender;
    bool may_write = false;
    int r = sandbox ? handover_take(sock, &handed, &may_write, &sender, e)
                    : handover_peek(sock, &handed, &may_write, &sender, e);

    if (r >= 0)
        r = client_of_sender(sock, &sender, &record.client, e);
    record.writable = writable && may_write;
    if (r >= 0)
        r = open_as(g, &record, handed, &dir, e);
    if (r >= 0)
        r = find_path(dir, record.path, e);
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
    struct statx st = { 0 };
    int r = read_grant(g, sandbox, ret, e);

    fault_point("ask.open");
    if (r >= 0)
        r = check_root(g, ret, e);
    if (r >= 0)
        r = open_as(g, ret, -1, &dir, e);
    if (r >= 0)
        r = stat_workspace(dir, &st, e);
    if (r >= 0)
        r = check_workspace_owner(ret, &st, ret->path, e);
    if (r >= 0 && !is_same_directory(ret, &st))
        r = err_set(e, ERR_CONFLICT,
                    "the workspace %s is not the directory that the sandbox was created with",
                    ret->path);
    if (r >= 0)
        *ret_dir = take_fd(&dir);
    return r;
}
