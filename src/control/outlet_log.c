/* The audit files of outlets: one a box, and one before it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/outlet_inside.h"
#include "control/plane.h"
#include "egress/limits.h"

static void log_name(const char *box, enum outlet_log which, char ret[static ID_MAX + 16])
{
    static const char *const ends[] = {
        [OUTLET_LOG_NOW] = "", [OUTLET_LOG_BEFORE] = ".1", [OUTLET_LOG_SENT] = ".sent"
    };

    snprintf(ret, ID_MAX + 16, "%s.jsonl%s", box, ends[which]);
}

static int open_now(const struct control *c, const char *box, int *ret, struct err *e)
{
    char name[ID_MAX + 16];

    log_name(box, OUTLET_LOG_NOW, name);
    *ret =
        openat(c->outlets.dir, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *ret < 0 ? err_sys(e, "opening the egress log %s", name) : 0;
}

/* The lock is the open file's, which the worker has then: it is held until the last of its
 * descriptors is closed, by whoever dies last. */
static int lock_log(int fd, const char *box, struct err *e)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return err_set(e, ERR_BUSY, "another egress worker still has the log of %s", box);
    return err_sys(e, "locking the egress log of %s", box);
}

/* A line that was not written to its end is removed; one that cannot be is ended. */
static int repair_tail(int fd, const char *box, int64_t end, int64_t size, struct err *e)
{
    if (size <= end)
        return 0;
    LOG(WARN, "egress.audit_repaired", LOG_S("sandbox", box), LOG_I("bytes", size - end));
    if (size - end < EGRESS_AUDIT_LINE_MAX)
        return ftruncate(fd, end) < 0 ? err_sys(e, "repairing the egress log of %s", box) : 0;
    return write(fd, "\n", 1) != 1 ? err_sys(e, "repairing the egress log of %s", box) : 0;
}

/* The file before has the last line if nothing was written since it was put aside; its worker may
 * have it, too. */
static int read_tail(const struct control *c, const char *box, int fd, struct chain_place *ret,
                     struct err *e)
{
    AUTO_CLOSE int now = -1;
    AUTO_CLOSE int before = -1;
    struct chain_place at = { 0 };
    struct stat st;
    int64_t end = 0;
    int r = outlet_open_log(c, box, OUTLET_LOG_NOW, &now, e);

    if (r >= 0 && (fstat(now, &st) < 0 || !chain_tail(now, &at, &end)))
        r = err_sys(e, "reading the egress log of %s", box);
    if (r >= 0)
        r = repair_tail(fd, box, end, st.st_size, e);
    if (r >= 0 && outlet_open_log(c, box, OUTLET_LOG_BEFORE, &before, NULL) >= 0) {
        r = lock_log(before, box, e);
        if (r >= 0 && end == 0 && !chain_tail(before, &at, &end))
            r = err_sys(e, "reading the egress log of %s", box);
    }
    if (r >= 0)
        *ret = at;
    return r;
}

int outlet_log_append(const struct control *c, const char *box, int *ret,
                      struct chain_place *ret_at, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    int r = open_now(c, box, &fd, e);

    if (r >= 0)
        r = lock_log(fd, box, e);
    if (r >= 0)
        r = read_tail(c, box, fd, ret_at, e);
    if (r >= 0)
        *ret = take_fd(&fd);
    return r;
}

bool outlet_log_next_cut(const struct control *c, const char *box, struct chain_place *ret)
{
    AUTO_CLOSE int now = -1;

    return outlet_open_log(c, box, OUTLET_LOG_NOW, &now, NULL) >= 0 && chain_head(now, ret) &&
           ret->seq > 0;
}

int outlet_open_log(const struct control *c, const char *box, enum outlet_log which, int *ret,
                    struct err *e)
{
    char name[ID_MAX + 16];

    log_name(box, which, name);
    *ret = openat(c->outlets.dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "%s has no egress log", box);
    return *ret < 0 ? err_sys(e, "opening the egress log of %s", box) : 0;
}

static int open_new(const struct control *c, const char *box, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    int r = open_now(c, box, &fd, e);

    if (r >= 0)
        r = lock_log(fd, box, e);
    if (r >= 0)
        *ret = take_fd(&fd);
    return r;
}

int outlet_log_rotate(const struct control *c, const char *box, int *ret, struct err *e)
{
    char now[ID_MAX + 16], before[ID_MAX + 16];

    log_name(box, OUTLET_LOG_NOW, now);
    log_name(box, OUTLET_LOG_BEFORE, before);
    if (renameat(c->outlets.dir, now, c->outlets.dir, before) < 0)
        return err_sys(e, "putting %s aside", now);
    return open_new(c, box, ret, e);
}

