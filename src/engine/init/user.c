/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "lib/proc/caps.h"
#include "lib/proc/passwd.h"

static bool search_passwd(struct str name, uint32_t uid, struct passwd_entry *ret)
{
    AUTO_CLOSE int fd = openat(AT_FDCWD, "/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    return fd >= 0 && passwd_find(fd, name, uid, ret);
}

int user_find(const char *name, uint32_t uid, uint32_t gid, struct passwd_entry *ret, struct err *e)
{
    struct passwd_entry u = { 0 };

    if (name) {
        if (!name[0] || !search_passwd(str_from(name), 0, &u))
            return err_set(e, ERR_NOT_FOUND, "there is no user '%s' in the sandbox's /etc/passwd",
                           name);
        *ret = u;
        return 0;
    }
    if (!search_passwd((struct str){ NULL, 0 }, uid, &u))
        snprintf(u.home, sizeof u.home, "/");
    u.uid = uid;
    u.gid = gid;
    *ret = u;
    return 0;
}

/* A sandbox of a plain user has one identity and may not change groups. */
static int switch_ids(const struct passwd_entry *u, struct err *e)
{
    gid_t group = u->gid;

    if (getuid() == u->uid && getgid() == u->gid && setgroups(0, NULL) < 0 && errno == EPERM)
        return 0;
    if (setgroups(1, &group) < 0 && errno != EPERM)
        return err_sys(e, "setting groups");
    if (setresgid(u->gid, u->gid, u->gid) < 0 || setresuid(u->uid, u->uid, u->uid) < 0)
        return errno == EINVAL
                   ? err_set(
                         e, ERR_UNSUPPORTED,
                         "this sandbox has only the identity %u:%u, not %u:%u: its owner has no "
                         "subordinate ids (subuid(5)); 'sandboxer run --user %u:%u' gives a "
                         "one-shot run that identity",
                         getuid(), getgid(), u->uid, u->gid, u->uid, u->gid)
                   : err_sys(e, "becoming user %u:%u", u->uid, u->gid);
    return 0;
}

int user_become(const struct passwd_entry *u, uint64_t caps, struct err *e)
{
    int r;

    if (caps && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
        return err_sys(e, "keeping capabilities");
    r = switch_ids(u, e);
    if (r >= 0)
        r = caps_set(caps, caps, e);
    return r < 0 ? r : caps_ambient(caps, e);
}
