#include "mirror/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "proc/sys.h"
#include "tree/at.h"
#include "tree/walk.h"

#define TEMP_PREFIX  ".sandboxer-mirror-"
#define SAVED_PREFIX ".sandboxer-saved-"
enum { TEMP_DIGITS = 16 };

int host_open(int dir, const char *path, int flags, mode_t mode)
{
    const uint64_t resolve =
        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    int fd = -1;

    /* The kernel answers EAGAIN when a rename elsewhere kept it from being sure. */
    for (int i = 0; i < TREE_RACES_MAX; i++) {
        fd = sys_openat2(dir, path, (uint64_t)(unsigned)flags, mode, resolve);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
            break;
    }
    return fd;
}

int host_lock(int dir, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = host_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0)
        return err_sys(e, "opening the directory");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return err_set(e, ERR_BUSY, "the directory is being mirrored by another process");
    /* A file system without locks has no other process on this one either that could wait. */
    *ret = take_fd(&fd);
    return 0;
}

enum mirror_kind host_kind(const struct stat *st)
{
    switch (st->st_mode & S_IFMT) {
    case S_IFREG:
        return KIND_FILE;
    case S_IFDIR:
        return KIND_DIR;
    case S_IFLNK:
        return KIND_LINK;
    default:
        return KIND_NONE;
    }
}

