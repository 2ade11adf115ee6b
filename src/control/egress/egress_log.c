/* SPDX-License-Identifier: Apache-2.0 */
/* The audit files of egress links. ID.jsonl is being written; rotated parts are ID.parts/NUMBER, in
 * the order of their numbers. ID.jsonl.1 was rotated by an earlier version. Only expiry removes
 * parts (egress_log_expiry.c), the oldest first. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/egress_link_internal.h"
#include "control/plane/plane.h"
#include "engine/egress/limits.h"

enum { LOG_NAME_MAX = ID_MAX + 24, PART_DIGITS = 9, PART_LAST = 999999999 };

static void write_log_name(const char *box, uint32_t part, char ret[static LOG_NAME_MAX])
{
    if (part == EGRESS_LINK_PART_NOW)
        snprintf(ret, LOG_NAME_MAX, "%s.jsonl", box);
    else if (part == EGRESS_LINK_PART_EARLIER)
        snprintf(ret, LOG_NAME_MAX, "%s.jsonl.1", box);
    else
        snprintf(ret, LOG_NAME_MAX, "%s.parts/%0*u", box, PART_DIGITS, part);
}

static void write_sent_name(const char *box, char ret[static LOG_NAME_MAX])
{
    snprintf(ret, LOG_NAME_MAX, "%s.jsonl.sent", box);
}

static void write_parts_name(const char *box, char ret[static LOG_NAME_MAX])
{
    snprintf(ret, LOG_NAME_MAX, "%s.parts", box);
}

/* --- parts --- */