bool outlet_log_moved(struct outlet *o)
{
    char name[ID_MAX + 16];
    struct stat st;

    log_name(o->box->id, OUTLET_LOG_NOW, name);
    if (fstatat(o->control->outlets.dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (o->log.file == st.st_ino && o->log.size == st.st_size))
        return false;
    o->log.file = st.st_ino;
    o->log.size = st.st_size;
    return true;
}

void outlet_log_date(const struct control *c, const char *box)
{
    char name[ID_MAX + 16];

    log_name(box, OUTLET_LOG_NOW, name);
    (void)utimensat(c->outlets.dir, name, NULL, AT_SYMLINK_NOFOLLOW);
}

uint64_t outlet_part_bytes(const struct control *c, const char *box, enum outlet_log which)
{
    char name[ID_MAX + 16];
    struct stat st;

    log_name(box, which, name);
    return fstatat(c->outlets.dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : (uint64_t)st.st_size;
}

uint64_t outlet_log_bytes(const struct control *c, const char *box)
{
    return outlet_part_bytes(c, box, OUTLET_LOG_NOW) + outlet_part_bytes(c, box, OUTLET_LOG_BEFORE);
}

bool outlet_remove_part(const struct control *c, const char *box, enum outlet_log which)
{
    char name[ID_MAX + 16];

    log_name(box, which, name);
    return unlinkat(c->outlets.dir, name, 0) == 0;
}

void outlet_remove_logs(struct control *c, const char *box)
{
    for (unsigned which = OUTLET_LOG_NOW; which <= OUTLET_LOG_SENT; which++)
        (void)outlet_remove_part(c, box, (enum outlet_log)which);
    outlet_room_recount(c, box);
}

bool outlet_log_sent(const struct control *c, const char *box, struct feed_place *ret)
{
    AUTO_CLOSE int fd = -1;
    char text[64];
    struct str file, at;
    uint64_t name, offset;
    ssize_t n;

    if (outlet_open_log(c, box, OUTLET_LOG_SENT, &fd, NULL) < 0 ||
        (n = read(fd, text, sizeof text)) <= 0)
        return false;
    at = str_cut((struct str){ text, (size_t)n }, ' ', &file);
    str_cut(at, '\n', &at);
    if (!str_to_u64(file, &name) || !str_to_u64(at, &offset) || name > INT64_MAX ||
        offset > INT64_MAX)
        return false;
    *ret = (struct feed_place){ (int64_t)name, (int64_t)offset };
    return true;
}

/* Whole or not there: if it is torn, denials come again. */
void outlet_log_note_sent(const struct control *c, const char *box, const struct feed_place *at)
{
    char name[ID_MAX + 16];
    int fd;

    log_name(box, OUTLET_LOG_SENT, name);
    fd = openat(c->outlets.dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "%lld %lld\n", (long long)at->file, (long long)at->at) < 0)
        LOG(WARN, "hub.failed", LOG_S("lane", box), LOG_I("errno", errno));
    drop_fd(&fd);
}

/* Something was written since the hub's part of it was noted. */
static bool is_unsent(const struct control *c, const char *box)
{
    char name[ID_MAX + 16];
    struct stat log, sent;

    log_name(box, OUTLET_LOG_NOW, name);
    if (fstatat(c->outlets.dir, name, &log, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    log_name(box, OUTLET_LOG_SENT, name);
    return fstatat(c->outlets.dir, name, &sent, AT_SYMLINK_NOFOLLOW) < 0 ||
           log.st_mtim.tv_sec >= sent.st_mtim.tv_sec;
}

bool outlet_log_box(const char *file, char ret[static ID_MAX])
{
    struct str id;

    str_cut(str_from(file), '.', &id);
    return id_valid("sbx_", id) && str_copy(id, ret, ID_MAX);
}

void outlets_each_unsent(const struct control *c, void (*fn)(void *user, const char *box),
                         void *user)
{
    int fd = openat(c->outlets.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char box[ID_MAX];

    for (struct dirent *v; d && (v = readdir(d));)
        if (str_ends(str_from(v->d_name), STR(".jsonl")) && outlet_log_box(v->d_name, box) &&
            is_unsent(c, box))
            fn(user, box);
    if (d)
        closedir(d);
    else
        drop_fd(&fd);
}

/* The older file of a box goes with the newer one: alone, its lines would seem to be missing. */
static void prune_log(struct control *c, const char *file, int64_t before_ns)
{
    char box[ID_MAX], now[ID_MAX + 16];
    struct stat st;

    if (!outlet_log_box(file, box) || control_knows(c, box))
        return;
    log_name(box, OUTLET_LOG_NOW, now);
    if ((fstatat(c->outlets.dir, now, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
         fstatat(c->outlets.dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0) &&
        st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec < before_ns)
        (void)unlinkat(c->outlets.dir, file, 0);
    outlet_room_recount(c, box);
}

void outlets_prune_logs(struct control *c, int64_t before_ns)
{
    int fd = openat(c->outlets.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *v; d && (v = readdir(d));)
        prune_log(c, v->d_name, before_ns);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
}
