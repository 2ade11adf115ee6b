/* What a sandbox has changed: its writable layer, beside the layers that it stands on.
 *
 * It may be running meanwhile, so a name that vanishes is left out. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "layers/changes.h"
#include "layers/view.h"
#include "tree/at.h"
#include "tree/walk.h"

struct diff {
    struct keeper *keeper;
    int below[LAYERS_STACK_MAX]; /* the trees of the layers, uppermost first */
    char path[TREE_PATH_MAX];
    struct walk walk;
    size_t lengths[TREE_DEPTH_MAX]; /* of the path at each level */
    struct changes changes;
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
        "etc/nsswitch.conf",
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

static bool was_there(const struct diff *d)
{
    for (size_t i = 0; i < d->keeper->job.n_below; i++) {
        struct stat st;
        enum view v = view_ask(d->below[i], d->path, &st);

        if (v != VIEW_NOT)
            return v == VIEW_THERE;
    }
    return false;
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

/* A directory that was there before is not worth a word: what is in it is. */
static int tell(struct diff *d, const struct stat *st, struct err *e)
{
    bool there = was_there(d);

    if (changes_is_rewritten(d->path))
        return 0;
    if (view_is_whiteout(st))
        return changes_add(&d->changes, CHANGE_DELETED, st, d->path, e);
    if (there)
        return S_ISDIR(st->st_mode) ? 0 : changes_add(&d->changes, CHANGE_CHANGED, st, d->path, e);
    return is_made_anew(d->path) ? 0 : changes_add(&d->changes, CHANGE_ADDED, st, d->path, e);
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
    if (changes_is_unwanted(d->path))
        return 0;
    keeper_progress(d->keeper, 0, d->changes.entries);
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
    return r < 0 ? r : changes_flush(&d->changes, e);
}

static int open_below(struct diff *d, struct err *e)
{
    for (size_t i = 0; i < d->keeper->job.n_below; i++) {
        d->below[i] = storage_open_layer(&d->keeper->storage, d->keeper->job.below[i], e);
        if (d->below[i] < 0)
            return d->below[i];
    }
    return 0;
}

int keeper_diff(struct keeper *k, struct err *e)
{
    static struct diff d; /* large, and there is one job a process */
    int r;

    d = (struct diff){ .keeper = k, .changes = { .keeper = k } };
    walk_init(&d.walk);
    if (!k->job.entries_max)
        k->job.entries_max = TREE_ENTRIES_DEFAULT;
    r = changes_find(k, e);
    if (r >= 0)
        r = open_below(&d, e);
    if (r >= 0)
        r = walk_all(&d, e);
    walk_done(&d.walk);
    k->done.entries = d.changes.entries;
    return r;
}
