/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/caps.h"
#include "engine/runtime/mounts.h"
#include "engine/storage/share.h"
#include "engine/storage/skeleton.h"

enum {
    LOCKED_DOWN = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
    READ_ONLY = LOCKED_DOWN | MOUNT_ATTR_RDONLY,
    BENEATH = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    OPTIONS_MAX = 4096, /* the limit of mount(2): a page */
    LAYER_ROOM = sizeof "layer999/libx32:",
};
_Static_assert((PLAN_LAYERS_MAX + 1) * LAYER_ROOM + 256 < OPTIONS_MAX,
               "all layers fit into one mount");

/* Makes new files belong to the sandbox's root. Changing the file-system uid also drops the
 * capabilities over files; act_as_launcher() restores them. */
static void act_as_sandbox_root(const struct sandbox_build *b)
{
    setfsgid(b->self);
    setfsuid(b->self);
}

static void act_as_launcher(void)
{
    setfsuid(0);
    setfsgid(0);
}

const struct rootfs_part rootfs_parts[] = {
    { "upper", "", true },
    { "root", "", false },
    { "tmp", "tmp", false },
    { "run", "run", false },
    { "shm", "dev/shm", false },
    { "usr-upper", "usr", true },
    { "bin-upper", "bin", true },
    { "sbin-upper", "sbin", true },
    { "lib-upper", "lib", true },
    { "lib32-upper", "lib32", true },
    { "lib64-upper", "lib64", true },
    { "libx32-upper", "libx32", true },
    { NULL, NULL, false },
};

int rootfs_private(struct sandbox_build *b, struct err *e)
{
    struct mount_attr attr = { .propagation = MS_PRIVATE };

    if (sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr) < 0)
        return err_sys(e, "making the mounts private");
    return 0;
}

