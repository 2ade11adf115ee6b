/* SPDX-License-Identifier: Apache-2.0 */
/* /etc of a sandbox on the host's system: generated, copied or bind-mounted entry by entry from a
 * list. Other files do not exist inside, so no secret of the host can be overlooked.
 *
 * On an image, /etc is the image's except for the names and addresses of the sandbox itself. */
#include "engine/runtime/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/runtime/mounts.h"
#include "engine/storage/skeleton.h"

enum { COPY_MAX = 1 << 20 };

/* A target in /etc: a directory that was opened without following links, and a name in it. Layers
 * were written by programs: any kind of file may be there. */
struct etc_place {
    int dir;
    const char *name;
};

static void etc_place_done(struct etc_place *s)
{
    drop_fd(&s->dir);
}

/* `path` below etc/ has at most one directory, which is made if it is missing. */
static int etc_place_find(const struct sandbox_build *b, const char *path, struct etc_place *ret,
                          struct err *e)
{
    const char *slash = strchr(path, '/');
    char dir[64];
    int r = 0;

    snprintf(dir, sizeof dir, "etc%s%.*s", slash ? "/" : "", slash ? (int)(slash - path) : 0, path);
    if (slash)
        r = mounts_place_dir(b->root, dir, 0755, e);
    ret->dir = -1;
    ret->name = slash ? slash + 1 : path;
    return r < 0 ? r : mounts_find(b->root, dir, &ret->dir, e);
}

