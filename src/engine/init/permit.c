/* SPDX-License-Identifier: Apache-2.0 */
/* PERMIT: sets modes and owners of existing files. Runs in a child of PID 1 with the target user's
 * rights, like every file operation. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "lib/proc/passwd.h"

/* The new values; -1: unchanged. */
struct permission {
    int64_t mode, owner, group;
};

static int read_octal(struct str text, int64_t *ret, struct err *e)
{
    int64_t mode = 0;

    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '7' || mode > 0777)
            return err_set(e, ERR_INVALID, "mode: must be a number like 0755");
        mode = mode * 8 + (text.p[i] - '0');
    }
    *ret = text.n ? mode : -1;
    return 0;
}

/* Finds the number of a user or a group, which may be given by name. */
static int find_id(struct str name, bool group, int64_t *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct passwd_entry u = { 0 };
    uint32_t gid = 0;
    uint64_t n;

    if (str_to_u64(name, &n) && n < UINT32_MAX) {
        *ret = (int64_t)n;
        return 0;
    }
    fd = openat(AT_FDCWD, group ? "/etc/group" : "/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !(group ? group_find(fd, name, &gid) : passwd_find(fd, name, 0, &u)))
        return err_set(e, ERR_INVALID, "%s '" STR_FMT "' in the sandbox",
                       group ? "group: there is no group" : "owner: there is no user",
                       STR_ARG(name));
    *ret = group ? gid : u.uid;
    return 0;
}

static int read_permission(const char *text, struct permission *p, struct err *e)
{
    struct str name, value = str_cut(str_from(text), '=', &name);

    if (str_eq(name, STR("mode")))
        return read_octal(value, &p->mode, e);
    if (str_eq(name, STR("owner")))
        return find_id(value, false, &p->owner, e);
    if (str_eq(name, STR("group")))
        return find_id(value, true, &p->group, e);
    return err_set(e, ERR_INVALID, "'%s' is not a file setting: use mode=, owner= or group=", text);
}

int permit_run(uint32_t mode, char *const *paths, struct err *e)
{
    struct permission p = { -1, -1, -1 };
    struct stat st;
    int r = 0;

    if (stat(paths[0], &st) < 0)
        return err_sys(e, "reading the attributes of %s", paths[0]);
    for (char *const *s = paths + 1; r >= 0 && *s; s++)
        r = read_permission(*s, &p, e);
    if (r < 0)
        return r;
    /* The owner first: changing it clears bits of the mode. */
    if ((p.owner >= 0 || p.group >= 0) &&
        fchownat(AT_FDCWD, paths[0], (uid_t)p.owner, (gid_t)p.group, 0) < 0)
        return err_sys(e, "setting the owner of %s", paths[0]);
    if (p.mode >= 0 && fchmodat(AT_FDCWD, paths[0], (mode_t)p.mode, 0) < 0)
        return err_sys(e, "setting the mode of %s", paths[0]);
    return 0;
}
