/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/tar/at.h"
#include "lib/tar/path.h"
#include "lib/tar/reader.h"
#include "lib/tar/spool.h"

enum { SETID = S_ISUID | S_ISGID };

#define WHITEOUT STR(".wh.")
#define SPECIAL  STR(".wh..wh.")
#define OPAQUE   STR(".wh..wh..opq")

struct unpack {
    int dest;
    struct tree_unpack_options o;
    uid_t uid; /* the caller */
    gid_t gid;
    uint64_t made; /* entries and directories made, for limits.entries */
    struct tree_report report;
    struct spool dirs;
    struct tar_reader in;

    /* The current entry. */
    struct tree_path path;
    int parent; /* its directory, an O_PATH descriptor; -1 for "." itself */
};

static const char *unpacked_name(const struct unpack *u)
{
    return tree_path_name(&u->path);
}

static int request_budget(const struct unpack *u, uint64_t bytes, uint64_t entries, struct err *e)
{
    return u->o.take ? u->o.take(u->o.user, bytes, entries, e) : 0;
}

static int count_made_entry(struct unpack *u, struct err *e)
{
    if (u->made == u->o.limits.entries)
        return err_set(e, ERR_TOO_BIG, "the archive makes more than %llu files and directories",
                       (unsigned long long)u->o.limits.entries);
    u->made++;
    return request_budget(u, 0, 1, e);
}

static int check_entry_names(const struct unpack *u, const struct tree_path *p, struct err *e)
{
    struct str rest = { p->text, p->n }, name;

    if (p->depth > u->o.limits.depth)
        return err_set(e, ERR_TOO_BIG, "the path has more than %u components", u->o.limits.depth);
    while (rest.n > 0) {
        rest = str_cut(rest, '/', &name);
        if (name.n > u->o.limits.name)
            return err_set(e, ERR_TOO_BIG, "a name is longer than %u bytes", u->o.limits.name);
    }
    return 0;
}

/* Opens the directory of an entry, and makes those on the way that are absent. */
static int make_entry_parents(struct unpack *u, const char *path, struct err *e)
{
    AUTO_CLOSE int at = at_open(u->dest, ".", O_PATH | O_DIRECTORY, 0);
    struct str rest = str_from(path), component;

    if (at < 0)
        return at_error(e, "opening the destination");
    while (rest.n > 0) {
        char name[TREE_NAME_MAX + 1];
        int next, r = 0;

        rest = str_cut(rest, '/', &component);
        if (!str_copy(component, name, sizeof name))
            return err_set(e, ERR_BUG, "its path was not checked");
        if (mkdirat(at, name, 0755) == 0)
            r = count_made_entry(u, e);
        else if (errno != EEXIST)
            r = err_sys(e, "making its directory");
        if (r < 0)
            return r;
        next = at_open(at, name, O_PATH | O_DIRECTORY, 0);
        if (next < 0)
            return at_error(e, "opening its directory");
        drop_fd(&at);
        at = next;
    }
    return take_fd(&at);
}

/* Removes the existing file, link or empty directory in the entry's place. */
static int clear_entry_place(struct unpack *u, struct err *e)
{
    if (at_clear(u->parent, unpacked_name(u)) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return err_set(e, ERR_CONFLICT, "a directory that is not empty is in its place");
    return err_sys(e, "removing what is in its place");
}

/* Calls `make`, which returns the result of its system call, and removes an existing file after
 * EEXIST until it succeeds. */
static int place_unpacked_entry(struct unpack *u, int (*make)(struct unpack *u), struct err *e)
{
    for (int i = 0; i < TREE_RACES_MAX; i++) {
        int r = make(u);

        if (r >= 0)
            return r;
        if (errno != EEXIST)
            return at_error(e, "making it");
        r = clear_entry_place(u, e);
        if (r < 0)
            return r;
    }
    return err_set(e, ERR_BUSY, "something keeps appearing in its place");
}

static mode_t entry_mode(const struct unpack *u)
{
    const struct tar_entry *entry = &u->in.entry;

    /* On directories, setgid only sets the group of new files. */
    return u->o.keep_setid || entry->type == TAR_DIR ? entry->mode : entry->mode & ~(mode_t)SETID;
}

/* Sets the owner first: chown() clears setuid bits. */
static int set_attributes(const struct unpack *u, int fd, mode_t mode, uid_t uid, gid_t gid,
                          struct timespec mtime, struct err *e)
{
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, mtime };

    if (u->o.owners == TREE_OWNERS_KEEP && fchown(fd, uid, gid) < 0)
        return err_sys(e, "setting its owner to %u:%u", (unsigned)uid, (unsigned)gid);
    if (fchmod(fd, mode) < 0)
        return err_sys(e, "setting its mode");
    if (futimens(fd, times) < 0)
        return err_sys(e, "setting its time");
    return 0;
}

