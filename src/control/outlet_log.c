/* The audit files of outlets: one a box, and one before it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/outlet_inside.h"
#include "control/plane.h"

static void log_name(const char *box, enum outlet_log which, char ret[static ID_MAX + 16])
{
    static const char *const ends[] = {
        [OUTLET_LOG_NOW] = "", [OUTLET_LOG_BEFORE] = ".1", [OUTLET_LOG_SENT] = ".sent"
    };

    snprintf(ret, ID_MAX + 16, "%s.jsonl%s", box, ends[which]);
}

int outlet_log_append(const struct control *c, const char *box, int *ret, struct err *e)
{
    char name[ID_MAX + 16];

    log_name(box, OUTLET_LOG_NOW, name);
    *ret =
        openat(c->outlets.dir, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *ret < 0 ? err_sys(e, "opening the egress log %s", name) : 0;
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

int outlet_log_rotate(const struct control *c, const char *box, int *ret, struct err *e)
{
    char now[ID_MAX + 16], before[ID_MAX + 16];

    log_name(box, OUTLET_LOG_NOW, now);
    log_name(box, OUTLET_LOG_BEFORE, before);
    if (renameat(c->outlets.dir, now, c->outlets.dir, before) < 0)
        return err_sys(e, "putting %s aside", now);
    return outlet_log_append(c, box, ret, e);
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

void outlet_remove_logs(struct control *c, const char *box)
{
    char name[ID_MAX + 16];

    for (unsigned which = OUTLET_LOG_NOW; which <= OUTLET_LOG_SENT; which++) {
        log_name(box, (enum outlet_log)which, name);
        (void)unlinkat(c->outlets.dir, name, 0);
    }
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

static bool box_of(const char *file, char ret[static ID_MAX])
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
        if (str_ends(str_from(v->d_name), STR(".jsonl")) && box_of(v->d_name, box) &&
            is_unsent(c, box))
            fn(user, box);
    if (d)
        closedir(d);
    else
        drop_fd(&fd);
}

static void prune_log(struct control *c, const char *file, int64_t before_ns)
{
    char box[ID_MAX];
    struct stat st;

    if (!box_of(file, box) || control_knows(c, box))
        return;
    if (fstatat(c->outlets.dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec < before_ns)
        (void)unlinkat(c->outlets.dir, file, 0);
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
