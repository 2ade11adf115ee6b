/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "engine/sync/host.h"
#include "engine/sync/manifest.h"
#include "engine/sync/sync.h"
#include "lib/tar/sink.h"
#include "lib/tar/at.h"
#include "lib/tar/tar.h"
#include "lib/tar/walk.h"

struct sync_sender {
    const struct sync_job_options *o;
    struct sync_report *report;
    struct sync_manifest manifest;
    struct walk walk;
    size_t path_n;
    struct tar_entry entry; /* its path is that of the current name */
    struct tar_sink out;
};

static void note_name(struct sync_sender *s, enum sync_action action, const char *reason)
{
    s->report->count[action]++;
    if (s->o->line)
        s->o->line(s->o->ctx, &(struct sync_line){ action, { s->entry.path, s->path_n }, reason });
}

/* Ignores files that vanished since their names were read. */
static int note_errno(struct sync_sender *s)
{
    if (errno == EXDEV)
        note_name(s, SYNC_SKIPPED, "another file system");
    else if (errno != ENOENT)
        note_name(s, SYNC_FAILED, strerror(errno));
    return 0;
}

static int append_sync_path_name(struct sync_sender *s, const char *name, struct err *e)
{
    const struct sync_limits *l = &s->manifest.limits;
    size_t n = strlen(name);

    /* One more byte is kept free for the slash behind a directory. */
    if (s->path_n + 1 + n > l->path || s->path_n + 1 + n + 2 > sizeof s->entry.path)
        return err_set(e, ERR_TOO_BIG, "a path is longer than %u bytes", l->path);
    if (s->walk.depth > l->depth)
        return err_set(e, ERR_TOO_BIG, "directories are nested deeper than %u levels", l->depth);
    if (s->path_n > 0)
        s->entry.path[s->path_n++] = '/';
    memcpy(s->entry.path + s->path_n, name, n + 1);
    s->path_n += n;
    return 0;
}

static void cut_path(struct sync_sender *s, size_t path_n)
{
    s->path_n = path_n;
    s->entry.path[path_n] = '\0';
}

/* Writes the header of the current entry, whose path and link are set. */
static int write_sync_header(struct sync_sender *s, enum tar_type type, const struct stat *st,
                             struct err *e)
{
    char head[TAR_HEAD_MAX];

    s->entry.type = type;
    s->entry.mode = st->st_mode & 0777;
    s->entry.size = type == TAR_FILE ? (uint64_t)st->st_size : 0;
    s->entry.mtime = st->st_mtim;
    s->report->entries++;
    return tar_sink_write(&s->out, (struct str){ head, tar_encode(&s->entry, head) }, e);
}

static int record_name(struct sync_sender *s, const struct sync_value *v,
                       struct sync_identity identity, struct err *e)
{
    struct sync_entry *x;
    int r = sync_manifest_add(&s->manifest, (struct str){ s->entry.path, s->path_n }, &x, e);

    if (r < 0)
        return r;
    x->recorded = true;
    x->value = *v;
    x->identity = identity;
    return 0;
}

/* Writes exactly as many bytes as announced. If the file became shorter, zeros are sent and hashed:
 * the manifest describes the data that the sandbox received. */
static int write_sync_content(struct sync_sender *s, int fd, uint64_t size, struct sip *h,
                              struct err *e)
{
    char chunk[TREE_CHUNK];
    uint64_t left = size;
    bool ended = false;

    while (left > 0) {
        size_t want = left < sizeof chunk ? (size_t)left : sizeof chunk;
        ssize_t got = ended ? 0 : read(fd, chunk, want);
        int r;

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            note_errno(s);
        if (got <= 0) {
            ended = true;
            memset(chunk, 0, want);
            got = (ssize_t)want;
        }
        sip_add(h, (struct str){ chunk, (size_t)got });
        r = tar_sink_write(&s->out, (struct str){ chunk, (size_t)got }, e);
        if (r < 0)
            return r;
        left -= (size_t)got;
        if (s->o->moved)
            s->o->moved(s->o->ctx, s->report->bytes - left);
    }
    return tar_sink_zeros(&s->out, tar_padding(size), e);
}

/* The identity of a file that was just read, or none if it changed meanwhile. */
static struct sync_identity stable_identity(struct sync_sender *s, int fd, const struct stat *a,
                                            int64_t now_ns)
{
    struct stat b;

    if (s->o->pause)
        s->o->pause(s->o->ctx, s->entry.path);
    if (fstat(fd, &b) == 0 && a->st_size == b.st_size && a->st_mtim.tv_sec == b.st_mtim.tv_sec &&
        a->st_mtim.tv_nsec == b.st_mtim.tv_nsec && a->st_ctim.tv_sec == b.st_ctim.tv_sec &&
        a->st_ctim.tv_nsec == b.st_ctim.tv_nsec)
        return sync_identity_of(a, now_ns);
    note_name(s, SYNC_UNSTABLE, "the file changed while it was read");
    return (struct sync_identity){ 0 };
}

