/* SPDX-License-Identifier: Apache-2.0 */
/* A second, independent confinement, where the kernel has Landlock: no device nodes, no ioctl on
 * devices outside /dev, no signals and no abstract sockets to processes outside the sandbox, no
 * mounting. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

/* Newer than Debian 12's headers. */
struct landlock_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};
enum {
    ACCESS_REFER = 1 << 13,     /* ABI 2 */
    ACCESS_IOCTL_DEV = 1 << 15, /* ABI 5 */
    SCOPE_ABSTRACT_UNIX = 1 << 0,
    SCOPE_SIGNAL = 1 << 1, /* both ABI 6 */
    ABI_REFER = 2,
    ABI_IOCTL = 5,
    ABI_SCOPE = 6,
};

static int landlock_allow_beneath(int ruleset, const char *path, uint64_t access, struct err *e)
{
    AUTO_CLOSE int dir = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = dir };

    if (dir < 0 ||
        syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return err_sys(e, "adding a Landlock rule for %s", path);
    return 0;
}

int landlock_enter(struct err *e)
{
    struct landlock_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                                       LANDLOCK_ACCESS_FS_MAKE_BLOCK };
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    AUTO_CLOSE int ruleset = -1;
    int r;

    if (version < ABI_REFER)
        return 0; /* older rulesets would also forbid renaming between directories */
    attr.handled_access_fs |= ACCESS_REFER;
    if (version >= ABI_IOCTL)
        attr.handled_access_fs |= ACCESS_IOCTL_DEV;
    if (version >= ABI_SCOPE)
        attr.scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr,
                           version >= ABI_SCOPE ? sizeof attr : sizeof attr.handled_access_fs, 0);
    if (ruleset < 0)
        return err_sys(e, "making a Landlock ruleset");
    r = landlock_allow_beneath(ruleset, "/", ACCESS_REFER, e);
    if (r >= 0 && version >= ABI_IOCTL)
        r = landlock_allow_beneath(ruleset, "/dev", ACCESS_IOCTL_DEV, e);
    if (r >= 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = err_sys(e, "entering the Landlock ruleset");
    return r;
}