int rootfs_storage(struct sandbox_build *b, struct err *e)
{
    char size[32], inodes[32], owner[16];
    uint64_t bytes = build_tmpfs_size(b);
    struct mount_option options[] = {
        { "size", size }, { "nr_inodes", inodes }, { "mode", "0755" },
        { "uid", owner }, { "gid", owner },        { NULL, NULL },
    };
    int r;

    snprintf(size, sizeof size, "%llu", (unsigned long long)bytes);
    snprintf(inodes, sizeof inodes, "%llu", (unsigned long long)(bytes / 4096 + 4096));
    snprintf(owner, sizeof owner, "%u", b->self);
    r = mounts_make("tmpfs", options, LOCKED_DOWN, &b->storage, e);
    if (r < 0)
        return r;
    b->sys = openat(AT_FDCWD, "/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* Attached to a directory of the host that is not needed again. Not to its root: a mount on the
     * root would be in the way when the root itself is detached. */
    if (sys_move_mount(b->storage, "", AT_FDCWD, "/sys", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return err_sys(e, "attaching the writable layer to /sys");
    return 0;
}

/* The writable layer in the storage. */
static const char *upper_dir(const struct sandbox_build *b)
{
    return build_on_disk(b) ? "box/" STORAGE_FS : "upper";
}

/* No file of a stored layer has a higher inode number than its info file, which was written last
 * and is beside its fs/. Not through "..", which openat2(2) refuses when anything on the machine is
 * renamed meanwhile. */
static int find_highest_number(const struct sandbox_build *b, int store, uint64_t *ret,
                               struct err *e)
{
    *ret = 0;
    for (uint32_t i = 0; i < b->plan->n_layers; i++) {
        const struct plan_layer *l = &b->plan->layers[i];
        const char *end = strrchr(l->path, '/');
        char path[PLAN_LAYER_MAX + sizeof "/info"];
        AUTO_CLOSE int info = -1;
        struct stat st;

        if (l->root != PLAN_STORE)
            continue;
        snprintf(path, sizeof path, "%.*s/info", end ? (int)(end - l->path) : 0, l->path);
        info = sys_openat2(store, path, O_PATH, 0, BENEATH);
        if (info < 0 || fstat(info, &st) < 0)
            return err_sys(e, "opening %s", path);
        if (st.st_ino > *ret)
            *ret = st.st_ino;
    }
    return 0;
}

/* Before the box has anything but its reserve. */
static int limit_box(const struct sandbox_build *b, int store, int box, struct err *e)
{
    const struct share_charge charge = { b->plan->owner.key, b->plan->disk,
                                         b->plan->flags & PLAN_AGAIN };
    int r = b->plan->disk ? b->driver->limit(box, b->plan->disk, e) : 0;

    return r >= 0 && b->plan->owner.disk && charge.owner[0] && b->driver->charge
               ? b->driver->charge(store, box, &charge, e)
               : r;
}

static int make_box(const struct sandbox_build *b, int *ret, struct err *e)
{
    AUTO_CLOSE int store = openat(AT_FDCWD, b->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int boxes = -1, box = -1;
    struct driver_place at = { .storage = store };
    int r;

    if (store >= 0)
        at.boxes = boxes = sys_openat2(store, STORAGE_BOXES, O_RDONLY | O_DIRECTORY, 0, BENEATH);
    if (boxes < 0)
        return err_sys(e, "opening %s/%s", b->store, STORAGE_BOXES);
    r = find_highest_number(b, store, &at.above, e);
    if (r >= 0)
        r = b->driver->make(&at, b->plan->id, e);
    if (r < 0)
        return r;
    box = openat(boxes, b->plan->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (box < 0 || mkdirat(box, STORAGE_FS, 0755) < 0)
        return err_sys(e, "creating the directory of the writable layer");
    r = b->limited ? limit_box(b, store, box, e) : 0;
    if (r >= 0)
        *ret = take_fd(&box);
    return r;
}

/* Maps owners so that the box stores ids inside the sandbox: it can become a layer unchanged. */
static int attach_box(struct sandbox_build *b, int box, struct err *e)
{
    struct mount_attr owners = { .attr_set = MOUNT_ATTR_IDMAP };
    AUTO_CLOSE int tree = -1;
    int r = mounts_copy_bare(box, "", &tree, e);

    if (r >= 0)
        r = mounts_restrict(tree, LOCKED_DOWN, -1, e);
    if (r < 0)
        return r;
    if (b->is_root) {
        owners.userns_fd = (unsigned)b->identity.userns;
        if (sys_mount_setattr(tree, "", AT_EMPTY_PATH, &owners) < 0)
            return err_sys(e, "mapping the owners of the writable layer (use storage.driver: "
                              "memory on this file system)");
    }
    if (mkdirat(b->storage, "box", 0700) < 0)
        return err_sys(e, "creating the mount point of the writable layer");
    return mounts_attach_known(tree, b->storage, "box", e);
}

int rootfs_box(struct sandbox_build *b, struct err *e)
{
    AUTO_CLOSE int box = -1;
    int r;

    if (!build_on_disk(b)) {
        drop_fd(&b->sys);
        return 0;
    }
    r = make_box(b, &box, e);
    if (r >= 0 && b->driver->open_counters)
        b->driver->open_counters(b->sys, box, b->counters);
    drop_fd(&b->sys);
    if (r >= 0)
        r = attach_box(b, box, e);
    if (r < 0)
        return r;
    /* Locks the box as long as any process of the sandbox lives, through its own mount, which has
     * no parent directory. */
    b->box = openat(b->storage, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->box < 0 || flock(b->box, LOCK_EX | LOCK_NB) < 0)
        return err_sys(e, "locking the writable layer");
    return 0;
}

static int make_sandbox_dirs(const struct sandbox_build *b, int dir,
                             const struct skeleton_dir *places, size_t n, struct err *e)
{
    int r = 0;

    act_as_sandbox_root(b);
    for (size_t i = 0; i < n && r >= 0; i++) {
        if (mkdirat(dir, places[i].path, places[i].mode & 0777) < 0 && errno != EEXIST)
            r = err_sys(e, "creating /%s", places[i].path);
        else if ((places[i].mode & 07000) && fchmodat(dir, places[i].path, places[i].mode, 0) < 0)
            r = err_sys(e, "setting the mode of /%s", places[i].path);
    }
    act_as_launcher();
    return r;
}

static const char own_layer[] = "own";

/* Attaches an image's layers below the storage, so that overlayfs gets short names. Above them is
 * the layer of the sandbox's own files. */
static int attach_layers(struct sandbox_build *b, char *lower, size_t cap, struct err *e)
{
    size_t at = plan_has_image(b->plan) ? (size_t)snprintf(lower, cap, "%s:", own_layer) : 0;

    for (uint32_t i = 0; i < b->plan->n_layers; i++) {
        char name[16];
        int r;

        snprintf(name, sizeof name, "layer%u", i);
        if (mkdirat(b->storage, name, 0700) < 0)
            return err_sys(e, "creating the mount point of an image layer");
        r = mounts_restrict(b->layers[i], READ_ONLY, b->is_root ? b->identity.userns : -1, e);
        if (r >= 0)
            r = mounts_attach_known(b->layers[i], b->storage, name, e);
        if (r < 0)
            return err_wrap(e, r, "image layer");
        at += (size_t)snprintf(lower + at, cap - at, "%s%s", i ? ":" : "", name);
    }
    return 0;
}

/* Uses mount(2): as a single option of fsconfig(2), the list of lower directories could have only
 * 255 bytes. overlayfs acts with the credentials of its mounter. On disk only ids of the sandbox can
 * be stored: there the mounter is the sandbox's root, with our capabilities. */
static int mount_writable_overlay(struct sandbox_build *b, const char *lower, const char *upper,
                                  const char *work, const char *place, struct err *e)
{
    char options[OPTIONS_MAX];
    int r, n = snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s,workdir=%s,userxattr",
                        lower, upper, work);

    if (n < 0 || (size_t)n >= sizeof options)
        return err_set(e, ERR_TOO_BIG,
                       "the mount options of the layers have more than %zu bytes: use an image or "
                       "snapshot with fewer layers",
                       sizeof options - 1);
    if (fchdir(b->storage) < 0)
        return err_sys(e, "entering the writable layer");
    r = 0;
    if (build_on_disk(b) && b->is_root) {
        act_as_sandbox_root(b);
        r = caps_set(caps_permitted(), 0, e);
    }
    if (r >= 0)
        r = mounts_new("overlay", b->storage, place, MS_NOSUID | MS_NODEV, options, e);
    act_as_launcher();
    return r;
}

/* System directories write to subdirectories of the one layer: these must exist before the root's
 * overlay is mounted. */
static int prepare_system(struct sandbox_build *b, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < skeleton_system_count && r >= 0; i++) {
        char path[32];
        struct stat st;

        snprintf(path, sizeof path, "/%s", skeleton_system[i]);
        if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        snprintf(path, sizeof path, "%s/%s", upper_dir(b), skeleton_system[i]);
        r = make_sandbox_dirs(b, b->storage, &(struct skeleton_dir){ path, 0755 }, 1, e);
    }
    return r;
}

/* Keeps /run and /dev/shm out of the writable layer. */
static int make_apart(struct sandbox_build *b, struct err *e)
{
    static const struct skeleton_dir parts[] = { { "run", 0755 },
                                                 { "shm", 01777 },
                                                 { "dev", 0755 } };

    b->apart = true;
    return make_sandbox_dirs(b, b->storage, parts, COUNT_OF(parts), e);
}

/* Mounts the layers with the writable one on top. */
static int make_layered_root(struct sandbox_build *b, struct err *e)
{
    const char *work = build_on_disk(b) ? "box/work" : "work";
    const struct skeleton_dir parts[] = { { upper_dir(b), 0755 },
                                          { work, 0755 },
                                          { "root", 0755 } };
    char lower[(PLAN_LAYERS_MAX + 1) * LAYER_ROOM];
    int r = make_sandbox_dirs(b, b->storage, parts, COUNT_OF(parts), e);

    if (r >= 0)
        r = make_apart(b, e);
    if (r >= 0)
        r = attach_layers(b, lower, sizeof lower, e);
    if (r >= 0 && plan_has_image(b->plan))
        r = rootfs_own_names(b, own_layer, e);
    if (r >= 0 && !plan_has_image(b->plan) && (b->plan->flags & PLAN_WRITABLE_SYSTEM))
        r = prepare_system(b, e);
    if (r >= 0)
        r = mount_writable_overlay(b, lower, upper_dir(b), work, "root", e);
    return r < 0 ? r : mounts_find(b->storage, "root", &b->root, e);
}

/* Makes /tmp writable for all users: an image may lack it or restrict it. */
static int open_tmp(struct sandbox_build *b, struct err *e)
{
    AUTO_CLOSE int tmp = -1;
    struct stat st;

    tmp = sys_openat2(b->root, "tmp", O_RDONLY | O_DIRECTORY, 0,
                      RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (tmp < 0 || fstat(tmp, &st) < 0)
        return err_sys(e, "opening /tmp of the image");
    if ((st.st_mode & 01777) != 01777 && fchmod(tmp, 01777) < 0)
        return err_sys(e, "setting the mode of /tmp");
    return 0;
}

static int make_image_root(struct sandbox_build *b, struct err *e)
{
    static const char *const needed[] = { "proc", "sys", "dev", "tmp", "run" };
    int r = make_layered_root(b, e);

    if (r < 0)
        return r;
    act_as_sandbox_root(b);
    for (size_t i = 0; i < COUNT_OF(needed) && r >= 0; i++)
        r = mounts_place_dir(b->root, needed[i], 0755, e);
    act_as_launcher();
    return r < 0 ? r : open_tmp(b, e);
}

/* Where system directories are overlays, their work directories must not be visible inside: the
 * root is then a directory of the storage and not the storage itself. It is attached elsewhere,
 * because an upper directory and its work directory must be on one mount. */
static int make_separate_root(struct sandbox_build *b, struct err *e)
{
    const struct skeleton_dir parts[] = { { upper_dir(b), 0755 }, { "root", 0755 } };
    int r = make_sandbox_dirs(b, b->storage, parts, COUNT_OF(parts), e);

    if (r >= 0 && build_on_disk(b))
        r = make_apart(b, e);
    if (r >= 0)
        r = mounts_copy_bare(b->storage, upper_dir(b), &b->root, e);
    return r < 0 ? r : mounts_attach_known(b->root, b->storage, "root", e);
}

static int make_host_root(struct sandbox_build *b, struct err *e)
{
    bool apart = build_on_disk(b) || (b->plan->flags & PLAN_WRITABLE_SYSTEM);
    int r = apart ? make_separate_root(b, e) : 0;

    if (!apart && (b->root = fcntl(b->storage, F_DUPFD_CLOEXEC, 0)) < 0)
        return err_sys(e, "duplicating a descriptor");
    if (r >= 0)
        r = make_sandbox_dirs(b, b->root, skeleton_dirs, skeleton_dir_count, e);
    if (r >= 0 && b->supply != IDENTITY_ONE &&
        fchownat(b->root, "home/user", b->self + 1000, b->self + 1000, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "setting the owner of /home/user");
    return r;
}

/* Makes a directory at the top; replaces any other file that a program left in a layer. */
static int claim_dir(struct sandbox_build *b, const struct skeleton_dir *at, struct err *e)
{
    struct stat st;
    int r = 0;

    act_as_sandbox_root(b);
    if (fstatat(b->root, at->path, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
        unlinkat(b->root, at->path, 0) < 0)
        r = err_sys(e, "removing the file at /%s", at->path);
    act_as_launcher();
    return r < 0 ? r : make_sandbox_dirs(b, b->root, at, 1, e);
}

/* The rest of the skeleton is in the layers, unless a program removed it. */
static int restore_host_root(struct sandbox_build *b, struct err *e)
{
    static const struct skeleton_dir needed[] = { { "dev", 0755 },  { "etc", 0755 },
                                                  { "proc", 0555 }, { "run", 0755 },
                                                  { "sys", 0555 },  { "tmp", 01777 } };
    int r = make_layered_root(b, e);

    for (size_t i = 0; i < COUNT_OF(needed) && r >= 0; i++)
        r = claim_dir(b, &needed[i], e);
    return r;
}

int rootfs_root(struct sandbox_build *b, struct err *e)
{
    bool is_storage =
        !b->plan->n_layers && !(b->plan->flags & PLAN_WRITABLE_SYSTEM) && !build_on_disk(b);
    int r = plan_has_image(b->plan) ? make_image_root(b, e)
            : b->plan->n_layers     ? restore_host_root(b, e)
                                    : make_host_root(b, e);

    /* A read-only view of the writable layer, for PID 1 to hand out: without the mounts that cover
     * parts of it. */
    if (r >= 0)
        r = mounts_copy_bare(b->storage, is_storage ? "" : upper_dir(b), &b->upper, e);
    return r < 0 ? r : mounts_restrict(b->upper, READ_ONLY | MOUNT_ATTR_NOEXEC, -1, e);
}

/* Whether a layer has a directory of that name, not a link, which could lead anywhere. */
static bool layer_has_dir(const struct sandbox_build *b, uint32_t layer, const char *name)
{
    AUTO_CLOSE int dir = -1;
    char path[64];

    snprintf(path, sizeof path, "layer%u/%s", layer, name);
    dir = sys_openat2(b->storage, path, O_PATH | O_DIRECTORY, 0, BENEATH);
    return dir >= 0;
}

/* With PLAN_WRITABLE_SYSTEM a system directory is an overlay: the host's directory below, layers of
 * earlier sandboxes above it, the writable layer on top. */
static int mount_system_overlay(struct sandbox_build *b, const char *name, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    char path[32], host[48], upper[48], work[48], place[48],
        lower[PLAN_LAYERS_MAX * LAYER_ROOM + 48];
    const struct skeleton_dir places[] = { { host, 0755 }, { upper, 0755 }, { work, 0755 } };
    size_t at = 0;
    int r;

    snprintf(path, sizeof path, "/%s", name);
    r = mounts_copy(AT_FDCWD, path, &tree, e);
    if (r >= 0)
        r = mounts_restrict(tree, READ_ONLY, b->is_root ? b->identity.userns : -1, e);
    if (r < 0)
        return r;
    snprintf(host, sizeof host, "%s-lower", name);
    snprintf(upper, sizeof upper, "%s/%s", upper_dir(b), name);
    snprintf(work, sizeof work, "%s%s-work", build_on_disk(b) ? "box/" : "", name);
    snprintf(place, sizeof place, "root/%s", name);
    for (uint32_t i = 0; i < b->plan->n_layers; i++)
        if (layer_has_dir(b, i, name))
            at += (size_t)snprintf(lower + at, sizeof lower - at, "layer%u/%s:", i, name);
    snprintf(lower + at, sizeof lower - at, "%s", host);
    r = make_sandbox_dirs(b, b->storage, places, COUNT_OF(places), e);
    if (r >= 0)
        r = mounts_attach_known(tree, b->storage, host, e);
    return r < 0 ? r : mount_writable_overlay(b, lower, upper, work, place, e);
}

static int attach_system_dir(struct sandbox_build *b, const char *name, struct err *e)
{
    char path[32];
    const struct host_entry entry = { path, true, b->root, name };
    int r = claim_dir(b, &(struct skeleton_dir){ name, 0755 }, e);

    snprintf(path, sizeof path, "/%s", name);
    if (r < 0)
        return r;
    return b->plan->flags & PLAN_WRITABLE_SYSTEM ? mount_system_overlay(b, name, e)
                                                 : rootfs_attach_host(b, &entry, e);
}

/* A layer may contain the link already, or another file of that name. */
static int make_system_link(struct sandbox_build *b, const char *name, const char *target,
                            struct err *e)
{
    char now[64];
    ssize_t n = readlinkat(b->root, name, now, sizeof now);
    int r;

    if (n == (ssize_t)strlen(target) && memcmp(now, target, (size_t)n) == 0)
        return 0;
    act_as_sandbox_root(b);
    r = symlinkat(target, b->root, name);
    if (r < 0 && errno == EEXIST && unlinkat(b->root, name, 0) == 0)
        r = symlinkat(target, b->root, name);
    act_as_launcher();
    return r < 0 ? err_sys(e, "creating /%s", name) : 0;
}

int rootfs_system(struct sandbox_build *b, struct err *e)
{
    if (plan_has_image(b->plan))
        return 0;
    for (size_t i = 0; i < skeleton_system_count; i++) {
        char path[32], target[64];
        struct stat st;
        ssize_t n;
        int r = 0;

        snprintf(path, sizeof path, "/%s", skeleton_system[i]);
        if (lstat(path, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            r = attach_system_dir(b, skeleton_system[i], e);
        } else if (S_ISLNK(st.st_mode) && (n = readlink(path, target, sizeof target - 1)) > 0) {
            target[n] = '\0';
            r = make_system_link(b, skeleton_system[i], target, e);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int rootfs_scratch(struct sandbox_build *b, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    int r;

    if (!b->apart)
        return 0;
    r = mounts_copy(b->storage, "run", &tree, e);
    return r < 0 ? r : mounts_attach(tree, b->root, "run", e);
}

/* f: the grant of a mount; NULL: its file is a descriptor of the caller's. */
static int place_mount(struct sandbox_build *b, uint32_t i, const struct granted_file *f,
                       struct err *e)
{
    const struct plan_mount *m = &b->plan->mounts[i];
    bool is_dir = f && f->is_dir;
    struct stat st;
    int r;

    if (!f && fstat(b->mounts[i], &st) < 0)
        return err_sys(e, "reading the attributes of the source of %s", m->target);
    if (!f)
        is_dir = S_ISDIR(st.st_mode);
    act_as_sandbox_root(b);
    r = is_dir ? mounts_place_dir(b->root, m->target, 0755, e)
               : mounts_place_file(b->root, m->target, e);
    act_as_launcher();
    return r;
}

static int restrict_mount(struct sandbox_build *b, uint32_t i, bool granted, struct err *e)
{
    const struct plan_mount *m = &b->plan->mounts[i];
    uint64_t attributes = m->flags & PLAN_MOUNT_RW ? LOCKED_DOWN : READ_ONLY;
    int r;

    if (!granted || b->granter < 0)
        return mounts_restrict(b->mounts[i], attributes, b->is_root ? b->identity.userns : -1, e);
    r = mounts_restrict_mapped(b->mounts[i], attributes, b->granter, e);
    return err_wrap(e, r, "cannot mount at %s", m->target);
}

int rootfs_mounts(struct sandbox_build *b, struct err *e)
{
    uint32_t at = 0;
    int r = 0;

    for (uint32_t i = 0; i < b->plan->n_mounts && r >= 0; i++) {
        bool granted = b->plan->mounts[i].root == PLAN_GRANT;

        r = place_mount(b, i, granted ? &b->granted.file[at++] : NULL, e);
        if (r >= 0)
            r = restrict_mount(b, i, granted, e);
        if (r >= 0)
            r = mounts_attach(b->mounts[i], b->root, b->plan->mounts[i].target, e);
    }
    return r;
}

int rootfs_pivot(struct sandbox_build *b, struct err *e)
{
    struct stat root, above;

    if (fchdir(b->root) < 0)
        return err_sys(e, "entering the new root");
    if (sys_pivot_root(".", ".") < 0)
        return err_sys(e, "making the new root the root directory (pivot_root)");
    /* The old root is now mounted on top of the new one, at "."; this detaches it with everything
     * in it. */
    if (umount2(".", MNT_DETACH) < 0)
        return err_sys(e, "detaching the old root");
    if (chdir("/") < 0)
        return err_sys(e, "entering /");
    /* Checks that nothing is mounted above the root: it would be reachable by "..". */
    if (stat("/", &root) < 0 || stat("/..", &above) < 0)
        return err_sys(e, "reading the attributes of the new root");
    if (root.st_dev != above.st_dev || root.st_ino != above.st_ino)
        return err_set(e, ERR_BUG, "something is mounted above the new root");
    return 0;
}