/* Checks for a file of an earlier sandbox: kept, or removed. True if it is kept. */
static bool etc_place_keeps(const struct etc_place *s, bool keep)
{
    struct stat st;

    if (fstatat(s->dir, s->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (!keep)
        (void)unlinkat(s->dir, s->name, 0); /* on failure, creating it reports the error */
    return keep;
}

static int etc_place_write(const struct etc_place *s, const char *text, struct err *e)
{
    AUTO_CLOSE int fd =
        openat(s->dir, s->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    size_t n = strlen(text);

    if (fd < 0 || write(fd, text, n) != (ssize_t)n)
        return err_sys(e, "writing /etc/%s", s->name);
    return 0;
}

/* `keep`: a file that programs have changed is kept. */
static int write_etc(const struct sandbox_build *b, const char *name, bool keep, const char *text,
                     struct err *e)
{
    AUTO(etc_place_done) struct etc_place at = { -1, NULL };
    int r = etc_place_find(b, name, &at, e);

    return r < 0 || etc_place_keeps(&at, keep) ? r : etc_place_write(&at, text, e);
}

static int link_etc(const struct sandbox_build *b, const char *name, const char *target,
                    struct err *e)
{
    AUTO(etc_place_done) struct etc_place at = { -1, NULL };
    int r = etc_place_find(b, name, &at, e);

    if (r < 0 || etc_place_keeps(&at, true))
        return r;
    return symlinkat(target, at.dir, at.name) < 0 ? err_sys(e, "creating /etc/%s", name) : 0;
}

static int generate_users(const struct sandbox_build *b, struct err *e)
{
    char passwd[512], group[256];
    size_t n, g;
    uint32_t uid = b->plan->uid, gid = b->plan->gid;
    int r;

    n = (size_t)snprintf(passwd, sizeof passwd,
                         "root:x:0:0:root:/root:/bin/sh\n"
                         "user:x:1000:1000:user:/home/user:/bin/bash\n"
                         "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    g = (size_t)snprintf(group, sizeof group,
                         "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n");
    if (uid != 0 && uid != 1000 && uid != 65534)
        snprintf(passwd + n, sizeof passwd - n, "sandbox:x:%u:%u:sandbox:/tmp:/bin/sh\n", uid, gid);
    if (gid != 0 && gid != 5 && gid != 1000 && gid != 65534)
        snprintf(group + g, sizeof group - g, "sandbox:x:%u:\n", gid);
    r = write_etc(b, "passwd", true, passwd, e);
    return r < 0 ? r : write_etc(b, "group", true, group, e);
}

/* Derives a machine id, different for each sandbox, from its id. */
static void derive_machine_id(const char *id, char out[static 40])
{
    uint64_t hash[2] = { UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4) };

    for (const char *p = id; *p; p++)
        for (int i = 0; i < 2; i++)
            hash[i] = (hash[i] ^ (unsigned char)*p) * (UINT64_C(0x100000001b3) + (uint64_t)i * 2);
    snprintf(out, 40, "%016llx%016llx\n", (unsigned long long)hash[0], (unsigned long long)hash[1]);
}

/* The files that each sandbox has of its own, over those of its layers; a diff leaves them out
 * (engine/layers/changes.h). */
struct own_file {
    const char *name;
    char text[256];
};
enum { OWN_FILES = 4 };

static void fill_own_files(const struct plan *p, struct own_file own[static OWN_FILES])
{
    static const char *const names[OWN_FILES] = { "hosts", "hostname", "machine-id",
                                                  "resolv.conf" };

    for (int i = 0; i < OWN_FILES; i++)
        own[i].name = names[i];
    snprintf(own[0].text, sizeof own[0].text, "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n",
             p->hostname);
    snprintf(own[1].text, sizeof own[1].text, "%s\n", p->hostname);
    derive_machine_id(p->id, own[2].text);
    snprintf(own[3].text, sizeof own[3].text, "%s",
             p->flags & PLAN_EGRESS ? "nameserver " LISTENERS_RESOLVER "\n" : "");
}

static int generate_names(const struct sandbox_build *b, struct err *e)
{
    struct own_file own[OWN_FILES];
    int r = write_etc(b, "nsswitch.conf", true,
                      "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: "
                      "files\n",
                      e);

    fill_own_files(b->plan, own);
    for (int i = 0; i < OWN_FILES && r >= 0; i++)
        r = write_etc(b, own[i].name, false, own[i].text, e);
    return r;
}

static int copy_host_etc_file(const struct sandbox_build *b, const char *name, struct err *e)
{
    AUTO(etc_place_done) struct etc_place at = { -1, NULL };
    AUTO_CLOSE int from = -1, to = -1;
    char path[64];
    struct stat st;
    int r;

    snprintf(path, sizeof path, "/etc/%s", name);
    from = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > COPY_MAX)
        return 0; /* missing on this host */
    r = etc_place_find(b, name, &at, e);
    if (r < 0 || etc_place_keeps(&at, true))
        return r;
    to = openat(at.dir, at.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (to < 0)
        return err_sys(e, "creating %s", path);
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(to, from, NULL, (size_t)left);

        if (n <= 0)
            return err_sys(e, "copying %s", path);
        left -= n;
    }
    return 0;
}

static int copy_timezone(const struct sandbox_build *b, struct err *e)
{
    char target[128];
    ssize_t n = readlink("/etc/localtime", target, sizeof target - 1);

    if (n <= 0)
        return 0;
    target[n] = '\0';
    if (strncmp(target, "/usr/share/zoneinfo/", 20) != 0)
        return 0;
    return link_etc(b, "localtime", target, e);
}

/* Makes a mount point: a directory or an empty file; replaces other files. */
static int etc_place_make(const struct etc_place *at, bool is_dir, struct err *e)
{
    struct stat st;

    if (fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (is_dir ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode))
            return 0;
        (void)unlinkat(at->dir, at->name, 0);
    }
    if ((is_dir ? mkdirat(at->dir, at->name, 0755)
                : mknodat(at->dir, at->name, S_IFREG | 0644, 0)) < 0)
        return err_sys(e, "creating /etc/%s", at->name);
    return 0;
}

