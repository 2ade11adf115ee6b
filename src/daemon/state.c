#include "daemon/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

/* mkdir -p for the directories above, which are as anybody's. */
static int make_parents(const char *path, struct err *e)
{
    char part[PATH_MAX];

    if (strlen(path) >= sizeof part)
        return err_set(e, ERR_INVALID, "state: the path is too long");
    snprintf(part, sizeof part, "%s", path);
    for (char *at = strchr(part + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return err_sys(e, "making the state directory %s", part);
        *at = '/';
    }
    return 0;
}

static int open_own(int at, const char *name, mode_t mode, const struct identity_choice *who,
                    int *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    if (mkdirat(at, name, mode) < 0 && errno != EEXIST)
        return err_sys(e, "making %s", name);
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, "opening %s", name);
    if (fstat(fd, &st) < 0)
        return err_sys(e, "looking at %s", name);
    /* Root's, and not given away yet: by us, or by one that was killed or is as far as we are. */
    if (geteuid() == 0 && st.st_uid == 0 && !(st.st_mode & 022)) {
        if (fchown(fd, who->uid, who->gid) < 0)
            return err_sys(e, "giving %s to uid %u", name, (unsigned)who->uid);
        st.st_uid = who->uid;
    }
    if (st.st_uid != who->uid || (st.st_mode & 022))
        return err_set(e, ERR_DENIED,
                       "%s belongs to uid %u with mode %04o; it must belong to uid %u and be "
                       "writable by it alone",
                       name, (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777),
                       (unsigned)who->uid);
    *ret = take_fd(&fd);
    return 0;
}

/* The control plane passes through it on the way to its own, whoever made it, and under whatever
 * umask. */
static int let_pass(int dir, struct err *e)
{
    struct stat st;

    if (fstat(dir, &st) < 0 || ((st.st_mode & 011) != 011 && fchmod(dir, 0711) < 0))
        return err_sys(e, "letting the control plane through");
    return 0;
}

int state_open(const char *path, const struct identity_choice *who, int *ret, struct err *e)
{
    const struct identity_choice us = { geteuid(), getegid() };
    AUTO_CLOSE int dir = -1;
    int r = make_parents(path, e);

    if (r >= 0)
        r = open_own(AT_FDCWD, path, 0711, &us, &dir, e);
    if (r >= 0 && who->uid != us.uid)
        r = let_pass(dir, e);
    if (r >= 0)
        r = open_own(dir, "daemon", 0700, who, ret, e);
    return err_wrap(e, r, "state directory %s", path);
}

int state_reach(int dir, struct err *e)
{
    char link[32], path[PATH_MAX];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return err_sys(e, "finding the path of the state directory");
    path[n] = 0;
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        if (access(path, X_OK) < 0)
            return err_set(e, ERR_DENIED,
                           "the state directory is below %s, which the control plane (uid %u) "
                           "cannot pass: chmod o+x there, or name another (SANDBOXER_STATE)",
                           path, (unsigned)geteuid());
        *at = '/';
    }
    return 0;
}

int state_open_part(const char *path, const char *part, const struct identity_choice *who, int *ret,
                    struct err *e)
{
    AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = dir < 0 ? err_sys(e, "opening it") : open_own(dir, part, 0700, who, ret, e);

    return err_wrap(e, r, "state directory %s", path);
}

int state_open_storage(const char *path, int *ret, struct err *e)
{
    const struct identity_choice us = { geteuid(), getegid() };

    return state_open_part(path, "storage", &us, ret, e);
}

int state_open_grants(const char *path, int *ret, struct err *e)
{
    const struct identity_choice us = { geteuid(), getegid() };

    return state_open_part(path, "grants", &us, ret, e);
}
