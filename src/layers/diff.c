/* What a sandbox has changed: its writable layer, beside the layers that it stands on.
 *
 * It may be running meanwhile, so a name that vanishes is left out. Records are a letter for the
 * change, one for the kind of file, and the path, each ended by NUL. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "layers/keeper.h"
#include "tree/at.h"
#include "tree/walk.h"

struct diff {
    struct keeper *keeper;
    int below[LAYERS_STACK_MAX]; /* the trees of the layers, uppermost first */
    uint64_t entries;
    char path[TREE_PATH_MAX];
    struct walk walk;
    size_t lengths[TREE_DEPTH_MAX]; /* of the path at each level */
    char out[64 << 10];
    size_t n_out;
};

static bool is_among(const char *path, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return false;
}

/* What the runtime puts into every root that stands on the host's system directories. */
static bool is_made_anew(const char *path)
{
    static const char *const names[] = {
        "dev",
        "proc",
        "sys",
        "run",
        ".empty",
        "etc",
        "home",
        "home/user",
        "mnt",
        "opt",
        "root",
        "srv",
        "tmp",
        "usr",
        "bin",
        "sbin",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "var",
        "var/lib",
        "var/cache",
        "var/log",
        "var/tmp",
        "etc/passwd",
        "etc/group",
        "etc/hosts",
        "etc/hostname",
        "etc/machine-id",
        "etc/nsswitch.conf",
        "etc/resolv.conf",
        "etc/mtab",
        "etc/os-release",
        "etc/localtime",
        "etc/ssl",
        "etc/ssl/openssl.cnf",
        "etc/ssl/certs",
        "etc/ld.so.conf",
        "etc/ld.so.cache",
        "etc/protocols",
        "etc/services",
        "etc/alternatives",
        "etc/fonts",
        "etc/java-11-openjdk",
        "etc/java-17-openjdk",
        "etc/java-21-openjdk",
    };

    return is_among(path, names, COUNT_OF(names));
}

/* … and writes again where a layer has it already. */
static bool is_rewritten(const char *path)
{
    static const char *const names[] = { "etc/hosts", "etc/hostname", "etc/machine-id",
                                         "etc/resolv.conf" };

    return is_among(path, names, COUNT_OF(names));
}

