/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

/* mkdir -p for the parent directories, with the usual mode. */
static int make_state_parents(const char *path, struct err *e)
{
    char part[PATH_MAX];

    if (strlen(path) >= sizeof part)
        return err_set(e, ERR_INVALID, "state: the path has more than %zu bytes", sizeof part - 1);
    snprintf(part, sizeof part, "%s", path);
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return err_sys(e, "making the state directory %s", part);
        *at = '/';
    }
    return 0;
}

/* Root's, and not given away yet: by us, or by one that was killed or is as far as we are. */
static bool must_change_owner(const struct stat *st)
{
    return geteuid() == 0 && st->st_uid == 0 && !(st->st_mode & 022);
}

static int check_state_owner(const char *name, const struct stat *st,
                             const struct identity_choice *who, struct err *e)
{
    if (st->st_uid == who->uid && !(st->st_mode & 022))
        return 0;
    return err_set(e, ERR_DENIED,
                   "%s belongs to uid %u with mode %04o; it must belong to uid %u and be writable "
                   "by it alone",
                   name, (unsigned)st->st_uid, (unsigned)(st->st_mode & 07777), (unsigned)who->uid);
}

static int open_own(int at, const char *name, mode_t mode, const struct identity_choice *who,
                    int *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;
    int r;

    if (mkdirat(at, name, mode) < 0 && errno != EEXIST)
        return err_sys(e, "making %s", name);
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "opening %s", name);
    if (fstat(fd, &st) < 0)
        return err_sys(e, "checking %s", name);
    if (must_change_owner(&st)) {
        if (fchown(fd, who->uid, who->gid) < 0)
            return err_sys(e, "giving %s to uid %u", name, (unsigned)who->uid);
        st.st_uid = who->uid;
    }
    r = check_state_owner(name, &st, who, e);
    if (r < 0)
        return r;
    *ret = take_fd(&fd);
    return 0;
}

int state_open(const char *path, const struct identity_choice *who, int *ret, struct err *e)
{
    const struct identity_choice us = { geteuid(), getegid() };
    AUTO_CLOSE int dir = -1;
    int r = make_state_parents(path, e);

    if (r >= 0)
        r = open_own(AT_FDCWD, path, 0711, &us, &dir, e);
    if (r >= 0)
        r = open_own(dir, "daemon", 0700, who, ret, e);
    return err_wrap(e, r, "state directory %s", path);
}

/* One that is not there yet, or is still to be given away, is fine. */
static int check_own(int at, const char *name, const struct identity_choice *who, struct err *e)
{
    struct stat st;

    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_sys(e, "checking %s", name);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_CONFLICT, "%s is not a directory", name);
    return must_change_owner(&st) ? 0 : check_state_owner(name, &st, who, e);
}

int state_check(const char *path, const struct identity_choice *who, struct err *e)
{
    const struct identity_choice us = { geteuid(), getegid() };
    AUTO_CLOSE int dir = -1;
    int r = check_own(AT_FDCWD, path, &us, e);

    if (r < 0)
        return r;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOENT ? 0 : err_sys(e, "opening the directory");
    r = check_own(dir, "daemon", who, e);
    if (r >= 0)
        r = check_own(dir, "storage", &us, e);
    return r < 0 ? r : check_own(dir, "grants", &us, e);
}

int state_open_part(const char *path, const char *part, const struct identity_choice *who, int *ret,
                    struct err *e)
{
    AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = dir < 0 ? err_sys(e, "opening the directory") : open_own(dir, part, 0700, who, ret, e);

    return err_wrap(e, r, "state directory %s", path);
}

int state_open_own_part(const char *path, const char *part, int *ret, struct err *e)
{
    const struct identity_choice us = { geteuid(), getegid() };

    return state_open_part(path, part, &us, ret, e);
}
