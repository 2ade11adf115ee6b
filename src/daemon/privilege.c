#include "daemon/privilege.h"

#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/str.h"
#include "proc/caps.h"

static int by_name(const char *user, struct identity_choice *ret, struct err *e)
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
        return by_name(user, ret, e);
    *ret = named_or("sandboxer", PRIVILEGE_UID);
    return 0;
}

struct identity_choice privilege_choose_egress(void)
{
    if (geteuid() != 0)
        return (struct identity_choice){ geteuid(), getegid() };
    return named_or("sandboxer-egress", PRIVILEGE_EGRESS_UID);
}

int privilege_drop(const struct identity_choice *to, struct err *e)
{
    if (geteuid() != 0 || to->uid == 0)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(to->gid, to->gid, to->gid) < 0 ||
        setresuid(to->uid, to->uid, to->uid) < 0)
        return err_sys(e, "becoming uid %u", (unsigned)to->uid);
    if (setresuid(0, 0, 0) == 0)
        return err_set(e, ERR_BUG, "the rights of root did not go away");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "giving up new privileges");
    /* A change of user hides our own /proc from us, through which sockets with long paths are
     * bound. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return err_sys(e, "showing us our own descriptors");
    return 0;
}
