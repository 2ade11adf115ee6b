/* SPDX-License-Identifier: Apache-2.0 */
/* UPLOAD: writes the files of one request. Each is written to a temporary beside its target; when
 * all are complete they are renamed. Until then everything can be undone: the first failure removes
 * the temporaries and the directories that were made. Runs in a child of PID 1 with the target
 * user's rights, like every file operation; its memory is bounded. */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/ipc/upload.h"
#include "lib/proc/sys.h"

enum { UPLOAD_INPUT = 64 << 10, UPLOAD_MADE_MAX = 32768, UPLOAD_NAME_MAX = 256 };
_Static_assert((int)UPLOAD_RECORD_MAX <= (int)UPLOAD_INPUT, "every record goes on");

/* Files of one directory share its descriptor, to limit the number of descriptors. */
struct upload_dir {
    int fd;
    dev_t dev;
    ino_t ino;
    uid_t uid;
    mode_t mode;
};

struct upload_file {
    uint32_t dir;
    char name[UPLOAD_NAME_MAX];
    char temporary[WRITE_TEMPORARY_MAX]; /* empty: it was renamed */
};

/* A directory that was made: a prefix of the path at `at`. */
struct upload_made {
    uint32_t at, n;
};

struct upload_work {
    struct upload_records records;
    uint32_t mode;
    char *const *attributes;
    int fd; /* of the file that is being written; -1: none */
    struct write_place place;
    struct upload_file files[UPLOAD_FILES_MAX];
    struct upload_dir dirs[UPLOAD_FILES_MAX];
    struct upload_made made[UPLOAD_MADE_MAX];
    uint32_t n_files, n_dirs, n_made, n_text;
    char text[UPLOAD_TEXT_MAX + UPLOAD_FILES_MAX]; /* paths, each ended by NUL */
};

/* --- one file --- */

static int make_upload_parents(struct upload_work *w, char *path, struct err *e)
{
    int r = 0;

    for (char *at = path + 1; *at && r >= 0; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0755) < 0) {
            r = errno == EEXIST ? 0 : err_sys(e, "creating %s", path);
        } else if (w->n_made < UPLOAD_MADE_MAX) {
            w->made[w->n_made++] =
                (struct upload_made){ (uint32_t)(path - w->text), (uint32_t)(at - path) };
        } else {
            rmdir(path);
            r = err_set(e, ERR_TOO_BIG, "an upload creates more than %d directories",
                        UPLOAD_MADE_MAX);
        }
        *at = '/';
    }
    return r;
}

/* Takes the descriptor of the target's directory, or an open one of the same directory. */
static int share_dir(struct upload_work *w, uint32_t *ret, struct err *e)
{
    AUTO_CLOSE int fd = take_fd(&w->place.dir);
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "reading the attributes of the directory of %s", w->place.name);
    for (*ret = w->n_dirs; *ret > 0; --*ret) /* the last one is the likely one */
        if (w->dirs[*ret - 1].ino == st.st_ino && w->dirs[*ret - 1].dev == st.st_dev)
            break;
    if (*ret == 0) {
        w->dirs[w->n_dirs++] =
            (struct upload_dir){ take_fd(&fd), st.st_dev, st.st_ino, st.st_uid, st.st_mode };
        *ret = w->n_dirs;
    }
    --*ret;
    w->place.dir = w->dirs[*ret].fd;
    return 0;
}

static int open_upload_file(struct upload_work *w, const char *path, struct err *e)
{
    struct upload_file *f = &w->files[w->n_files];
    int r = write_find_place(path, &w->place, e);

    if (r >= 0)
        r = share_dir(w, &f->dir, e);
    if (r >= 0 && !str_copy(str_from(w->place.name), f->name, sizeof f->name))
        r = err_set(e, ERR_INVALID, "the name of %s is longer than %d bytes", path,
                    UPLOAD_NAME_MAX - 1);
    if (r < 0)
        return r;
    w->place.name = f->name;
    r = write_stat_place(&w->place, e);
    if (r >= 0)
        r = w->fd = write_open_temporary(&w->place, f->temporary, e);
    if (r >= 0)
        w->n_files++;
    return r < 0 ? r : 0;
}

static int begin_upload_file(struct upload_work *w, struct str path, struct err *e)
{
    char *own = w->text + w->n_text;
    int r;

    memcpy(own, path.p, path.n); /* bounded by the records */
    own[path.n] = '\0';
    w->n_text += (uint32_t)path.n + 1;
    r = make_upload_parents(w, own, e);
    return r < 0 ? r : open_upload_file(w, own, e);
}