static bool is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool is_opaque(int dir)
{
    char value = 0;

    return fgetxattr(dir, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

enum found { FOUND_NOT, FOUND_THERE, FOUND_GONE };

/* What one layer says of a path: there, removed (nothing further down counts), or nothing. */
static enum found ask_layer(int tree, const char *path)
{
    AUTO_CLOSE int dir = at_open(tree, ".", O_RDONLY | O_DIRECTORY, 0);
    struct str rest = str_from(path), part;
    bool hides = false;

    while (dir >= 0) {
        char name[TREE_NAME_MAX + 1];
        struct stat st;
        int next;

        rest = str_cut(rest, '/', &part);
        if (!str_copy(part, name, sizeof name) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return hides ? FOUND_GONE : FOUND_NOT;
        if (is_whiteout(&st))
            return FOUND_GONE;
        if (!rest.n)
            return FOUND_THERE;
        next = at_open(dir, name, O_RDONLY | O_DIRECTORY, 0);
        if (next < 0)
            return FOUND_GONE; /* it is no directory */
        close(dir);
        dir = next;
        hides = hides || is_opaque(dir);
    }
    return FOUND_NOT;
}

static bool was_there(const struct diff *d)
{
    for (size_t i = 0; i < d->keeper->job.n_below; i++) {
        enum found f = ask_layer(d->below[i], d->path);

        if (f != FOUND_NOT)
            return f == FOUND_THERE;
    }
    return false;
}

/* --- records --- */

static int flush(struct diff *d, struct err *e)
{
    int r = at_write(d->keeper->fds[1], d->out, d->n_out, e);

    d->n_out = 0;
    return r;
}

static char kind_of(const struct stat *st)
{
    return S_ISDIR(st->st_mode)   ? 'd'
           : S_ISREG(st->st_mode) ? 'f'
           : S_ISLNK(st->st_mode) ? 'l'
                                  : 'o';
}

static int record(struct diff *d, char change, char kind, struct err *e)
{
    size_t n = strlen(d->path) + 1;
    int r = 0;

    if (d->entries >= d->keeper->job.entries_max)
        return err_set(e, ERR_TOO_BIG, "more than %llu changes",
                       (unsigned long long)d->keeper->job.entries_max);
    d->entries++;
    if (d->n_out + n + 2 > sizeof d->out)
        r = flush(d, e);
    d->out[d->n_out++] = change;
    d->out[d->n_out++] = kind;
    memcpy(d->out + d->n_out, d->path, n);
    d->n_out += n;
    return r;
}

/* --- the walk --- */

static int enter(struct diff *d, const char *name, size_t length, struct err *e)
{
    char copy[TREE_NAME_MAX + 1];
    int fd = at_open(walk_top(&d->walk)->fd, name, O_RDONLY | O_DIRECTORY, 0), r;

    if (fd < 0)
        return 0;
    snprintf(copy, sizeof copy, "%s", name);
    r = walk_enter(&d->walk, fd, copy, e);
    if (r >= 0)
        d->lengths[d->walk.depth - 1] = length;
    return r;
}

static bool is_unwanted(const char *path)
{
    for (const char *const *name = keeper_unwanted; *name; name++)
        if (strcmp(path, *name) == 0)
            return true;
    return false;
}

/* A directory that was there before is not worth a word: what is in it is. */
static int tell(struct diff *d, const struct stat *st, struct err *e)
{
    bool there = was_there(d);

    if (is_whiteout(st))
        return record(d, 'D', '-', e);
    if (there)
        return S_ISDIR(st->st_mode) || is_rewritten(d->path) ? 0 : record(d, 'C', kind_of(st), e);
    return is_made_anew(d->path) ? 0 : record(d, 'A', kind_of(st), e);
}

static int look(struct diff *d, const char *name, struct err *e)
{
    size_t at = d->lengths[d->walk.depth - 1];
    struct stat st;
    int n, r;

    if (fstatat(walk_top(&d->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    n = snprintf(d->path + at, sizeof d->path - at, "%s%s", at ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof d->path - at)
        return err_set(e, ERR_TOO_BIG, "a path is longer than %d bytes", TREE_PATH_MAX - 1);
    if (is_unwanted(d->path))
        return 0;
    keeper_progress(d->keeper, 0, d->entries);
    r = tell(d, &st, e);
    return r < 0 || !S_ISDIR(st.st_mode) ? r : enter(d, name, at + (size_t)n, e);
}

static int walk_all(struct diff *d, struct err *e)
{
    int first = at_open(d->keeper->fds[0], ".", O_RDONLY | O_DIRECTORY, 0), r;
    const char *name;

    if (first < 0)
        return err_sys(e, "opening what the sandbox writes");
    r = walk_enter(&d->walk, first, "", e);
    d->lengths[0] = 0;
    while (r >= 0 && d->walk.depth > 0) {
        r = walk_next(&d->walk, &name, e);
        if (r == 0)
            walk_leave(&d->walk);
        else if (r > 0)
            r = look(d, name, e);
    }
    return r < 0 ? r : flush(d, e);
}

static int open_below(struct diff *d, struct err *e)
{
    for (size_t i = 0; i < d->keeper->job.n_below; i++) {
        char path[LAYER_NAME_MAX + 4];

        snprintf(path, sizeof path, "%s/fs", d->keeper->job.below[i]);
        d->below[i] = at_open(d->keeper->storage.layers, path, O_RDONLY | O_DIRECTORY, 0);
        if (d->below[i] < 0)
            return err_sys(e, "opening the layer %s", d->keeper->job.below[i]);
    }
    return 0;
}

int keeper_diff(struct keeper *k, struct err *e)
{
    static struct diff d; /* large, and there is one job a process */
    int r;

    d = (struct diff){ .keeper = k };
    walk_init(&d.walk);
    if (!k->job.entries_max)
        k->job.entries_max = TREE_ENTRIES_DEFAULT;
    r = open_below(&d, e);
    if (r >= 0)
        r = walk_all(&d, e);
    walk_done(&d.walk);
    k->done.entries = d.entries;
    return r;
}
