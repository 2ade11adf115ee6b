/* SPDX-License-Identifier: Apache-2.0 */
/* WATCH: watches a directory, or the whole tree below it, including directories made later. Runs in
 * a child of PID 1 with the target user's rights, like every file operation. */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

enum { BATCH = 64 << 10, DIRS_MAX = 8192, RELATIVE_MAX = 1024, ARRIVALS = 16 };

#define WATCHED                                                                                    \
    (IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVE | IN_CLOSE_WRITE | IN_DELETE_SELF |   \
     IN_MOVE_SELF)

struct watched_dir {
    int wd;
    char path[RELATIVE_MAX]; /* relative to the root; "" for the root */
};

/* A file that a write renames into place: its temporary was moved away with this cookie. */
struct watch_arrival {
    uint32_t cookie;
    bool is_new;
};

struct tree_watch {
    int fd;
    const char *root;
    bool tree, entries;
    struct watch_arrival arrivals[ARRIVALS]; /* the latest; cookies are never 0 */
    unsigned arrived;
    struct watched_dir *dirs; /* the first is the root */
    size_t n;
};

/* Writes the absolute path; false if it does not fit. */
static bool full_path(const struct tree_watch *w, const char *relative, char ret[static PATH_MAX])
{
    int n = snprintf(ret, PATH_MAX, "%s%s%s", w->root, relative[0] ? "/" : "", relative);

    return n > 0 && n < PATH_MAX;
}

/* Reads the changed file if the client wants entries; NULL: not wanted, or the event is a
 * removal. */
static const struct file_record *read_event_entry(const struct tree_watch *w, uint32_t mask,
                                                  const char *dir, const char *name)
{
    static struct file_record v;
    char relative[RELATIVE_MAX + NAME_MAX + 2], path[PATH_MAX];

    if (!w->entries || !name[0] || !(mask & (IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_ATTRIB)))
        return NULL;
    snprintf(relative, sizeof relative, "%s%s%s", dir, dir[0] ? "/" : "", name);
    if (!full_path(w, relative, path) ||
        file_record_read(AT_FDCWD, path, name, START_ATTRIBUTES | START_RESOLVE, &v, NULL) < 0)
        return NULL;
    return &v;
}

static int write_watch_event(const struct tree_watch *w, uint32_t mask, uint32_t cookie,
                             const char *dir, const char *name, struct err *e)
{
    size_t n = strlen(dir), m = strlen(name);
    const struct file_record *v = read_event_entry(w, mask, dir, name);
    struct control_event event = { .mask = mask,
                                   .cookie = cookie,
                                   .name_len = (uint32_t)(n + (n && m) + m),
                                   .entry_len = v ? file_record_size(v) : 0 };
    int r = files_write_output(&event, sizeof event, e);

    if (r >= 0)
        r = files_write_output(dir, n, e);
    if (r >= 0 && n && m)
        r = files_write_output("/", 1, e);
    if (r >= 0)
        r = files_write_output(name, m, e);
    return r < 0 || !v ? r : file_record_write(v, e);
}

static struct watched_dir *find_watched_dir(struct tree_watch *w, int wd)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->dirs[i].wd == wd)
            return &w->dirs[i];
    return NULL;
}

static void forget_dir(struct tree_watch *w, struct watched_dir *d)
{
    *d = w->dirs[--w->n];
}

/* Watches a directory: 1, 0 if it is not a directory or does not exist; -ERR_TOO_BIG if there are
 * too many. */
