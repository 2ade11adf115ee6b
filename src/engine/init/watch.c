/* Watching a directory, or all below it, also what is made there later. In a child of PID 1 with
 * the target user's rights, as every file operation. */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"

enum { BATCH = 64 << 10, DIRS_MAX = 8192, RELATIVE_MAX = 1024, ARRIVALS = 16 };

#define WATCHED                                                                                    \
    (IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVE | IN_CLOSE_WRITE | IN_DELETE_SELF |   \
     IN_MOVE_SELF)

struct dir {
    int wd;
    char path[RELATIVE_MAX]; /* below what is watched; "" for that itself */
};

/* A file that takes its place: its temporary has left, under this cookie. */
struct arrival {
    uint32_t cookie;
    bool is_new;
};

struct watch {
    int fd;
    const char *root;
    bool tree, entries;
    struct arrival arrivals[ARRIVALS]; /* the latest; cookies are never 0 */
    unsigned arrived;
    struct dir *dirs; /* the first is the root */
    size_t n;
};

/* False: it does not fit. */
static bool full_path(const struct watch *w, const char *relative, char ret[static PATH_MAX])
{
    int n = snprintf(ret, PATH_MAX, "%s%s%s", w->root, relative[0] ? "/" : "", relative);

    return n > 0 && n < PATH_MAX;
}

/* What is there now, if that is asked for; NULL: it is not, or the event is that it goes. */
static const struct entry *look_at(const struct watch *w, uint32_t mask, const char *dir,
                                   const char *name)
{
    static struct entry v;
    char relative[RELATIVE_MAX + NAME_MAX + 2], path[PATH_MAX];

    if (!w->entries || !name[0] || !(mask & (IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB)))
        return NULL;
    snprintf(relative, sizeof relative, "%s%s%s", dir, dir[0] ? "/" : "", name);
    if (!full_path(w, relative, path) ||
        entry_read(AT_FDCWD, path, name, CONTROL_ATTRIBUTES | CONTROL_RESOLVE, &v, NULL) < 0)
        return NULL;
    return &v;
}

static int put_event(const struct watch *w, uint32_t mask, uint32_t cookie, const char *dir,
                     const char *name, struct err *e)
{
    size_t n = strlen(dir), m = strlen(name);
    const struct entry *v = look_at(w, mask, dir, name);
    struct control_event event = { .mask = mask,
                                   .cookie = cookie,
                                   .name_len = (uint32_t)(n + (n && m) + m),
                                   .entry_len = v ? entry_size(v) : 0 };
    int r = files_put(&event, sizeof event, e);

    if (r >= 0)
        r = files_put(dir, n, e);
    if (r >= 0 && n && m)
        r = files_put("/", 1, e);
    if (r >= 0)
        r = files_put(name, m, e);
    return r < 0 || !v ? r : entry_put(v, e);
}

static struct dir *find(struct watch *w, int wd)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->dirs[i].wd == wd)
            return &w->dirs[i];
    return NULL;
}

static void forget(struct watch *w, struct dir *d)
{
    *d = w->dirs[--w->n];
}