static int end_upload_file(struct upload_work *w, struct err *e)
{
    int r = 0;

    if (w->fd < 0)
        return 0;
    r = write_set_attributes(w->fd, w->attributes, e); /* the mode may forbid it */
    if (r >= 0)
        r = write_set_mode_and_owner(w->fd, &w->place, w->mode, e);
    if (close(w->fd) < 0 && r >= 0)
        r = err_sys(e, "writing %s", w->place.name);
    w->fd = -1;
    return r;
}

/* --- all of them --- */

static bool is_mounted(int dir, const char *name)
{
    struct statx st = { 0 };

    return syscall(SYS_statx, dir, name, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0 &&
           (st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

/* Checks reasons for which a rename could fail, before the first one. */
static int check_upload_file(const struct upload_work *w, const struct upload_file *f,
                             struct err *e)
{
    const struct upload_dir *d = &w->dirs[f->dir];
    struct write_place p = { .dir = d->fd, .name = f->name };
    uid_t own = geteuid();
    int r = write_stat_place(&p, e);

    if (r < 0 || !p.taken)
        return r;
    errno = EPERM; /* only owners may replace files in a sticky directory */
    if ((d->mode & S_ISVTX) && own != 0 && own != p.st.st_uid && own != d->uid)
        return err_sys(e, "replacing %s", f->name);
    errno = EBUSY;
    return is_mounted(d->fd, f->name) ? err_sys(e, "replacing %s", f->name) : 0;
}

static int place_files(struct upload_work *w, struct err *e)
{
    int r = 0;

    for (uint32_t i = 0; i < w->n_files && r >= 0; i++)
        r = check_upload_file(w, &w->files[i], e);
    for (uint32_t i = 0; i < w->n_files && r >= 0; i++) {
        struct upload_file *f = &w->files[i];
        int dir = w->dirs[f->dir].fd;

        if (renameat(dir, f->temporary, dir, f->name) < 0)
            r = err_sys(e, "renaming %s into place, after %u of %u files", f->name, i, w->n_files);
        else
            f->temporary[0] = '\0';
    }
    return r;
}

static void undo_upload(struct upload_work *w)
{
    for (uint32_t i = 0; i < w->n_files; i++)
        if (w->files[i].temporary[0])
            unlinkat(w->dirs[w->files[i].dir].fd, w->files[i].temporary, 0);
    while (w->n_made) { /* the last one first; directories that are not empty stay */
        const struct upload_made *m = &w->made[--w->n_made];
        char *path = w->text + m->at;

        path[m->n] = '\0'; /* longer prefixes of this path are removed already */
        rmdir(path);
    }
}

/* 1: all files were received and renamed. */
static int take_upload_event(struct upload_work *w, const struct upload_event *v, struct err *e)
{
    int r = 0;

    switch (v->kind) {
    case UPLOAD_FILE_BEGINS:
        r = end_upload_file(w, e);
        return r < 0 ? r : begin_upload_file(w, v->data, e);
    case UPLOAD_FILE_BYTES:
        return files_write_all(w->fd, v->data.p, v->data.n, "the file", e);
    case UPLOAD_ALL_CAME:
        r = end_upload_file(w, e);
        if (r >= 0)
            r = place_files(w, e);
        return r < 0 ? r : 1;
    default:
        return 0;
    }
}

/* Appends input to the unread bytes. */
static int read_upload(char *in, size_t *n, struct err *e)
{
    ssize_t got;

    do
        got = read(STDIN_FILENO, in + *n, UPLOAD_INPUT - *n);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_sys(e, "reading the data of an upload");
    if (got == 0)
        return err_set(e, ERR_INVALID, "the data of an upload ended before its commit record");
    *n += (size_t)got;
    return 0;
}

static int take_upload(struct upload_work *w, struct err *e)
{
    static char in[UPLOAD_INPUT];
    size_t at = 0, n = 0;
    int r = 0;

    while (r == 0) {
        struct upload_event v;
        ssize_t taken = upload_next(&w->records, (struct str){ in + at, n - at }, &v, e);

        if (taken < 0)
            return (int)taken;
        at += (size_t)taken;
        if (taken || v.kind != UPLOAD_MORE) {
            r = take_upload_event(w, &v, e);
            continue;
        }
        memmove(in, in + at, n - at);
        n -= at;
        at = 0;
        r = read_upload(in, &n, e);
    }
    return r;
}

int upload_run(uint32_t mode, char *const *attributes, struct err *e)
{
    struct upload_work *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int r;

    if (w == MAP_FAILED)
        return err_sys(e, "allocating memory for an upload");
    w->fd = -1;
    w->mode = mode;
    w->attributes = attributes;
    w->place.dir = -1;
    (void)exec_raise_files();
    r = take_upload(w, e);
    if (r < 0)
        undo_upload(w);
    return r < 0 ? r : 0; /* the process exits and closes everything */
}
