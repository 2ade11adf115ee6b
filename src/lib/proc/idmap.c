/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/idmap.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/subids.h"

/* Writes the first id and the rest as separate lines: a line must be within one line of the parent
 * namespace's map, which maps root and the subordinate ids of a plain caller with two lines. */
int idmap_write(const char *file, uint32_t inside, uint32_t outside, uint32_t count, struct err *e)
{
    AUTO_CLOSE int fd = openat(AT_FDCWD, file, O_WRONLY | O_CLOEXEC);
    char lines[128];
    int n = snprintf(lines, sizeof lines, "%u %u 1\n", inside, outside);

    if (count > 1)
        n += snprintf(lines + n, sizeof lines - (size_t)n, "%u %u %u\n", inside + 1, outside + 1,
                      count - 1);
    if (fd < 0 || write(fd, lines, (size_t)n) != n)
        return err_sys(e, "writing %s", file);
    return 0;
}

int idmap_become_root(bool *ret_many, struct err *e)
{
    uint32_t uid = geteuid(), gid = getegid();
    struct subids ids;
    bool many = subids_find(uid, IDMAP_IDS - 1, &ids);
    AUTO_CLOSE int fd = -1;
    pid_t mapper = 0;
    int r = many ? subids_start_mapper(&ids, uid, gid, &mapper, e) : 0;

    if (r < 0)
        return r;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        r = err_sys(e,
                    "making a user namespace (a plain user needs user.max_user_namespaces > 0 and "
                    "kernel.unprivileged_userns_clone = 1)");
        if (many)
            subids_cancel(&ids, mapper);
        return r;
    }
    *ret_many = many;
    if (many)
        return subids_finish(&ids, mapper, e);
    fd = openat(AT_FDCWD, "/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "deny", 4) != 4)
        return err_sys(e, "writing /proc/self/setgroups");
    r = idmap_write("/proc/self/uid_map", 0, uid, 1, e);
    return r < 0 ? r : idmap_write("/proc/self/gid_map", 0, gid, 1, e);
}
