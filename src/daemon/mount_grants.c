/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/mount_grants.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/own.h"
#include "daemon/host_file.h"
#include "lib/proc/sys.h"

enum { RECORD_MAGIC = 0x53544e4d /* "MNTS" */, RECORD_VERSION = 1 };

struct mount_grant {
    struct host_file file;
    uint32_t writable, pad;
    char target[PLAN_TARGET_MAX];
    char path[HOST_FILE_PATH_MAX];
};

/* Only the used mounts are written. */
struct mount_grants_record {
    uint32_t magic, version, n;
    struct client client;
    struct mount_grant mount[GRANTED_MAX];
};

/* The name of the record of a sandbox. */
struct record_name {
    char text[ID_MAX + 8];
};

static int name_record(const char *sandbox, struct record_name *ret, struct err *e)
{
    if (!grant_name_valid(sandbox))
        return err_set(e, ERR_INVALID, "invalid sandbox id in a request about mounts");
    snprintf(ret->text, sizeof ret->text, "%s.mounts", sandbox);
    return 0;
}

static size_t record_size(size_t n)
{
    return offsetof(struct mount_grants_record, mount) + n * sizeof(struct mount_grant);
}

static bool is_whole_record(const struct mount_grants_record *m, size_t size)
{
    if (size < record_size(0) || m->magic != RECORD_MAGIC || m->version != RECORD_VERSION ||
        m->n == 0 || m->n > GRANTED_MAX || size != record_size(m->n) ||
        m->client.n_groups > CLIENT_GROUPS_MAX)
        return false;
    for (size_t i = 0; i < m->n; i++)
        if (!memchr(m->mount[i].target, 0, sizeof m->mount[i].target) ||
            !memchr(m->mount[i].path, 0, sizeof m->mount[i].path))
            return false;
    return true;
}

static int read_mount_record(const struct grants *g, const char *sandbox,
                             struct mount_grants_record *ret, struct err *e)
{
    struct record_name name;
    int r = name_record(sandbox, &name, e);
    ssize_t n;

    if (r < 0)
        return r;
    n = host_record_read(g->dir, name.text, ret, sizeof *ret, e);
    if (n == -(ssize_t)ERR_NOT_FOUND)
        return err_set(e, ERR_NOT_FOUND, "no client granted mounts to sandbox %s", sandbox);
    if (n < 0)
        return (int)n;
    return is_whole_record(ret, (size_t)n)
               ? 0
               : err_set(e, ERR_INVALID, "the record of the mounts of %s is damaged", sandbox);
}

int mount_grants_remove(const struct grants *g, const char *sandbox, struct err *e)
{
    struct record_name name;
    int r = name_record(sandbox, &name, e);

    if (r >= 0 && unlinkat(g->dir, name.text, 0) < 0 && errno != ENOENT)
        r = err_sys(e, "removing the record of the mounts of %s", sandbox);
    return r;
}

/* --- files --- */

static int refuse_mount(const char *path, bool writable, struct err *e)
{
    switch (errno) {
    case EXDEV:
    case ELOOP:
        return err_set(e, ERR_DENIED, "the mount %s leads through a symbolic link now", path);
    case EACCES:
    case EPERM:
        return err_set(e, ERR_DENIED, "the mount %s is closed to its user%s", path,
                       writable ? " (for reading and writing)" : "");
    case EROFS:
        return err_set(e, ERR_DENIED, "the mount %s is on a read-only file system; leave out ':rw'",
                       path);
    case ENOENT:
    case ENOTDIR:
        return err_set(e, ERR_NOT_FOUND, "the mount %s does not exist any longer", path);
    default:
        return err_sys(e, "opening the mount %s", path);
    }
}