/* 1: it is watched now; 0: it is none, or gone; it does not fit: -ERR_TOO_BIG. */
static int add_dir(struct watch *w, const char *relative, struct err *e)
{
    uint32_t how = WATCHED | IN_ONLYDIR | (relative[0] ? IN_DONT_FOLLOW : 0);
    char path[PATH_MAX];
    struct dir *known;
    int wd;

    if (w->n == DIRS_MAX || strlen(relative) >= RELATIVE_MAX || !full_path(w, relative, path))
        return err_set(e, ERR_TOO_BIG, "%s has more directories than can be watched", w->root);
    wd = inotify_add_watch(w->fd, path, how);
    if (wd < 0 && relative[0] && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return 0;
    if (wd < 0)
        return err_sys(e, "watching %s", path);
    known = find(w, wd); /* it was moved, and is here now */
    if (!known)
        known = &w->dirs[w->n++];
    known->wd = wd;
    snprintf(known->path, sizeof known->path, "%s", relative);
    return 1;
}

struct dents64 {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

enum { KIND_UNKNOWN = 0, KIND_DIR = 4 }; /* as getdents64(2) has them */

static int scan_entry(struct watch *w, const char *dir, const struct dents64 *d, bool tell,
                      struct err *e)
{
    char relative[RELATIVE_MAX];
    int n, added = 0, r = 0;

    if (!strcmp(d->name, ".") || !strcmp(d->name, "..") || write_temporary(d->name))
        return 0;
    n = snprintf(relative, sizeof relative, "%s%s%s", dir, dir[0] ? "/" : "", d->name);
    if (d->type == KIND_DIR || d->type == KIND_UNKNOWN)
        added = n < RELATIVE_MAX ? add_dir(w, relative, e)
                                 : err_set(e, ERR_TOO_BIG, "a path is too long to be watched");
    if (added >= 0 && tell)
        r = put_event(w, IN_CREATE | (added ? (uint32_t)IN_ISDIR : 0), 0, dir, d->name, e);
    return added < 0 ? added : r;
}

/* Entries of a directory; those that are directories join the table, and are scanned in turn. */
static int scan(struct watch *w, const char *relative, bool tell, struct err *e)
{
    static char batch[BATCH] __attribute__((aligned(8)));
    char path[PATH_MAX], dir[RELATIVE_MAX];
    AUTO_CLOSE int fd = -1;
    long n;
    int r = 0;

    snprintf(dir, sizeof dir, "%s", relative); /* the table moves under it */
    if (!full_path(w, dir, path))
        return 0;
    fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* gone, or it keeps us out: its own events are told */
    while (r >= 0 && (n = syscall(SYS_getdents64, fd, batch, sizeof batch)) > 0)
        for (long at = 0; at < n && r >= 0;) {
            const struct dents64 *d = (const void *)(batch + at);

            at += d->reclen;
            r = scan_entry(w, dir, d, tell, e);
        }
    return r;
}

/* What is in it may have been made before it was watched: it is told as made now. */
static int add_tree(struct watch *w, const char *relative, bool tell, struct err *e)
{
    size_t first = w->n;
    int r = add_dir(w, relative, e);

    for (size_t i = first; r >= 0 && i < w->n; i++)
        r = scan(w, w->dirs[i].path, tell, e);
    return r;
}

static void forget_tree(struct watch *w, const char *relative)
{
    size_t n = strlen(relative);

    for (size_t i = 0; i < w->n;) {
        struct dir *d = &w->dirs[i];

        if (strncmp(d->path, relative, n) != 0 || (d->path[n] && d->path[n] != '/')) {
            i++;
            continue;
        }
        inotify_rm_watch(w->fd, d->wd);
        forget(w, d);
    }
}

/* A directory below that comes or goes. */
static int follow(struct watch *w, const struct inotify_event *v, const char *dir, const char *name,
                  struct err *e)
{
    char relative[RELATIVE_MAX];
    struct err mine;

    if (!w->tree || !(v->mask & IN_ISDIR) || !(v->mask & (IN_CREATE | IN_MOVE)))
        return 0;
    if (snprintf(relative, sizeof relative, "%s%s%s", dir, dir[0] ? "/" : "", name) >= RELATIVE_MAX)
        return put_event(w, IN_Q_OVERFLOW, 0, "", "", e);
    if (v->mask & IN_MOVED_FROM)
        forget_tree(w, relative);
    else if (add_tree(w, relative, true, &mine) < 0) /* from here on something is not told */
        return put_event(w, IN_Q_OVERFLOW, 0, "", "", e);
    return 0;
}

static void note_leaving(struct watch *w, uint32_t cookie, enum temporary kind)
{
    w->arrivals[w->arrived++ % ARRIVALS] =
        (struct arrival){ .cookie = cookie, .is_new = kind == TEMPORARY_OF_NEW };
}

static const struct arrival *find_arrival(const struct watch *w, const struct inotify_event *v)
{
    for (size_t i = 0; v->cookie && (v->mask & IN_MOVED_TO) && i < ARRIVALS; i++)
        if (w->arrivals[i].cookie == v->cookie)
            return &w->arrivals[i];
    return NULL;
}

/* As if it had been written where it is; that it is closed then comes by itself. */
static int put_written(const struct watch *w, const struct arrival *a, const char *dir,
                       const char *name, struct err *e)
{
    int r = a->is_new ? put_event(w, IN_CREATE, 0, dir, name, e) : 0;

    return r < 0 ? r : put_event(w, IN_MODIFY, 0, dir, name, e);
}

/* An event of something in the directory; what a write does on its way is not told. */
static int on_named(struct watch *w, const struct inotify_event *v, const char *dir,
                    const char *name, struct err *e)
{
    enum temporary kind = write_temporary(name);
    const struct arrival *a = find_arrival(w, v);
    int r;

    if (kind) {
        if (v->mask & IN_MOVED_FROM)
            note_leaving(w, v->cookie, kind);
        return 0;
    }
    if (a)
        return put_written(w, a, dir, name, e);
    r = put_event(w, v->mask, v->cookie, dir, name, e);
    return r < 0 ? r : follow(w, v, dir, name, e);
}

static int on_event(struct watch *w, const struct inotify_event *v, struct err *e)
{
    struct dir *d = find(w, v->wd);
    char dir[RELATIVE_MAX], name[NAME_MAX + 1];

    if (!d)
        return v->mask & IN_Q_OVERFLOW ? put_event(w, v->mask, 0, "", "", e) : 0;
    snprintf(dir, sizeof dir, "%s", d->path);
    snprintf(name, sizeof name, "%s", v->len ? v->name : "");
    if (dir[0] && !name[0]) { /* what is below is told by what it is in */
        if (v->mask & IN_IGNORED)
            forget(w, d);
        return 0;
    }
    return on_named(w, v, dir, name, e);
}

static int read_events(struct watch *w, struct err *e)
{
    static char batch[BATCH] __attribute__((aligned(8)));
    ssize_t n = read(w->fd, batch, sizeof batch);
    int r = 0;

    for (ssize_t at = 0; at < n && r >= 0;) {
        const struct inotify_event *v = (const void *)(batch + at);

        at += (ssize_t)(sizeof *v + v->len);
        r = on_event(w, v, e);
    }
    return r < 0 ? r : files_flush(e);
}

static int begin(struct watch *w, struct err *e)
{
    void *room = mmap(NULL, DIRS_MAX * sizeof *w->dirs, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int r;

    if (w->fd < 0 || room == MAP_FAILED)
        return err_sys(e, "watching %s", w->root);
    w->dirs = room;
    r = w->tree ? add_tree(w, "", false, e) : add_dir(w, "", e);
    /* An empty record says that the watch stands: what happens from now on is reported. */
    if (r >= 0)
        r = files_put(&(struct control_event){ 0 }, sizeof(struct control_event), e);
    return r < 0 ? r : files_flush(e);
}

int watch_run(uint32_t mode, char *const *paths, struct err *e)
{
    AUTO_CLOSE int fd = inotify_init1(IN_CLOEXEC);
    struct watch w = { .fd = fd,
                       .root = paths[0],
                       .tree = mode & CONTROL_WATCH_TREE,
                       .entries = mode & CONTROL_WATCH_ENTRIES };
    struct pollfd waits[] = { { .fd = fd, .events = POLLIN }, { .fd = STDOUT_FILENO } };
    int r = begin(&w, e);

    while (r >= 0) {
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            return err_sys(e, "watching %s", paths[0]);
        if (waits[1].revents)
            return 0; /* nobody reads any more */
        r = read_events(&w, e);
    }
    return r;
}