static int compare_parts(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static bool stat_log(const struct control *c, const char *name, struct stat *ret)
{
    return fstatat(c->egress_links->dir, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool stat_part(const struct control *c, const char *box, uint32_t part, struct stat *ret)
{
    char name[LOG_NAME_MAX];

    write_log_name(box, part, name);
    return stat_log(c, name, ret);
}

DIR *egress_link_open_dir(const struct control *c, const char *name)
{
    int fd = openat(c->egress_links->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d)
        drop_fd(&fd);
    return d;
}

void egress_link_list_parts(const struct control *c, const char *box, struct egress_link_parts *ret)
{
    AUTO(close_dirp_) DIR *d = NULL;
    char name[LOG_NAME_MAX];
    struct stat st;

    ret->n = 0;
    if (stat_part(c, box, EGRESS_LINK_PART_EARLIER, &st))
        ret->parts[ret->n++] = EGRESS_LINK_PART_EARLIER;
    write_parts_name(box, name);
    d = egress_link_open_dir(c, name);
    for (struct dirent *v; d && (v = readdir(d)) && ret->n < EGRESS_LINK_PARTS_MAX;) {
        uint64_t number;

        if (str_to_u64(str_from(v->d_name), &number) && number > 0 && number <= PART_LAST)
            ret->parts[ret->n++] = (uint32_t)number;
    }
    qsort(ret->parts, ret->n, sizeof ret->parts[0], compare_parts);
    if (stat_part(c, box, EGRESS_LINK_PART_NOW, &st))
        ret->parts[ret->n++] = EGRESS_LINK_PART_NOW;
}

/* The part that was rotated last; false: none. */
static bool find_newest_aside(const struct control *c, const char *box, uint32_t *ret)
{
    struct egress_link_parts all;

    egress_link_list_parts(c, box, &all);
    if (all.n && all.parts[all.n - 1] == EGRESS_LINK_PART_NOW)
        all.n--;
    if (all.n)
        *ret = all.parts[all.n - 1];
    return all.n > 0;
}

/* --- appending --- */

/* The lock belongs to the open file description, which the worker shares: it is held until the last
 * descriptor is closed. */
static int lock_log(int fd, const char *box, struct err *e)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return err_set(e, ERR_BUSY, "another egress worker still has the log of %s", box);
    return err_sys(e, "locking the egress log of %s", box);
}

/* Removes an incomplete last line; terminates one that is too long to be removed. */
static int repair_tail(int fd, const char *box, int64_t end, int64_t size, struct err *e)
{
    if (size <= end)
        return 0;
    LOG(WARN, "egress.audit_repaired", LOG_S("sandbox", box), LOG_I("bytes", size - end));
    if (size - end < EGRESS_AUDIT_LINE_MAX)
        return ftruncate(fd, end) < 0 ? err_sys(e, "repairing the egress log of %s", box) : 0;
    return write(fd, "\n", 1) != 1 ? err_sys(e, "repairing the egress log of %s", box) : 0;
}

/* If nothing was written since the rotation, the previous part has the last line; a worker may
 * still hold that part. */
static int read_log_tail(const struct control *c, const char *box, int fd, struct chain_place *ret,
                         struct err *e)
{
    AUTO_CLOSE int now = -1;
    AUTO_CLOSE int before = -1;
    struct chain_place at = { 0 };
    struct stat st;
    int64_t end = 0;
    uint32_t part;
    int r = egress_link_open_part(c, box, EGRESS_LINK_PART_NOW, &now, e);

    if (r >= 0 && (fstat(now, &st) < 0 || !chain_tail(now, &at, &end)))
        r = err_sys(e, "reading the egress log of %s", box);
    r = r < 0 ? r : repair_tail(fd, box, end, st.st_size, e);
    if (r >= 0 && find_newest_aside(c, box, &part) &&
        egress_link_open_part(c, box, part, &before, NULL) >= 0) {
        r = lock_log(before, box, e);
        if (r >= 0 && end == 0 && !chain_tail(before, &at, &end))
            r = err_sys(e, "reading the egress log of %s", box);
    }
    if (r >= 0)
        *ret = at;
    return r;
}

int egress_link_open_part(const struct control *c, const char *box, uint32_t part, int *ret,
                          struct err *e)
{
    char name[LOG_NAME_MAX];

    write_log_name(box, part, name);
    *ret = openat(c->egress_links->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret < 0 && errno == ENOENT)
        return err_set(e, ERR_NOT_FOUND, "%s has no egress log", box);
    return *ret < 0 ? err_sys(e, "opening the egress log of %s", box) : 0;
}

static int open_locked_part(const struct control *c, const char *box, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char name[LOG_NAME_MAX];
    int r;

    write_log_name(box, EGRESS_LINK_PART_NOW, name);
    fd = openat(c->egress_links->dir, name, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                0600);
    r = fd < 0 ? err_sys(e, "opening the egress log %s", name) : lock_log(fd, box, e);
    if (r >= 0)
        *ret = take_fd(&fd);
    return r;
}

int egress_link_log_append(const struct control *c, const char *box, int *ret,
                           struct chain_place *ret_at, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    int r = open_locked_part(c, box, &fd, e);

    r = r < 0 ? r : read_log_tail(c, box, fd, ret_at, e);
    if (r >= 0)
        *ret = take_fd(&fd);
    return r;
}

/* The number of the next part; -ERR_QUOTA: too many parts. */
static int find_next_number(const struct control *c, const char *box, uint32_t *ret, struct err *e)
{
    struct egress_link_parts all;
    char name[LOG_NAME_MAX];
    uint32_t last = 0;

    egress_link_list_parts(c, box, &all);
    for (size_t i = 0; i < all.n; i++)
        if (all.parts[i] != EGRESS_LINK_PART_NOW)
            last = all.parts[i];
    if (all.n + 1 >= EGRESS_LINK_PARTS_MAX || last == PART_LAST)
        return err_set(e, ERR_QUOTA, "the egress log of %s has %zu parts, the maximum", box, all.n);
    write_parts_name(box, name);
    if (mkdirat(c->egress_links->dir, name, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "creating the directory %s", name);
    *ret = last + 1;
    return 0;
}

/* A crash after the rename leaves a log without a current part: the next start creates it. */
int egress_link_log_rotate(const struct control *c, const char *box, int *ret, struct err *e)
{
    char now[LOG_NAME_MAX], aside[LOG_NAME_MAX];
    uint32_t number;
    int r = find_next_number(c, box, &number, e);

    if (r < 0)
        return r;
    write_log_name(box, EGRESS_LINK_PART_NOW, now);
    write_log_name(box, number, aside);
    if (renameat(c->egress_links->dir, now, c->egress_links->dir, aside) < 0)
        return err_sys(e, "rotating %s", now);
    return open_locked_part(c, box, ret, e);
}

bool egress_link_log_moved(struct egress_link *o)
{
    struct stat st;

    if (!stat_part(o->control, o->box->id, EGRESS_LINK_PART_NOW, &st) ||
        (o->log.file == st.st_ino && o->log.size == st.st_size))
        return false;
    o->log.file = st.st_ino;
    o->log.size = st.st_size;
    return true;
}

void egress_link_log_date(const struct control *c, const char *box)
{
    char name[LOG_NAME_MAX];

    write_log_name(box, EGRESS_LINK_PART_NOW, name);
    (void)utimensat(c->egress_links->dir, name, NULL, AT_SYMLINK_NOFOLLOW);
}

uint64_t egress_link_part_bytes(const struct control *c, const char *box, uint32_t part)
{
    struct stat st;

    return stat_part(c, box, part, &st) ? (uint64_t)st.st_size : 0;
}

int64_t egress_link_part_time(const struct control *c, const char *box, uint32_t part)
{
    struct stat st;

    return stat_part(c, box, part, &st) ? st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec : -1;
}

uint64_t egress_link_log_bytes(const struct control *c, const char *box)
{
    struct egress_link_parts all;
    uint64_t sum = 0;

    egress_link_list_parts(c, box, &all);
    for (size_t i = 0; i < all.n; i++)
        sum += egress_link_part_bytes(c, box, all.parts[i]);
    return sum;
}

bool egress_link_remove_part(const struct control *c, const char *box, uint32_t part)
{
    char name[LOG_NAME_MAX];

    write_log_name(box, part, name);
    return unlinkat(c->egress_links->dir, name, 0) == 0;
}

void egress_link_remove_logs(struct control *c, const char *box)
{
    struct egress_link_parts all;
    char name[LOG_NAME_MAX];

    egress_link_list_parts(c, box, &all);
    for (size_t i = 0; i < all.n; i++) /* the oldest first: the rest stays a valid log */
        (void)egress_link_remove_part(c, box, all.parts[i]);
    write_parts_name(box, name);
    (void)unlinkat(c->egress_links->dir, name, AT_REMOVEDIR);
    write_sent_name(box, name);
    (void)unlinkat(c->egress_links->dir, name, 0);
    egress_link_room_recount(c, box);
}

/* --- the position that the hub has accepted --- */

bool egress_link_log_sent(const struct control *c, const char *box, struct egress_tail_place *ret)
{
    AUTO_CLOSE int fd = -1;
    char path[LOG_NAME_MAX], text[64];
    struct str file, at;
    uint64_t name, offset;
    ssize_t n;

    write_sent_name(box, path);
    fd = openat(c->egress_links->dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (n = read(fd, text, sizeof text)) <= 0)
        return false;
    at = str_cut((struct str){ text, (size_t)n }, ' ', &file);
    str_cut(at, '\n', &at);
    if (!str_to_u64(file, &name) || !str_to_u64(at, &offset) || name > INT64_MAX ||
        offset > INT64_MAX)
        return false;
    *ret = (struct egress_tail_place){ (int64_t)name, (int64_t)offset };
    return true;
}

/* Not written atomically: if it is torn, denials are delivered again. */
void egress_link_log_note_sent(const struct control *c, const char *box,
                               const struct egress_tail_place *at)
{
    char name[LOG_NAME_MAX];
    int fd;

    write_sent_name(box, name);
    fd = openat(c->egress_links->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                0600);
    if (fd < 0 || dprintf(fd, "%lld %lld\n", (long long)at->file, (long long)at->at) < 0)
        LOG(WARN, "hub.failed", LOG_S("lane", box), LOG_I("errno", errno));
    drop_fd(&fd);
}

/* The log was written to after the hub's position was noted. */
static bool is_unsent(const struct control *c, const char *box)
{
    char name[LOG_NAME_MAX];
    struct stat log, sent;

    write_sent_name(box, name);
    return stat_part(c, box, EGRESS_LINK_PART_NOW, &log) &&
           (!stat_log(c, name, &sent) || log.st_mtim.tv_sec >= sent.st_mtim.tv_sec);
}

bool egress_link_log_box(const char *file, char ret[static ID_MAX])
{
    struct str id;

    str_cut(str_from(file), '.', &id);
    return id_valid("sbx_", id) && str_copy(id, ret, ID_MAX);
}

void egress_links_each_unsent(const struct control *c, void (*fn)(void *user, const char *box),
                              void *user)
{
    AUTO(close_dirp_) DIR *d = egress_link_open_dir(c, ".");
    char box[ID_MAX];

    for (struct dirent *v; d && (v = readdir(d));)
        if (str_ends(str_from(v->d_name), STR(".jsonl")) && egress_link_log_box(v->d_name, box) &&
            is_unsent(c, box))
            fn(user, box);
}