/* O_PATH opens no device and waits for no pipe. */
static int open_mount_file(const char *path, bool writable, int *ret, struct err *e)
{
    AUTO_CLOSE int fd =
        sys_openat2(AT_FDCWD, path, O_PATH, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    int mode = writable ? R_OK | W_OK : R_OK;

    if (fd < 0 || syscall(SYS_faccessat2, fd, "", mode, AT_EMPTY_PATH | AT_EACCESS) < 0)
        return refuse_mount(path, writable, e);
    *ret = take_fd(&fd);
    return 0;
}

static int open_mount_as(const struct client *c, const char *path, bool writable, int *ret,
                         struct err *e)
{
    struct err left;
    int r = client_enter(c, e), back;

    if (r >= 0)
        r = open_mount_file(path, writable, ret, e);
    back = client_leave(&left);
    if (back < 0) {
        if (r >= 0)
            drop_fd(ret);
        *e = left;
        return back;
    }
    return r;
}

/* Root alone grants what belongs to root. */
static int check_mount_file(const struct client *c, const struct host_file *f, const char *path,
                            struct err *e)
{
    if (!S_ISDIR(f->mode) && !S_ISREG(f->mode))
        return err_set(e, ERR_INVALID, "the mount %s is neither a directory nor a regular file",
                       path);
    if (f->uid == 0 && c->uid != 0 && geteuid() == 0)
        return err_set(e, ERR_DENIED, "the mount %s belongs to root and the client is uid %u", path,
                       (unsigned)c->uid);
    return 0;
}

/* Opens the file of a path with the rights of the client. */
static int open_mount(const struct client *c, const char *path, bool writable,
                      struct host_file *ret, int *ret_fd, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    int r = open_mount_as(c, path, writable, &fd, e);

    if (r >= 0)
        r = host_file_read(fd, ret, e);
    if (r >= 0)
        r = check_mount_file(c, ret, path, e);
    if (r >= 0)
        *ret_fd = take_fd(&fd);
    return r;
}

/* --- grants --- */

/* The file must be the one that its path leads to, with the rights of the client: else a later
 * start could not open it again, and a client could grant a descriptor that it got from another
 * user. */
static int make_mount_grant(const struct client *c, const struct handover_file *f, int handed,
                            bool writable, struct mount_grant *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct host_file given;
    int r = host_file_path(handed, ret->path, e);

    ret->writable = writable && f->writable;
    memcpy(ret->target, f->target, sizeof ret->target);
    if (r >= 0)
        r = open_mount(c, ret->path, ret->writable, &ret->file, &fd, e);
    if (r >= 0)
        r = host_file_read(handed, &given, e);
    if (r >= 0 && (!host_file_same(&given, &ret->file) || given.device != ret->file.device))
        r = err_set(e, ERR_CONFLICT, "the mount %s was replaced while it was granted", ret->path);
    return r;
}

int mount_grants_make(const struct grants *g, const char *sandbox, const struct client *client,
                      const struct handover *h, const struct mount_want *want, struct err *e)
{
    struct mount_grants_record record = { .magic = RECORD_MAGIC,
                                          .version = RECORD_VERSION,
                                          .client = *client };
    struct record_name name;
    int r = sandbox ? name_record(sandbox, &name, e) : 0;

    for (size_t i = 0; i < h->n && r >= 0; i++) {
        if (h->file[i].use != HANDOVER_MOUNT)
            continue;
        if (record.n == GRANTED_MAX)
            return err_set(e, ERR_TOO_BIG, "more than %d mounts", GRANTED_MAX);
        r = make_mount_grant(client, &h->file[i], h->fd[i], want->writable >> record.n & 1,
                             &record.mount[record.n], e);
        record.n++;
    }
    fault_point("grant.mounts");
    if (r >= 0 && (record.n == 0 || record.n != want->n))
        r = err_set(e, ERR_DENIED, "the client handed over %u mounts, and the request has %u",
                    (unsigned)record.n, (unsigned)want->n);
    if (r < 0 || !sandbox)
        return r;
    r = host_record_write(g->dir, name.text, &record, record_size(record.n), e);
    return err_wrap(e, r, "recording the mounts of %s", sandbox);
}

static int open_granted_file(const struct client *c, const struct mount_grant *m,
                             struct granted *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct host_file now;
    int r = open_mount(c, m->path, m->writable, &now, &fd, e);

    if (r >= 0 && !host_file_same(&m->file, &now))
        r = err_set(e, ERR_CONFLICT,
                    "the mount %s is not the file that the sandbox was created with", m->path);
    if (r < 0)
        return r;
    memcpy(ret->file[ret->n].target, m->target, sizeof m->target);
    ret->file[ret->n].writable = m->writable;
    ret->file[ret->n].is_dir = S_ISDIR(now.mode);
    ret->fd[ret->n++] = take_fd(&fd);
    return 0;
}

int mount_grants_open(const struct grants *g, const char *sandbox, struct granted *ret,
                      struct err *e)
{
    struct mount_grants_record record;
    int r = read_mount_record(g, sandbox, &record, e);

    *ret = (struct granted){ .n = 0 };
    fault_point("mounts.opened");
    if (r < 0)
        return r;
    ret->uid = record.client.uid;
    ret->gid = record.client.gid;
    snprintf(ret->id, sizeof ret->id, "%s", sandbox);
    for (size_t i = 0; i < record.n && r >= 0; i++)
        r = open_granted_file(&record.client, &record.mount[i], ret, e);
    if (r < 0)
        granted_done(ret);
    return r;
}
