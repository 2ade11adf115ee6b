/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/fence/fence.h"

/* Newer than Debian 12's headers. */
struct fence_ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};
enum {
    ABI_REFER = 2,
    ABI_TRUNCATE = 3,
    ABI_NET = 4,
    ABI_IOCTL = 5,
    ABI_SCOPE = 6,
    ACCESS_TRUNCATE = 1 << 14,
    ACCESS_IOCTL = 1 << 15,
    NET_BIND_TCP = 1 << 0,
    NET_CONNECT_TCP = 1 << 1,
    SCOPE_ABSTRACT_UNIX = 1 << 0,
    SCOPE_SIGNAL = 1 << 1,
};

/* Of the rights that make no sense for a file. */
#define ACCESS_OF_FILES                                                                            \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |   \
     ACCESS_TRUNCATE | ACCESS_IOCTL)

static struct fence_ruleset_attr make_attr(const struct fence_rules *f, int abi, size_t *ret_size)
{
    struct fence_ruleset_attr a = { .handled_access_fs = (1u << 13) - 1 };

    a.handled_access_fs |= abi >= ABI_REFER ? (uint64_t)LANDLOCK_ACCESS_FS_REFER : 0;
    a.handled_access_fs |= abi >= ABI_TRUNCATE ? (uint64_t)ACCESS_TRUNCATE : 0;
    a.handled_access_fs |= abi >= ABI_IOCTL ? (uint64_t)ACCESS_IOCTL : 0;
    if (abi >= ABI_NET)
        a.handled_access_net =
            f->tcp & FENCE_TCP_CONNECT ? NET_BIND_TCP : NET_BIND_TCP | NET_CONNECT_TCP;
    a.scoped = abi >= ABI_SCOPE ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0;
    *ret_size = abi >= ABI_SCOPE ? sizeof a
                : abi >= ABI_NET ? offsetof(struct fence_ruleset_attr, scoped)
                                 : offsetof(struct fence_ruleset_attr, handled_access_net);
    return a;
}

static uint64_t rights_of(unsigned access)
{
    uint64_t rights = 0;

    if (access & FENCE_READ_FILES)
        rights |= LANDLOCK_ACCESS_FS_READ_FILE;
    if (access & FENCE_READ_DIRS)
        rights |= LANDLOCK_ACCESS_FS_READ_DIR;
    if (access & FENCE_APPEND_FILES)
        rights |= LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG;
    if (access & FENCE_CHANGE)
        rights |= LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                  LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
                  LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
                  LANDLOCK_ACCESS_FS_REFER | ACCESS_TRUNCATE;
    return rights;
}

static int add_fence_place(int ruleset, uint64_t handled, const struct fence_place *p,
                           struct err *e)
{
    struct landlock_path_beneath_attr rule = { .allowed_access = rights_of(p->access) & handled,
                                               .parent_fd = p->fd };
    struct stat st;

    if (p->fd < 0)
        return 0;
    if (fstat(p->fd, &st) < 0)
        return err_sys(e, "looking at a place for a Landlock rule");
    if (!S_ISDIR(st.st_mode))
        rule.allowed_access &= ACCESS_OF_FILES;
    if (rule.allowed_access &&
        syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return err_sys(e, "adding a Landlock rule");
    return 0;
}

int fence_landlock(const struct fence_rules *f, struct err *e)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    size_t size;
    struct fence_ruleset_attr attr = make_attr(f, abi, &size);
    AUTO_CLOSE int ruleset = -1;

    if (abi < 1)
        return 0;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (ruleset < 0)
        return err_sys(e, "making a Landlock ruleset");
    for (size_t i = 0; i < f->n_places; i++) {
        int r = add_fence_place(ruleset, attr.handled_access_fs, &f->places[i], e);

        if (r < 0)
            return r;
    }
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return err_sys(e, "entering the Landlock ruleset");
    return 0;
}