static int add_dir(struct tree_watch *w, const char *relative, struct err *e)
{
    uint32_t how = WATCHED | IN_ONLYDIR | (relative[0] ? IN_DONT_FOLLOW : 0);
    char path[PATH_MAX];
    struct watched_dir *known;
    int wd;

    if (w->n == DIRS_MAX || strlen(relative) >= RELATIVE_MAX || !full_path(w, relative, path))
        return err_set(e, ERR_TOO_BIG, "%s has more directories than can be watched", w->root);
    wd = inotify_add_watch(w->fd, path, how);
    if (wd < 0 && relative[0] && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return 0;
    if (wd < 0)
        return err_sys(e, "watching %s", path);
    known = find_watched_dir(w, wd); /* it was moved here */
    if (!known)
        known = &w->dirs[w->n++];
    known->wd = wd;
    snprintf(known->path, sizeof known->path, "%s", relative);
    return 1;
}

enum { KIND_UNKNOWN = 0, KIND_DIR = 4 }; /* of getdents64(2) */

static int scan_entry(struct tree_watch *w, const char *dir, const struct kernel_dirent *d,
                      bool tell, struct err *e)
{
    char relative[RELATIVE_MAX];
    int n, added = 0, r = 0;

    if (!strcmp(d->name, ".") || !strcmp(d->name, "..") || write_temporary(d->name))
        return 0;
    n = snprintf(relative, sizeof relative, "%s%s%s", dir, dir[0] ? "/" : "", d->name);
    if (d->type == KIND_DIR || d->type == KIND_UNKNOWN)
        added =
            n < RELATIVE_MAX
                ? add_dir(w, relative, e)
                : err_set(e, ERR_TOO_BIG,
                          "%.80s/%.80s: a path below the watched directory has more than %d bytes",
                          dir, d->name, RELATIVE_MAX - 1);
    if (added >= 0 && tell)
        r = write_watch_event(w, IN_CREATE | (added ? (uint32_t)IN_ISDIR : 0), 0, dir, d->name, e);
    return added < 0 ? added : r;
}

/* Reads the entries of a directory; subdirectories are added to the table and scanned in turn. */
static int scan_dir(struct tree_watch *w, const char *relative, bool tell, struct err *e)
{
    static char batch[BATCH] __attribute__((aligned(8)));
    char path[PATH_MAX], dir[RELATIVE_MAX];
    AUTO_CLOSE int fd = -1;
    long n;
    int r = 0;

    snprintf(dir, sizeof dir, "%s", relative); /* the table may change */
    if (!full_path(w, dir, path))
        return 0;
    fd = openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* removed or not readable: events of the directory itself are still reported */
    while (r >= 0 && (n = syscall(SYS_getdents64, fd, batch, sizeof batch)) > 0)
        for (long at = 0; at < n && r >= 0;) {
            const struct kernel_dirent *d = (const void *)(batch + at);

            at += d->reclen;
            r = scan_entry(w, dir, d, tell, e);
        }
    return r;
}

/* Watches a tree. Files that were made before the watch are reported as created now. */
static int add_watched_tree(struct tree_watch *w, const char *relative, bool tell, struct err *e)
{
    size_t first = w->n;
    int r = add_dir(w, relative, e);

    for (size_t i = first; r >= 0 && i < w->n; i++)
        r = scan_dir(w, w->dirs[i].path, tell, e);
    return r;
}

static void forget_tree(struct tree_watch *w, const char *relative)
{
    size_t n = strlen(relative);

    for (size_t i = 0; i < w->n;) {
        struct watched_dir *d = &w->dirs[i];

        if (strncmp(d->path, relative, n) != 0 || (d->path[n] && d->path[n] != '/')) {
            i++;
            continue;
        }
        inotify_rm_watch(w->fd, d->wd);
        forget_dir(w, d);
    }
}

/* Handles a subdirectory that was created, moved or removed. */
static int follow_subdir(struct tree_watch *w, const struct inotify_event *v, const char *dir,
                         const char *name, struct err *e)
{
    char relative[RELATIVE_MAX];
    struct err mine;

    if (!w->tree || !(v->mask & IN_ISDIR) || !(v->mask & (IN_CREATE | IN_MOVE)))
        return 0;
    if (snprintf(relative, sizeof relative, "%s%s%s", dir, dir[0] ? "/" : "", name) >= RELATIVE_MAX)
        return write_watch_event(w, IN_Q_OVERFLOW, 0, "", "", e);
    if (v->mask & IN_MOVED_FROM)
        forget_tree(w, relative);
    else if (add_watched_tree(w, relative, true, &mine) < 0) /* events are lost from here on */
        return write_watch_event(w, IN_Q_OVERFLOW, 0, "", "", e);
    return 0;
}

/* Handles the event of a name in a directory; events of temporaries are hidden. A completed write is
 * reported as if the file had been written in place; inotify reports its close. */
static int handle_named_event(struct tree_watch *w, const struct inotify_event *v, const char *dir,
                              const char *name, struct err *e)
{
    enum temporary kind = write_temporary(name);
    const struct watch_arrival *a = NULL;
    int r = 0;

    for (size_t i = 0; v->cookie && (v->mask & IN_MOVED_TO) && !a && i < ARRIVALS; i++)
        a = w->arrivals[i].cookie == v->cookie ? &w->arrivals[i] : NULL;

    if (kind) {
        if (v->mask & IN_MOVED_FROM)
            w->arrivals[w->arrived++ % ARRIVALS] =
                (struct watch_arrival){ v->cookie, kind == TEMPORARY_OF_NEW };
        return 0;
    }
    if (a && a->is_new) /* made, given its owner and mode, and written */
        r = write_watch_event(w, IN_CREATE, 0, dir, name, e);
    if (a && a->is_new && r >= 0)
        r = write_watch_event(w, IN_ATTRIB, 0, dir, name, e);
    if (a)
        return r < 0 ? r : write_watch_event(w, IN_MODIFY, 0, dir, name, e);
    r = write_watch_event(w, v->mask, v->cookie, dir, name, e);
    return r < 0 ? r : follow_subdir(w, v, dir, name, e);
}

static int handle_inotify_event(struct tree_watch *w, const struct inotify_event *v, struct err *e)
{
    struct watched_dir *d = find_watched_dir(w, v->wd);
    char dir[RELATIVE_MAX], name[NAME_MAX + 1];

    if (!d)
        return v->mask & IN_Q_OVERFLOW ? write_watch_event(w, v->mask, 0, "", "", e) : 0;
    snprintf(dir, sizeof dir, "%s", d->path);
    snprintf(name, sizeof name, "%s", v->len ? v->name : "");
    if (dir[0] && !name[0]) { /* reported by its parent directory */
        if (v->mask & IN_IGNORED)
            forget_dir(w, d);
        return 0;
    }
    return handle_named_event(w, v, dir, name, e);
}

static int read_inotify_events(struct tree_watch *w, struct err *e)
{
    static char batch[BATCH] __attribute__((aligned(8)));
    ssize_t n = read(w->fd, batch, sizeof batch);
    int r = 0;

    for (ssize_t at = 0; at < n && r >= 0;) {
        const struct inotify_event *v = (const void *)(batch + at);

        at += (ssize_t)(sizeof *v + v->len);
        r = handle_inotify_event(w, v, e);
    }
    return r < 0 ? r : files_flush(e);
}

static int begin_watch(struct tree_watch *w, struct err *e)
{
    void *room = mmap(NULL, DIRS_MAX * sizeof *w->dirs, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int r;

    if (w->fd < 0 || room == MAP_FAILED)
        return err_sys(e, "watching %s", w->root);
    w->dirs = room;
    r = w->tree ? add_watched_tree(w, "", false, e) : add_dir(w, "", e);
    /* An empty record reports that the watch is active. */
    if (r >= 0)
        r = files_write_output(&(struct control_event){ 0 }, sizeof(struct control_event), e);
    return r < 0 ? r : files_flush(e);
}

int watch_run(uint32_t mode, char *const *paths, struct err *e)
{
    AUTO_CLOSE int fd = inotify_init1(IN_CLOEXEC);
    struct tree_watch w = { .fd = fd,
                            .root = paths[0],
                            .tree = mode & START_WATCH_TREE,
                            .entries = mode & START_WATCH_ENTRIES };
    struct pollfd waits[] = { { .fd = fd, .events = POLLIN }, { .fd = STDOUT_FILENO } };
    int r = begin_watch(&w, e);

    while (r >= 0) {
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            return err_sys(e, "watching %s", paths[0]);
        if (waits[1].revents)
            return 0; /* the reader has closed */
        r = read_inotify_events(&w, e);
    }
    return r;
}