static int bind_entry(struct sandbox_build *b, const char *name, struct err *e)
{
    AUTO(etc_place_done) struct etc_place at = { -1, NULL };
    char path[64];
    struct stat st;
    int r;

    snprintf(path, sizeof path, "/etc/%s", name);
    if (lstat(path, &st) < 0 || !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
        return 0;
    r = etc_place_find(b, name, &at, e);
    if (r >= 0)
        r = etc_place_make(&at, S_ISDIR(st.st_mode), e);
    if (r < 0)
        return r;
    r = rootfs_attach_host(b, &(struct host_entry){ path, S_ISDIR(st.st_mode), at.dir, at.name },
                           e);
    if (r != -(int)ERR_UNSUPPORTED || S_ISDIR(st.st_mode))
        return r;
    (void)unlinkat(at.dir, at.name, 0); /* replaced by a copy */
    return copy_host_etc_file(b, name, e);
}

int rootfs_etc(struct sandbox_build *b, struct err *e)
{
    int r;

    if (plan_has_image(b->plan))
        return 0; /* done by rootfs_own_names() */
    setfsgid(b->self);
    setfsuid(b->self);
    r = generate_users(b, e);
    if (r >= 0)
        r = generate_names(b, e);
    if (r >= 0)
        r = mounts_place_dir(b->root, "etc/ssl", 0755, e);
    if (r >= 0)
        r = copy_timezone(b, e);
    for (size_t i = 0; i < skeleton_name_count && r >= 0; i++) {
        const struct skeleton_name *s = &skeleton_names[i];
        const char *name = s->path + strlen("etc/");

        r = s->kind == SKELETON_LINK   ? link_etc(b, name, s->target, e)
            : s->kind == SKELETON_COPY ? copy_host_etc_file(b, name, e)
            : s->kind == SKELETON_BIND ? bind_entry(b, name, e)
                                       : 0;
    }
    setfsuid(0);
    setfsgid(0);
    return r < 0 ? r : rootfs_host_done(b, e);
}

/* --- on an image --- */

/* Finds /etc in the uppermost layer that mentions it. False: it does not exist. */
static bool find_etc(const struct sandbox_build *b, struct stat *ret)
{
    for (uint32_t i = 0; i < b->plan->n_layers; i++) {
        char path[32];

        snprintf(path, sizeof path, "layer%u/etc", i);
        if (fstatat(b->storage, path, ret, AT_SYMLINK_NOFOLLOW) == 0)
            return !(S_ISCHR(ret->st_mode) && ret->st_rdev == 0); /* a whiteout */
    }
    return false;
}

static int write_own_files(const struct sandbox_build *b, int etc, struct err *e)
{
    struct own_file own[OWN_FILES];
    int r = 0;

    fill_own_files(b->plan, own);
    setfsgid(b->self);
    setfsuid(b->self);
    for (int i = 0; i < OWN_FILES && r >= 0; i++)
        r = etc_place_write(&(struct etc_place){ etc, own[i].name }, own[i].text, e);
    setfsuid(0);
    setfsgid(0);
    return r;
}

/* Copies the attributes of the uppermost layer's /etc, which overlayfs shows for the merged
 * directory. An owner that is not mapped is shown as nobody anyway. */
static int copy_dir_attributes(int etc, const struct stat *st, struct err *e)
{
    const struct timespec times[] = { st->st_atim, st->st_mtim };

    if (fchown(etc, st->st_uid, st->st_gid) < 0 && errno != EINVAL && errno != EPERM)
        return err_sys(e, "setting the owner of /etc");
    if (fchmod(etc, st->st_mode & 07777) < 0 || futimens(etc, times) < 0)
        return err_sys(e, "setting the mode and times of /etc");
    return 0;
}

/* Writes the files to a layer above all others: it hides the image's files without changing them,
 * and they do not count as written by the sandbox. An /etc that is not a directory stays: nothing
 * could be written there without following or hiding it. */
int rootfs_own_names(const struct sandbox_build *b, const char *layer, struct err *e)
{
    AUTO_CLOSE int etc = -1;
    struct stat st;
    bool is_there = find_etc(b, &st);
    char path[32];
    int r;

    if (mkdirat(b->storage, layer, 0755) < 0)
        return err_sys(e, "creating the layer of the sandbox's own files");
    if (is_there && !S_ISDIR(st.st_mode))
        return 0;
    snprintf(path, sizeof path, "%s/etc", layer);
    if (mkdirat(b->storage, path, 0755) < 0 ||
        (etc = openat(b->storage, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
        fchown(etc, b->self, b->self) < 0)
        return err_sys(e, "creating the layer of the sandbox's own files");
    r = write_own_files(b, etc, e);
    return r < 0 || !is_there ? r : copy_dir_attributes(etc, &st, e);
}