static int send_regular_file(struct sync_sender *s, int dir, const char *name, struct err *e)
{
    int64_t now = clock_wall();
    AUTO_CLOSE int fd = host_open(dir, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0);
    struct sync_value v = { .kind = KIND_FILE };
    struct sip h;
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return note_errno(s);
    if (!S_ISREG(st.st_mode)) {
        note_name(s, SYNC_UNSTABLE, "the file was replaced by another kind of file");
        return 0;
    }
    sip_init(&h, &s->manifest.key);
    if ((uint64_t)st.st_size > s->manifest.limits.bytes - s->report->bytes)
        return err_set(e, ERR_TOO_BIG, "the files have more than %llu bytes together",
                       (unsigned long long)s->manifest.limits.bytes);
    s->report->bytes += (uint64_t)st.st_size;
    r = write_sync_header(s, TAR_FILE, &st, e);
    if (r >= 0)
        r = write_sync_content(s, fd, (uint64_t)st.st_size, &h, e);
    if (r < 0)
        return r;
    v.mode = st.st_mode & 0777;
    v.hash = sip_end(&h);
    return record_name(s, &v, stable_identity(s, fd, &st, now), e);
}

static int send_link(struct sync_sender *s, int dir, const char *name, const struct stat *st,
                     struct err *e)
{
    struct sync_value v = { .kind = KIND_LINK };
    ssize_t n = host_target(dir, name, s->entry.link);
    int r;

    if (n < 0) {
        s->entry.link[0] = '\0';
        return note_errno(s);
    }
    v.hash = sip_str(&s->manifest.key, (struct str){ s->entry.link, (size_t)n });
    r = write_sync_header(s, TAR_SYMLINK, st, e);
    s->entry.link[0] = '\0';
    return r < 0 ? r : record_name(s, &v, (struct sync_identity){ 0 }, e);
}

/* Sends the entry of a directory; the walk sends its contents later. */
static int send_dir(struct sync_sender *s, int dir, const char *name, struct err *e)
{
    AUTO_CLOSE int fd = host_open(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    struct sync_value v = { .kind = KIND_DIR };
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return note_errno(s);
    v.mode = st.st_mode & 0777;
    r = record_name(s, &v, (struct sync_identity){ 0 }, e);
    if (r < 0)
        return r;
    memcpy(s->entry.path + s->path_n, "/", 2);
    r = write_sync_header(s, TAR_DIR, &st, e);
    s->entry.path[s->path_n] = '\0';
    return r < 0 ? r : walk_enter(&s->walk, take_fd(&fd), "", e);
}

static int send_kind(struct sync_sender *s, int dir, const char *name, struct err *e)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return note_errno(s);
    switch (host_kind(&st)) {
    case KIND_FILE:
        return send_regular_file(s, dir, name, e);
    case KIND_DIR:
        return send_dir(s, dir, name, e);
    case KIND_LINK:
        return send_link(s, dir, name, &st, e);
    default:
        note_name(s, SYNC_SKIPPED, "neither a file, a directory nor a symbolic link");
        return 0;
    }
}

static int send_name(struct sync_sender *s, const char *name, struct err *e)
{
    int dir = walk_top(&s->walk)->fd, r;
    unsigned depth = s->walk.depth;
    size_t path_n = s->path_n;

    if (host_is_temp(name)) { /* a leftover of a run that was killed */
        (void)at_clear(dir, name);
        return 0;
    }
    r = append_sync_path_name(s, name, e);
    if (r >= 0)
        r = send_kind(s, dir, name, e);
    if (r >= 0 && s->walk.depth == depth) /* else its contents follow */
        cut_path(s, path_n);
    return r;
}

static int send_tree(struct sync_sender *s, struct err *e)
{
    char shown[TREE_SHOWN_MAX];
    int r = 0;

    while (r >= 0 && s->walk.depth > 0) {
        const char *name, *slash;

        r = walk_next(&s->walk, &name, e);
        if (r > 0) {
            r = send_name(s, name, e);
        } else if (r == 0) {
            walk_leave(&s->walk);
            slash = strrchr(s->entry.path, '/');
            cut_path(s, slash ? (size_t)(slash - s->entry.path) : 0);
        }
    }
    tree_path_show(str_from(s->entry.path), shown);
    return err_wrap(e, r, "sending '%s'", shown);
}

int sync_send(int dir, int tar_out, int manifest_out, const struct sync_job_options *o,
              struct sync_report *ret, struct err *e)
{
    AUTO_CLOSE int lock = -1;
    struct sync_sender s; /* not zeroed: most of it is buffers */
    int r, top;

    *ret = (struct sync_report){ 0 };
    r = host_lock(dir, &lock, e);
    if (r < 0)
        return r;
    top = host_open(lock, ".", O_RDONLY | O_DIRECTORY, 0);
    if (top < 0)
        return err_sys(e, "opening the directory");
    s.o = o;
    s.report = ret;
    s.path_n = 0;
    s.entry = (struct tar_entry){ 0 };
    s.manifest = (struct sync_manifest){ 0 };
    walk_init(&s.walk);
    tar_sink_init(&s.out, tar_out);
    r = walk_enter(&s.walk, top, "", e);
    if (r >= 0)
        r = sync_manifest_init(&s.manifest, &o->limits, e);
    if (r >= 0)
        r = send_tree(&s, e);
    if (r >= 0)
        r = tar_sink_zeros(&s.out, (uint64_t)(2 * TAR_BLOCK), e);
    if (r >= 0)
        r = tar_sink_flush(&s.out, e);
    if (r >= 0 && manifest_out >= 0) {
        r = sync_manifest_save(&s.manifest, manifest_out, e);
        ret->manifest = r >= 0;
    }
    walk_done(&s.walk);
    sync_manifest_done(&s.manifest);
    return r;
}
