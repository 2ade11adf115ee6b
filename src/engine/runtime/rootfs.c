#include "runtime/rootfs.h"

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
#include "proc/caps.h"
#include "runtime/mounts.h"

enum {
    LOCKED_DOWN = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
    READ_ONLY = LOCKED_DOWN | MOUNT_ATTR_RDONLY,
    OPTIONS_MAX = 4096, /* of mount(2): a page */
    LAYER_ROOM = sizeof "layer999/libx32:",
};
_Static_assert((PLAN_LAYERS_MAX + 1) * LAYER_ROOM + 256 < OPTIONS_MAX,
               "all layers fit into one mount");

/* Files made for the sandbox belong to its root. Changing the file-system uid also takes the
 * capabilities over files away; for_us() brings them back. */
static void for_sandbox(const struct build *b)
{
    setfsgid(b->self);
    setfsuid(b->self);
}

static void for_us(void)
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

int rootfs_private(struct build *b, struct err *e)
{
    struct mount_attr attr = { .propagation = MS_PRIVATE };

    (void)b;
    if (sys_mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr) < 0)
        return err_sys(e, "making our mounts private");
    return 0;
}

int rootfs_storage(struct build *b, struct err *e)
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
    /* Any directory of the host does that we do not need again. Not its root: what covers a root is
     * in the way when the root itself must go. */
    if (sys_move_mount(b->storage, "", AT_FDCWD, "/sys", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return err_sys(e, "attaching the writable layer to /sys");
    return 0;
}

/* Where in the storage: what the sandbox writes, and beside it what overlayfs needs for that. */
static const char *upper_dir(const struct build *b)
{
    return build_on_disk(b) ? "box/" UPPERS_FS : "upper";
}

static const char *work_prefix(const struct build *b)
{
    return build_on_disk(b) ? "box/" : "";
}

/* The inode number of a stored layer's info, which is beside its fs/. Not by way of "..", which
 * openat2(2) gives up when anything on the machine is renamed meanwhile. */
static int number_layer(int store, const char *layer, uint64_t *ret, struct err *e)
{
    char path[PLAN_LAYER_MAX + sizeof "/info"];
    const char *end = strrchr(layer, '/');
    AUTO_CLOSE int info = -1;
    struct stat st;

    snprintf(path, sizeof path, "%.*s/info", end ? (int)(end - layer) : 0, layer);
    info = sys_openat2(store, path, O_PATH, 0,
                       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (info < 0 || fstat(info, &st) < 0)
        return err_sys(e, "opening %s", path);
    *ret = st.st_ino;
    return 0;
}

/* No file of a layer has a higher number than its info, which was written last. */
static int find_highest_number(const struct build *b, int store, uint64_t *ret, struct err *e)
{
    uint64_t number;
    int r = 0;

    *ret = 0;
    for (uint32_t i = 0; i < b->plan->n_layers && r >= 0; i++) {
        if (b->plan->layers[i].root != PLAN_STORE)
            continue;
        r = number_layer(store, b->plan->layers[i].path, &number, e);
        if (r >= 0 && number > *ret)
            *ret = number;
    }
    return r;
}

static int make_box(const struct build *b, int *ret, struct err *e)
{
    AUTO_CLOSE int store = openat(AT_FDCWD, b->store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int boxes = -1, box = -1;
    struct driver_place at = { .storage = store };
    int r;

    if (store >= 0)
        at.boxes = boxes =
            sys_openat2(store, UPPERS_BOXES, O_RDONLY | O_DIRECTORY, 0,
                        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (boxes < 0)
        return err_sys(e, "opening %s/%s", b->store, UPPERS_BOXES);
    r = find_highest_number(b, store, &at.above, e);
    if (r >= 0)
        r = b->driver->make(&at, b->plan->id, e);
    if (r < 0)
        return r;
    box = openat(boxes, b->plan->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (box < 0 || mkdirat(box, UPPERS_FS, 0755) < 0)
        return err_sys(e, "making a place for what the sandbox writes");
    r = b->limited && b->plan->disk ? b->driver->limit(box, b->plan->disk, e) : 0;
    if (r >= 0)
        *ret = take_fd(&box);
    return r;
}

/* What is stored has owners as they are called inside: a layer can be made of it as it is. */
static int attach_box(struct build *b, int box, struct err *e)
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
            return err_sys(e, "mapping owners (storage.driver: memory does without)");
    }
    if (mkdirat(b->storage, "box", 0700) < 0)
        return err_sys(e, "making a place for the box");
    return mounts_attach_known(tree, b->storage, "box", e);
}

/* Held as long as anything in the sandbox lives. From the mount of its own, above which there is
 * nothing. */
static int lock_box(struct build *b, struct err *e)
{
    b->box = openat(b->storage, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (b->box < 0 || flock(b->box, LOCK_EX | LOCK_NB) < 0)
        return err_sys(e, "locking what the sandbox writes");
    return 0;
}

int rootfs_box(struct build *b, struct err *e)
{
    AUTO_CLOSE int box = -1;
    int r;

    if (!build_on_disk(b))
        return 0;
    r = make_box(b, &box, e);
    if (r >= 0)
        r = attach_box(b, box, e);
    return r < 0 ? r : lock_box(b, e);
}

struct place {
    const char *path;
    mode_t mode;
};

static int make_places(const struct build *b, int dir, const struct place *places, size_t n,
                       struct err *e)
{
    int r = 0;

    for_sandbox(b);
    for (size_t i = 0; i < n && r >= 0; i++) {
        if (mkdirat(dir, places[i].path, places[i].mode & 0777) < 0 && errno != EEXIST)
            r = err_sys(e, "making /%s", places[i].path);
        else if ((places[i].mode & 07000) && fchmodat(dir, places[i].path, places[i].mode, 0) < 0)
            r = err_sys(e, "setting the mode of /%s", places[i].path);
    }
    for_us();
    return r;
}

static const char own_layer[] = "own";

/* An image's layers, each attached below the storage so that overlayfs finds them by a short name.
 * Above them is what the sandbox has of its own. */
static int attach_layers(struct build *b, char *lower, size_t cap, struct err *e)
{
    size_t at = plan_has_image(b->plan) ? (size_t)snprintf(lower, cap, "%s:", own_layer) : 0;

    for (uint32_t i = 0; i < b->plan->n_layers; i++) {
        char name[16];
        int r;

        snprintf(name, sizeof name, "layer%u", i);
        if (mkdirat(b->storage, name, 0700) < 0)
            return err_sys(e, "making a place for an image layer");
        r = mounts_restrict(b->layers[i], READ_ONLY, b->is_root ? b->identity.userns : -1, e);
        if (r >= 0)
            r = mounts_attach_known(b->layers[i], b->storage, name, e);
        if (r < 0)
            return err_wrap(e, r, "image layer");
        at += (size_t)snprintf(lower + at, cap - at, "%s%s", i ? ":" : "", name);
    }
    return 0;
}

/* overlayfs acts as whoever mounts it. On disk nobody's files can be stored but those of the
 * sandbox's own users: there it is the sandbox's root, with our capabilities. */
static int become_mounter(const struct build *b, struct err *e)
{
    if (!build_on_disk(b) || !b->is_root)
        return 0;
    for_sandbox(b);
    return caps_set(caps_permitted(), 0, e);
}

/* In one step: as an option of its own, the list of lower directories could have no more than 255
 * bytes (fsconfig(2)). */
static int mount_overlay(struct build *b, const char *lower, const char *upper, const char *work,
                         const char *place, struct err *e)
{
    char options[OPTIONS_MAX];
    int r, n = snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s,workdir=%s,userxattr",
                        lower, upper, work);

    if (n < 0 || (size_t)n >= sizeof options)
        return err_set(e, ERR_TOO_BIG, "too many layers");
    if (fchdir(b->storage) < 0)
        return err_sys(e, "entering the writable layer");
    r = become_mounter(b, e);
    if (r >= 0)
        r = mounts_new("overlay", b->storage, place, MS_NOSUID | MS_NODEV, options, e);
    for_us();
    return r;
}

const char *const rootfs_system_names[] = {
    "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"
};
const size_t rootfs_system_count = COUNT_OF(rootfs_system_names);

/* System directories write to their parts of the one layer: these are there before the root's
 * overlay looks at it. */
static int prepare_system(struct build *b, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < rootfs_system_count && r >= 0; i++) {
        char path[32];
        struct stat st;

        snprintf(path, sizeof path, "/%s", rootfs_system_names[i]);
        if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        snprintf(path, sizeof path, "%s/%s", upper_dir(b), rootfs_system_names[i]);
        r = make_places(b, b->storage, &(struct place){ path, 0755 }, 1, e);
    }
    return r;
}

/* What a sandbox writes to /run and /dev/shm is not kept. */
static int make_apart(struct build *b, struct err *e)
{
    static const struct place parts[] = { { "run", 0755 }, { "shm", 01777 }, { "dev", 0755 } };

    b->apart = true;
    return make_places(b, b->storage, parts, COUNT_OF(parts), e);
}

/* The layers, and above them the one that it writes to. */
static int layered_root(struct build *b, struct err *e)
{
    const char *work = build_on_disk(b) ? "box/work" : "work";
    const struct place parts[] = { { upper_dir(b), 0755 }, { work, 0755 }, { "root", 0755 } };
    char lower[(PLAN_LAYERS_MAX + 1) * LAYER_ROOM];
    int r = make_places(b, b->storage, parts, COUNT_OF(parts), e);

    if (r >= 0)
        r = make_apart(b, e);
    if (r >= 0)
        r = attach_layers(b, lower, sizeof lower, e);
    if (r >= 0 && plan_has_image(b->plan))
        r = rootfs_names(b, own_layer, e);
    if (r >= 0 && !plan_has_image(b->plan) && (b->plan->flags & PLAN_WRITABLE_SYSTEM))
        r = prepare_system(b, e);
    if (r >= 0)
        r = mount_overlay(b, lower, upper_dir(b), work, "root", e);
    return r < 0 ? r : mounts_find(b->storage, "root", &b->root, e);
}

/* An image may lack it, or have it closed. */
static int open_tmp(struct build *b, struct err *e)
{
    AUTO_CLOSE int tmp = -1;
    struct stat st;

    tmp = sys_openat2(b->root, "tmp", O_RDONLY | O_DIRECTORY, 0,
                      RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    if (tmp < 0 || fstat(tmp, &st) < 0)
        return err_sys(e, "opening /tmp of the image");
    if ((st.st_mode & 01777) != 01777 && fchmod(tmp, 01777) < 0)
        return err_sys(e, "opening /tmp to everybody");
    return 0;
}

static int image_root(struct build *b, struct err *e)
{
    static const char *const needed[] = { "proc", "sys", "dev", "tmp", "run" };
    int r = layered_root(b, e);

    if (r < 0)
        return r;
    for_sandbox(b);
    for (size_t i = 0; i < COUNT_OF(needed) && r >= 0; i++)
        r = mounts_place_dir(b->root, needed[i], 0755, e);
    for_us();
    return r < 0 ? r : open_tmp(b, e);
}

static int storage_as_root(struct build *b, struct err *e)
{
    b->root = fcntl(b->storage, F_DUPFD_CLOEXEC, 0);
    return b->root < 0 ? err_sys(e, "duplicating a descriptor") : 0;
}

/* Where system directories are overlays, what they need beside the layer they write to must not be
 * visible inside: the root is then a directory of the storage and not the storage itself. It is
 * attached elsewhere, because a layer to write to and its work directory must be of one mount. */
static int separate_root(struct build *b, struct err *e)
{
    const struct place parts[] = { { upper_dir(b), 0755 }, { "root", 0755 } };
    int r = make_places(b, b->storage, parts, COUNT_OF(parts), e);

    if (r >= 0 && build_on_disk(b))
        r = make_apart(b, e);
    if (r >= 0)
        r = mounts_copy_bare(b->storage, upper_dir(b), &b->root, e);
    return r < 0 ? r : mounts_attach_known(b->root, b->storage, "root", e);
}

static int new_host_root(struct build *b, struct err *e)
{
    static const struct place skeleton[] = {
        { "dev", 0755 },       { "dev/shm", 01777 }, { "etc", 0755 },      { "home", 0755 },
        { "home/user", 0755 }, { "mnt", 0755 },      { "opt", 0755 },      { "proc", 0555 },
        { "root", 0700 },      { "run", 0755 },      { "srv", 0755 },      { "sys", 0555 },
        { "tmp", 01777 },      { "usr", 0755 },      { "var", 0755 },      { "var/lib", 0755 },
        { "var/cache", 0755 }, { "var/log", 0755 },  { "var/tmp", 01777 },
    };
    bool apart = build_on_disk(b) || (b->plan->flags & PLAN_WRITABLE_SYSTEM);
    int r = apart ? separate_root(b, e) : storage_as_root(b, e);

    if (r >= 0)
        r = make_places(b, b->root, skeleton, COUNT_OF(skeleton), e);
    if (r >= 0 && b->supply != IDENTITY_ONE &&
        fchownat(b->root, "home/user", b->self + 1000, b->self + 1000, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "giving /home/user to its owner");
    return r;
}

/* A directory at the top, whatever the layers have in its place: that was up to a program. */
static int claim_dir(struct build *b, const struct place *at, struct err *e)
{
    struct stat st;
    int r = 0;

    for_sandbox(b);
    if (fstatat(b->root, at->path, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
        unlinkat(b->root, at->path, 0) < 0)
        r = err_sys(e, "making way for /%s", at->path);
    for_us();
    return r < 0 ? r : make_places(b, b->root, at, 1, e);
}

/* The rest of the skeleton is in the layers, as far as somebody has not removed it. */
static int old_host_root(struct build *b, struct err *e)
{
    static const struct place needed[] = { { "dev", 0755 }, { "etc", 0755 }, { "proc", 0555 },
                                           { "run", 0755 }, { "sys", 0555 }, { "tmp", 01777 } };
    int r = layered_root(b, e);

    for (size_t i = 0; i < COUNT_OF(needed) && r >= 0; i++)
        r = claim_dir(b, &needed[i], e);
    return r;
}

/* What the sandbox writes, for those outside who ask PID 1 for it: without the mounts that cover
 * parts of it, and nothing can be written through it. */
static int show_upper(struct build *b, struct err *e)
{
    bool is_root =
        !b->plan->n_layers && !(b->plan->flags & PLAN_WRITABLE_SYSTEM) && !build_on_disk(b);
    int r = mounts_copy_bare(b->storage, is_root ? "" : upper_dir(b), &b->upper, e);

    return r < 0 ? r : mounts_restrict(b->upper, READ_ONLY | MOUNT_ATTR_NOEXEC, -1, e);
}

int rootfs_root(struct build *b, struct err *e)
{
    int r = plan_has_image(b->plan) ? image_root(b, e)
            : b->plan->n_layers     ? old_host_root(b, e)
                                    : new_host_root(b, e);

    return r < 0 ? r : show_upper(b, e);
}

/* Whether a layer has a directory of that name: not a link, which would lead anywhere. */
static bool layer_has(const struct build *b, uint32_t layer, const char *name)
{
    AUTO_CLOSE int dir = -1;
    char path[64];

    snprintf(path, sizeof path, "layer%u/%s", layer, name);
    dir = sys_openat2(b->storage, path, O_PATH | O_DIRECTORY, 0,
                      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    return dir >= 0;
}

/* With PLAN_WRITABLE_SYSTEM a system directory is an overlay: the host's below, what was written
 * in earlier lives on it, the sandbox's above. */
static int system_overlay(struct build *b, const char *name, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    char path[32], host[48], upper[48], work[48], place[48],
        lower[PLAN_LAYERS_MAX * LAYER_ROOM + 48];
    const struct place places[] = { { host, 0755 }, { upper, 0755 }, { work, 0755 } };
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
    snprintf(work, sizeof work, "%s%s-work", work_prefix(b), name);
    snprintf(place, sizeof place, "root/%s", name);
    for (uint32_t i = 0; i < b->plan->n_layers; i++)
        if (layer_has(b, i, name))
            at += (size_t)snprintf(lower + at, sizeof lower - at, "layer%u/%s:", i, name);
    snprintf(lower + at, sizeof lower - at, "%s", host);
    r = make_places(b, b->storage, places, COUNT_OF(places), e);
    if (r >= 0)
        r = mounts_attach_known(tree, b->storage, host, e);
    return r < 0 ? r : mount_overlay(b, lower, upper, work, place, e);
}

static int system_directory(struct build *b, const char *name, struct err *e)
{
    char path[32];
    const struct host_entry entry = { path, true, b->root, name };
    int r = claim_dir(b, &(struct place){ name, 0755 }, e);

    snprintf(path, sizeof path, "/%s", name);
    if (r < 0)
        return r;
    return b->plan->flags & PLAN_WRITABLE_SYSTEM ? system_overlay(b, name, e)
                                                 : rootfs_attach_host(b, &entry, e);
}

static bool leads_to(int dir, const char *name, const char *target)
{
    char now[64];
    ssize_t n = readlinkat(dir, name, now, sizeof now);

    return n == (ssize_t)strlen(target) && memcmp(now, target, (size_t)n) == 0;
}

/* A layer may have it already, or something else in its place. */
static int system_link(struct build *b, const char *name, const char *target, struct err *e)
{
    int r;

    if (leads_to(b->root, name, target))
        return 0;
    for_sandbox(b);
    r = symlinkat(target, b->root, name);
    if (r < 0 && errno == EEXIST && unlinkat(b->root, name, 0) == 0)
        r = symlinkat(target, b->root, name);
    for_us();
    return r < 0 ? err_sys(e, "making /%s", name) : 0;
}

int rootfs_system(struct build *b, struct err *e)
{
    if (plan_has_image(b->plan))
        return 0;
    for (size_t i = 0; i < rootfs_system_count; i++) {
        char path[32], target[64];
        struct stat st;
        ssize_t n;
        int r = 0;

        snprintf(path, sizeof path, "/%s", rootfs_system_names[i]);
        if (lstat(path, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            r = system_directory(b, rootfs_system_names[i], e);
        } else if (S_ISLNK(st.st_mode) && (n = readlink(path, target, sizeof target - 1)) > 0) {
            target[n] = '\0';
            r = system_link(b, rootfs_system_names[i], target, e);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int rootfs_scratch(struct build *b, struct err *e)
{
    AUTO_CLOSE int tree = -1;
    int r;

    if (!b->apart)
        return 0;
    r = mounts_copy(b->storage, "run", &tree, e);
    return r < 0 ? r : mounts_attach(tree, b->root, "run", e);
}

int rootfs_mounts(struct build *b, struct err *e)
{
    for (uint32_t i = 0; i < b->plan->n_mounts; i++) {
        const struct plan_mount *m = &b->plan->mounts[i];
        struct stat st;
        int r;

        if (fstat(b->mounts[i], &st) < 0)
            return err_sys(e, "looking at the source of %s", m->target);
        for_sandbox(b);
        r = S_ISDIR(st.st_mode) ? mounts_place_dir(b->root, m->target, 0755, e)
                                : mounts_place_file(b->root, m->target, e);
        for_us();
        if (r >= 0)
            r = mounts_restrict(b->mounts[i], m->flags & PLAN_MOUNT_RW ? LOCKED_DOWN : READ_ONLY,
                                b->is_root ? b->identity.userns : -1, e);
        if (r >= 0)
            r = mounts_attach(b->mounts[i], b->root, m->target, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Nothing may be left above our root: a mount there would be one ".." away. */
static int check_alone(struct err *e)
{
    struct stat root, above;

    if (stat("/", &root) < 0 || stat("/..", &above) < 0)
        return err_sys(e, "looking at the new root");
    if (root.st_dev != above.st_dev || root.st_ino != above.st_ino)
        return err_set(e, ERR_BUG, "something is mounted above the new root");
    return 0;
}

int rootfs_pivot(struct build *b, struct err *e)
{
    if (fchdir(b->root) < 0)
        return err_sys(e, "entering the new root");
    if (sys_pivot_root(".", ".") < 0)
        return err_sys(e, "making it the root");
    /* The old root is now on top of the new one, at "."; this takes it away, and all that is in it.
     */
    if (umount2(".", MNT_DETACH) < 0)
        return err_sys(e, "letting go of the old root");
    if (chdir("/") < 0)
        return err_sys(e, "entering /");
    return check_alone(e);
}