static int keep_attributes(const struct unpack *u, int fd, struct err *e)
{
    struct str rest = tar_attributes(&u->in), name, value;
    char text[XATTR_NAME_MAX + 1];

    while (u->o.attributes && tar_attribute(&rest, &name, &value) > 0) {
        if (!str_starts(name, STR("user.")) || str_starts(name, STR("user.overlay.")))
            continue;
        if (!str_copy(name, text, sizeof text))
            return err_set(e, ERR_INVALID,
                           "the name of an attribute has more than %d bytes or contains a NUL byte",
                           XATTR_NAME_MAX);
        if (fsetxattr(fd, text, value.p, value.n, 0) < 0)
            return err_sys(e, "setting an attribute");
    }
    return 0;
}

static int make_entry_file(struct unpack *u)
{
    return at_open(u->parent, unpacked_name(u), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
}

static int unpack_file(struct unpack *u, struct err *e)
{
    const struct tar_entry *entry = &u->in.entry;
    AUTO_CLOSE int fd = -1;
    struct str piece;
    int r;

    if (entry->size > u->o.limits.bytes - u->report.bytes)
        return err_set(e, ERR_TOO_BIG, "the files of the archive have more than %llu bytes",
                       (unsigned long long)u->o.limits.bytes);
    r = request_budget(u, entry->size, 0, e);
    if (r < 0)
        return r;
    fd = place_unpacked_entry(u, make_entry_file, e);
    if (fd < 0)
        return fd;
    while ((r = tar_data(&u->in, &piece, e)) > 0 && (r = at_write(fd, piece.p, piece.n, e)) >= 0)
        ;
    if (r < 0)
        return r;
    u->report.bytes += entry->size;
    r = keep_attributes(u, fd, e);
    return r < 0 ? r
                 : set_attributes(u, fd, entry_mode(u), entry->uid, entry->gid, entry->mtime, e);
}

static int make_symlink(struct unpack *u)
{
    return symlinkat(u->in.entry.link, u->parent, unpacked_name(u));
}

/* Uses a descriptor, because the name may have been replaced meanwhile. */
static int set_link_attributes(const struct unpack *u, int fd, struct err *e)
{
    const struct tar_entry *entry = &u->in.entry;
    struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, entry->mtime };
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "looking at it");
    if (!S_ISLNK(st.st_mode))
        return err_set(e, ERR_BUSY, "something took its place");
    if (u->o.owners == TREE_OWNERS_KEEP &&
        fchownat(fd, "", entry->uid, entry->gid, AT_EMPTY_PATH) < 0)
        return err_sys(e, "setting its owner to %u:%u", (unsigned)entry->uid, (unsigned)entry->gid);
    if (utimensat(fd, "", times, AT_EMPTY_PATH) < 0)
        return err_sys(e, "setting its time");
    return 0;
}

static int unpack_symlink(struct unpack *u, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    int r;

    if (u->in.entry.link[0] == '\0')
        return err_set(e, ERR_INVALID, "the symbolic link points to nothing");
    r = place_unpacked_entry(u, make_symlink, e);
    if (r < 0)
        return r;
    fd = at_open(u->parent, unpacked_name(u), O_PATH | O_NOFOLLOW, 0);
    return fd < 0 ? at_error(e, "opening the link") : set_link_attributes(u, fd, e);
}

