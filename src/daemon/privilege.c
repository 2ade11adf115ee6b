/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/privilege.h"

#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "lib/proc/caps.h"

static int find_identity(const char *user, struct identity_choice *ret, struct err *e)
{
    const struct passwd *p = getpwnam(user);
    uint64_t n;

    if (p) {
        *ret = (struct identity_choice){ p->pw_uid, p->pw_gid };
        return 0;
    }
    if (!str_to_u64(str_from(user), &n) || n == 0 || n >= UINT32_MAX)
        return err_set(e, ERR_INVALID, "user: there is no user '%s'", user);
    *ret = (struct identity_choice){ (uid_t)n, (gid_t)n };
    return 0;
}

static struct identity_choice named_or(const char *user, uid_t otherwise)
{
    const struct passwd *p = getpwnam(user);

    return p ? (struct identity_choice){ p->pw_uid, p->pw_gid }
             : (struct identity_choice){ otherwise, otherwise };
}

int privilege_choose(const char *user, struct identity_choice *ret, struct err *e)
{
    if (geteuid() != 0) {
        *ret = (struct identity_choice){ geteuid(), getegid() };
        return 0;
    }
    if (user)
        return find_identity(user, ret, e);
    *ret = named_or("sandboxer", PRIVILEGE_UID);
    return 0;
}

struct identity_choice privilege_choose_program(const char *user, uid_t otherwise)
{
    if (geteuid() != 0)
        return (struct identity_choice){ geteuid(), getegid() };
    return named_or(user, otherwise);
}

int privilege_drop(const struct identity_choice *to, struct err *e)
{
    if (geteuid() != 0 || to->uid == 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(to->gid, to->gid, to->gid) < 0 ||
        setresuid(to->uid, to->uid, to->uid) < 0)
        return err_sys(e, "becoming uid %u", (unsigned)to->uid);
    if (setresuid(0, 0, 0) == 0)
        return err_set(e, ERR_BUG, "root's rights could not be dropped");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "giving up new privileges");
    return 0;
}

/* Why the monitor, or a program that it starts as root, has each capability. Everything else is
 * gone for good: from the bounding set, too. */
static const int kept[] = {
    CAP_SYS_ADMIN,        /* launchers: namespaces and mounts; the monitor: its volume's mount */
    CAP_NET_ADMIN,        /* launchers: a sandbox's addresses, routes and packet rules */
    CAP_NET_BIND_SERVICE, /* launchers: a sandbox's listeners on low ports */
    CAP_MKNOD,            /* launchers: device nodes of a sandbox's /dev */
    CAP_SETFCAP,          /* launchers: id maps with uid 0 in them */
    CAP_SYS_PTRACE,       /* launchers: namespaces of sandboxes that live on */
    CAP_SYS_RESOURCE,     /* launchers: limits and out-of-memory scores of workloads */
    CAP_BPF,              /* the gate of egress workers: changing its maps before Linux 5.19 */
    CAP_SYS_CHROOT,       /* copies of workspaces: a root directory of their own */
    CAP_SETUID,           /* copies: the client's user; egress workers, fetch: their own */
    CAP_SETGID,           /* the same for groups */
    CAP_SETPCAP,          /* children give up their bounding sets */
    CAP_KILL,             /* ending children of other users */
    CAP_CHOWN,            /* launchers and layer workers: trees of many owners … */
    CAP_DAC_OVERRIDE,     /* … which only they can enter … */
    CAP_FOWNER,           /* … and whose modes and times they set */
    CAP_FSETID,           /* … with their set-group-id bits */
};

int privilege_limit(struct err *e)
{
    struct rlimit core;
    uint64_t mask = 0;
    int r;

    /* The hard limit stays: programs that it starts set their own. */
    if (getrlimit(RLIMIT_CORE, &core) < 0)
        return err_sys(e, "reading the limit of core dumps");
    core.rlim_cur = 0;
    if (setrlimit(RLIMIT_CORE, &core) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_sys(e, "protecting the monitor's memory");
    if (geteuid() != 0 || !(caps_permitted() & CAP_BIT(CAP_SETPCAP)))
        return 0;
    for (size_t i = 0; i < COUNT_OF(kept); i++)
        mask |= CAP_BIT(kept[i]);
    r = caps_bound(UINT64_MAX, mask, e);
    if (r >= 0)
        r = caps_ambient(0, e);
    return r < 0 ? r : caps_set(mask, 0, e);
}