int host_find(int dir, const struct tree_path *path, struct found *ret, struct err *e)
{
    char parent[TREE_PATH_MAX];

    *ret = (struct found){ .parent = -1, .name = tree_path_name(path), .now_ns = clock_wall() };
    tree_path_parent(path, parent);
    ret->parent = host_open(dir, parent, O_PATH | O_DIRECTORY, 0);
    if (ret->parent < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0;
    if (ret->parent < 0)
        return err_sys(e, "opening its directory");
    if (fstatat(ret->parent, ret->name, &ret->st, AT_SYMLINK_NOFOLLOW) == 0) {
        ret->there = true;
        ret->kind = host_kind(&ret->st);
    } else if (errno != ENOENT) {
        return err_sys(e, "looking at it");
    }
    return 0;
}

void found_done(struct found *f)
{
    drop_fd(&f->parent);
}

ssize_t host_target(int dir, const char *name, char out[static TREE_PATH_MAX])
{
    ssize_t n = readlinkat(dir, name, out, TREE_PATH_MAX);

    if (n == TREE_PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (n >= 0)
        out[n] = '\0';
    return n;
}

static bool same_content(const struct found *f, const struct mirror_value *was,
                         const struct sip_key *key)
{
    AUTO_CLOSE int fd = host_open(f->parent, f->name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
    uint64_t hash;

    return fd >= 0 && sip_fd(key, fd, &hash, NULL) >= 0 && hash == was->hash;
}

static bool same_target(const struct found *f, const struct mirror_value *was,
                        const struct sip_key *key)
{
    char target[TREE_PATH_MAX];
    ssize_t n = host_target(f->parent, f->name, target);

    return n >= 0 && sip_str(key, (struct str){ target, (size_t)n }) == was->hash;
}

bool host_unchanged(const struct found *f, const struct mirror_entry *was,
                    const struct sip_key *key)
{
    struct mirror_identity now = mirror_identity_of(&f->st, INT64_MAX);

    if (f->kind != was->value.kind)
        return false;
    if (f->kind == KIND_LINK)
        return same_target(f, &was->value, key);
    if ((f->st.st_mode & 0777) != was->value.mode)
        return false;
    return f->kind == KIND_DIR || mirror_identity_eq(&was->identity, &now) ||
           same_content(f, &was->value, key);
}

int host_temp_name(char out[static HOST_TEMP_MAX], struct err *e)
{
    uint64_t random;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(e, "making a temporary name");
    snprintf(out, HOST_TEMP_MAX, TEMP_PREFIX "%016llx", (unsigned long long)random);
    return 0;
}

bool host_is_temp(const char *name)
{
    const size_t prefix = sizeof TEMP_PREFIX - 1;

    return strncmp(name, TEMP_PREFIX, prefix) == 0 && strlen(name) == prefix + TEMP_DIGITS &&
           strspn(name + prefix, "0123456789abcdef") == TEMP_DIGITS;
}

static int move(int dir, const char *from, const char *to, unsigned flags)
{
    return (int)syscall(SYS_renameat2, dir, from, dir, to, flags);
}

/* Not all file systems know the flags of renameat2(). */
static bool unsupported(void)
{
    return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
}

/* What was found is at this name now. Moving it changed the time of its inode's change. */
static bool is_found(const struct found *f, const char *name)
{
    struct stat st;

    return fstatat(f->parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == f->st.st_ino &&
           st.st_mode == f->st.st_mode && st.st_size == f->st.st_size &&
           st.st_mtim.tv_sec == f->st.st_mtim.tv_sec && st.st_mtim.tv_nsec == f->st.st_mtim.tv_nsec;
}

/* Without the kernel's help there is a moment between looking and moving. */
static int put_plainly(const struct found *f, const char *temp, struct err *e)
{
    struct stat st;
    bool there = fstatat(f->parent, f->name, &st, AT_SYMLINK_NOFOLLOW) == 0;

    if (there != f->there || (there && !is_found(f, f->name)))
        return HOST_RACED;
    if (renameat(f->parent, temp, f->parent, f->name) == 0)
        return HOST_DONE;
    if (errno != ENOTDIR || at_clear(f->parent, f->name) < 0 || /* a directory over a file */
        renameat(f->parent, temp, f->parent, f->name) < 0)
        return err_sys(e, "moving it into place");
    return HOST_DONE;
}

static int put_new(const struct found *f, const char *temp, struct err *e)
{
    if (move(f->parent, temp, f->name, RENAME_NOREPLACE) == 0)
        return HOST_DONE;
    if (errno == EEXIST)
        return HOST_RACED;
    return unsupported() ? put_plainly(f, temp, e) : err_sys(e, "moving it into place");
}

/* What could not be brought back gets a name that no later run takes for a leftover. */
static int rescue(const struct found *f, const char *temp, struct err *e)
{
    char saved[HOST_TEMP_MAX];

    snprintf(saved, sizeof saved, SAVED_PREFIX "%s", temp + sizeof TEMP_PREFIX - 1);
    (void)err_set(e, ERR_CONFLICT, "the host's version could not be brought back; it is '%s' now",
                  renameat(f->parent, temp, f->parent, saved) < 0 ? temp : saved);
    return HOST_LOST;
}

/* The name is free, unless somebody made it meanwhile. */
static int bring_back(const struct found *f, const char *temp, struct err *e)
{
    if (move(f->parent, temp, f->name, RENAME_NOREPLACE) == 0)
        return HOST_RACED;
    if (unsupported() && linkat(f->parent, temp, f->parent, f->name, 0) == 0 &&
        unlinkat(f->parent, temp, 0) == 0)
        return HOST_RACED;
    return rescue(f, temp, e);
}

static int exchange_back(const struct found *f, const char *temp, struct err *e)
{
    if (move(f->parent, temp, f->name, RENAME_EXCHANGE) == 0)
        return HOST_RACED;
    return bring_back(f, temp, e);
}

int host_put(const struct found *f, const char *temp, struct err *e)
{
    if (!f->there)
        return put_new(f, temp, e);
    if (move(f->parent, temp, f->name, RENAME_EXCHANGE) < 0) {
        if (errno == ENOENT)
            return HOST_RACED;
        return unsupported() ? put_plainly(f, temp, e) : err_sys(e, "moving it into place");
    }
    if (!is_found(f, temp))
        return exchange_back(f, temp, e);
    (void)at_clear(f->parent, temp); /* the next run tries again */
    return HOST_DONE;
}

int host_remove(const struct found *f, struct err *e)
{
    char temp[HOST_TEMP_MAX];
    int r = host_temp_name(temp, e);

    if (r < 0)
        return r;
    if (renameat(f->parent, f->name, f->parent, temp) < 0)
        return errno == ENOENT ? HOST_RACED : err_sys(e, "removing it");
    if (!is_found(f, temp))
        return bring_back(f, temp, e);
    if (at_clear(f->parent, temp) < 0)
        return err_sys(e, "removing it");
    return HOST_DONE;
}

/* Neither too deep nor closed to us: then nothing of ours is in there. */
static void sweep_into(struct walk *w, const char *name)
{
    int fd = host_open(walk_top(w)->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);

    if (fd >= 0)
        (void)walk_enter(w, fd, "", NULL);
}

int host_sweep(int dir, struct err *e)
{
    AUTO(walk_done) struct walk w;
    int r, fd = host_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);

    walk_init(&w);
    if (fd < 0)
        return err_sys(e, "opening the directory");
    r = walk_enter(&w, fd, "", e);
    while (r >= 0 && w.depth > 0) {
        const char *name;

        r = walk_next(&w, &name, e);
        if (r > 0 && host_is_temp(name))
            (void)at_clear(walk_top(&w)->fd, name);
        else if (r > 0)
            sweep_into(&w, name);
        else if (r == 0)
            walk_leave(&w);
    }
    return err_wrap(e, r, "looking for leftovers of an earlier run");
}