/* linkat() without AT_SYMLINK_FOLLOW does not follow the last component; `dir` is already open. */
static int link_from(struct unpack *u, int dir, const char *name, struct err *e)
{
    for (int i = 0; i < TREE_RACES_MAX; i++) {
        struct stat a, b;
        int r;

        if (linkat(dir, name, u->parent, unpacked_name(u), 0) == 0)
            return 0;
        if (errno == ENOENT)
            return err_set(e, ERR_NOT_FOUND, "nothing is there to link to");
        if (errno != EEXIST)
            return err_sys(e, "making the hard link");
        if (fstatat(dir, name, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
            fstatat(u->parent, unpacked_name(u), &b, AT_SYMLINK_NOFOLLOW) == 0 &&
            a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return 0; /* also for a link to itself, which must not be removed */
        r = clear_entry_place(u, e);
        if (r < 0)
            return r;
    }
    return err_set(e, ERR_BUSY, "something keeps appearing in its place");
}

static int unpack_hardlink(struct unpack *u, struct err *e)
{
    AUTO_CLOSE int dir = -1;
    struct tree_path target;
    char parent[TREE_PATH_MAX], shown[TREE_SHOWN_MAX];
    int r = tree_path(str_from(u->in.entry.link), &target, e);

    if (r >= 0) {
        tree_path_parent(&target, parent);
        dir = at_open(u->dest, parent, O_PATH | O_DIRECTORY, 0);
        r = dir < 0 ? at_error(e, "opening the directory")
                    : link_from(u, dir, tree_path_name(&target), e);
    }
    tree_path_show(str_from(u->in.entry.link), shown);
    return err_wrap(e, r, "hard link to '%s'", shown);
}

/* --- whiteouts --- */

/* The attribute is in "user.", because overlays are mounted with userxattr. */
static int make_opaque(int dir, const char *name, struct err *e)
{
    AUTO_CLOSE int fd = at_open_dir(dir, name, false);

    if (fd < 0)
        return at_error(e, "opening the directory that hides what is below it");
    if (fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0)
        return err_sys(e, "marking the directory that hides what is below it");
    return 0;
}

/* If the archive itself has the name, it remains, and only hides lower content. */
static int unpack_whiteout(struct unpack *u, struct err *e)
{
    const char *name = unpacked_name(u) + WHITEOUT.n;
    struct stat st;

    if (str_eq(str_from(unpacked_name(u)), OPAQUE))
        return make_opaque(u->parent, ".", e);
    if (str_starts(str_from(unpacked_name(u)), SPECIAL))
        return 0;
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return err_set(e, ERR_INVALID, "it hides no name");
    if (fstatat(u->parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISDIR(st.st_mode) ? make_opaque(u->parent, name, e) : 0;
    if (mknodat(u->parent, name, S_IFCHR, makedev(0, 0)) < 0)
        return err_sys(e, "hiding '%s' of the layers below", name);
    return 0;
}

static int make_entry_dir(struct unpack *u)
{
    return mkdirat(u->parent, unpacked_name(u), 0700);
}

/* 1 if the directory exists; its mode is then changed so that it can be filled. */
static int reuse_dir(struct unpack *u, struct err *e)
{
    AUTO_CLOSE int fd = at_open_dir(u->parent, unpacked_name(u), false);

    if (fd >= 0)
        return 1;
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
        return 0;
    return err_sys(e, "opening the directory in its place");
}

static int unpack_dir(struct unpack *u, struct err *e)
{
    const struct tar_entry *entry = &u->in.entry;
    AUTO_CLOSE int fd = -1;
    struct stat st;
    bool hides = u->o.whiteouts && u->path.n > 0 &&
                 fstatat(u->parent, unpacked_name(u), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                 S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
    struct spool_dir d;
    int r = 1;

    d.mode = entry_mode(u);
    d.uid = entry->uid;
    d.gid = entry->gid;
    d.mtime = entry->mtime;
    if (u->path.n == 0 && u->o.keep_root)
        return 0;
    if (u->path.n > 0)
        r = reuse_dir(u, e);
    if (r == 0)
        r = place_unpacked_entry(u, make_entry_dir, e);
    if (r >= 0 && hides)
        r = make_opaque(u->parent, unpacked_name(u), e);
    if (r >= 0 && u->o.attributes && tar_attributes(&u->in).n) {
        fd = u->path.n ? at_open_dir(u->parent, unpacked_name(u), false)
                       : at_open_dir(u->dest, ".", false);
        r = fd < 0 ? at_error(e, "opening it again") : keep_attributes(u, fd, e);
    }
    return r < 0 ? r : spool_add(&u->dirs, u->dest, &u->path, &d, e);
}

/* Sets a directory's attributes. Ignores a directory that a later entry has replaced. */
static int finish_dir(void *ctx, const struct spool_dir *d, struct err *e)
{
    const struct unpack *u = ctx;
    AUTO_CLOSE int fd = at_open_dir(u->dest, d->path, false);
    char shown[TREE_SHOWN_MAX];
    int r;

    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return 0;
    if (fd < 0)
        r = err_sys(e, "opening it");
    else
        r = set_attributes(u, fd, d->mode, d->uid, d->gid, d->mtime, e);
    tree_path_show(str_from(d->path), shown);
    return err_wrap(e, r, "directory '%s'", shown);
}

static int unpack_unwanted(struct unpack *u, struct err *e)
{
    bool fifo = u->in.entry.type == TAR_FIFO;

    if ((fifo ? u->o.fifos : u->o.devices) == TREE_REFUSE)
        return err_set(e, ERR_DENIED, "it is a %s, which is not allowed here",
                       tar_type_name(u->in.entry.type));
    *(fifo ? &u->report.fifos_skipped : &u->report.devices_skipped) += 1;
    return 0;
}

static const struct {
    int (*unpack)(struct unpack *u, struct err *e);
    bool unwanted;
} kinds[TAR_TYPE_COUNT_] = {
    [TAR_FILE] = { unpack_file, false },        [TAR_HARDLINK] = { unpack_hardlink, false },
    [TAR_SYMLINK] = { unpack_symlink, false },  [TAR_CHAR] = { unpack_unwanted, true },
    [TAR_BLOCKDEV] = { unpack_unwanted, true }, [TAR_DIR] = { unpack_dir, false },
    [TAR_FIFO] = { unpack_unwanted, true },
};

static int check_entry_owner(const struct unpack *u, struct err *e)
{
    const struct tar_entry *entry = &u->in.entry;

    if (u->o.owners == TREE_OWNERS_KEEP && u->o.ids &&
        (entry->uid >= u->o.ids || entry->gid >= u->o.ids))
        return err_set(e, ERR_INVALID, "belongs to %u:%u, but ids go up to %u in a sandbox",
                       (unsigned)entry->uid, (unsigned)entry->gid, (unsigned)u->o.ids - 1);
    if (u->o.owners != TREE_OWNERS_REQUIRE || (entry->uid == 0 && entry->gid == 0) ||
        (entry->uid == u->uid && entry->gid == u->gid))
        return 0;
    return err_set(e, ERR_DENIED,
                   "belongs to %u:%u, but only one identity can be used here; "
                   "squash owners to store it as yours (--squash-owners)",
                   (unsigned)entry->uid, (unsigned)entry->gid);
}

static int unpack_placed(struct unpack *u, struct err *e)
{
    enum tar_type type = u->in.entry.type;
    char parent[TREE_PATH_MAX];
    int r = 0;

    if (u->path.n > 0) {
        tree_path_parent(&u->path, parent);
        u->parent = at_open(u->dest, parent, O_PATH | O_DIRECTORY, 0);
        if (u->parent < 0)
            r = u->parent = errno == ENOENT ? make_entry_parents(u, parent, e)
                                            : at_error(e, "opening its directory");
    } else if (type != TAR_DIR) {
        return err_set(e, ERR_INVALID, "it is a %s without a name", tar_type_name(type));
    }
    if (r >= 0)
        r = u->path.n > 0 && u->o.whiteouts && str_starts(str_from(unpacked_name(u)), WHITEOUT)
                ? unpack_whiteout(u, e)
                : kinds[type].unpack(u, e);
    drop_fd(&u->parent);
    if (r >= 0)
        u->report.entries++;
    return r;
}

static int unpack_entry(struct unpack *u, struct err *e)
{
    enum tar_type type = u->in.entry.type;
    int r = tree_path(str_from(u->in.entry.path), &u->path, e);

    if (r >= 0)
        r = check_entry_names(u, &u->path, e);
    if (r >= 0)
        r = count_made_entry(u, e);
    if (r >= 0 && kinds[type].unwanted)
        return unpack_unwanted(u, e);
    if (r >= 0)
        r = check_entry_owner(u, e);
    return r < 0 ? r : unpack_placed(u, e);
}

static int unpack_all(struct unpack *u, struct err *e)
{
    int r;

    while ((r = tar_next(&u->in, e)) > 0) {
        r = unpack_entry(u, e);
        if (r < 0)
            return tar_wrap(&u->in, r, e);
    }
    return r < 0 ? r : spool_each(&u->dirs, finish_dir, u, e);
}

static unsigned at_most(unsigned v, unsigned most)
{
    return v == 0 || v > most ? most : v;
}

static int unpack_with(struct unpack *u, int dest_dir, const struct tree_unpack_options *o,
                       struct tree_report *ret, struct err *e)
{
    const struct tree_limits *l = &o->limits;
    int r;

    u->dest = dest_dir;
    u->o = *o;
    u->o.limits = (struct tree_limits){ .entries = l->entries ? l->entries : TREE_ENTRIES_DEFAULT,
                                        .bytes = l->bytes ? l->bytes : TREE_BYTES_DEFAULT,
                                        .depth = at_most(l->depth, TREE_DEPTH_MAX),
                                        .name = at_most(l->name, TREE_NAME_MAX) };
    u->uid = geteuid();
    u->gid = getegid();
    u->made = 0;
    u->report = (struct tree_report){ 0 };
    u->parent = -1;
    spool_init(&u->dirs);
    if (o->owners == TREE_OWNERS_KEEP && u->uid != 0)
        r = err_set(e, ERR_DENIED, "only root can keep the owners of an archive");
    else
        r = unpack_all(u, e);
    if (r >= 0)
        *ret = u->report;
    spool_done(&u->dirs);
    return r;
}

int tree_unpack(int in_fd, int dest_dir, const struct tree_unpack_options *o,
                struct tree_report *ret, struct err *e)
{
    struct unpack u; /* not zeroed: most of it is buffers */

    tar_reader_init_fd(&u.in, in_fd);
    return unpack_with(&u, dest_dir, o, ret, e);
}

int tree_unpack_from(tar_read_fn *read, void *ctx, int dest_dir,
                     const struct tree_unpack_options *o, struct tree_report *ret, struct err *e)
{
    struct unpack u;

    tar_reader_init(&u.in, read, ctx);
    return unpack_with(&u, dest_dir, o, ret, e);
}
