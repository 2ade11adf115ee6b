/* SPDX-License-Identifier: Apache-2.0 */
/* PERMIT: sets modes and owners of existing files. Runs in a child of PID 1 with the target user's
 * rights, like every file operation. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <string.h>
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

/* Parses a numeric id; false for a name. */
static bool read_id(struct str text, int64_t *ret)
{
    uint64_t n;

    if (!str_to_u64(text, &n) || n >= UINT32_MAX)
        return false;
    *ret = (int64_t)n;
    return true;
}

static int find_owner(struct str name, int64_t *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    struct passwd_entry u;

    if (read_id(name, ret))
        return 0;
    fd = openat(AT_FDCWD, "/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !passwd_find(fd, name, 0, &u))
        return err_set(e, ERR_INVALID, "owner: there is no user '" STR_FMT "' in the sandbox",
                       STR_ARG(name));
    *ret = u.uid;
    return 0;
}

static int find_group(struct str name, int64_t *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    uint32_t gid;

    if (read_id(name, ret))
        return 0;
    fd = openat(AT_FDCWD, "/etc/group", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !group_find(fd, name, &gid))
        return err_set(e, ERR_INVALID, "group: there is no group '" STR_FMT "' in the sandbox",
                       STR_ARG(name));
    *ret = gid;
    return 0;
}

static int read_permission(const char *text, struct permission *p, struct err *e)
{
    struct str name, value = str_cut(str_from(text), '=', &name);

    if (str_eq(name, STR("mode")))
        return read_octal(value, &p->mode, e);
    if (str_eq(name, STR("owner")))
        return find_owner(value, &p->owner, e);
    if (str_eq(name, STR("group")))
        return find_group(value, &p->group, e);
    return err_set(e, ERR_INVALID, "'%s' is not a file setting: use mode=, owner= or group=", text);
}

/* Sets the owner first: changing it clears bits of the mode. */
static int apply_permission(const char *path, const struct permission *p, struct err *e)
{
    if ((p->owner >= 0 || p->group >= 0) &&
        fchownat(AT_FDCWD, path, (uid_t)p->owner, (gid_t)p->group, 0) < 0)
        return err_sys(e, "setting the owner of %s", path);
    if (p->mode >= 0 && fchmodat(AT_FDCWD, path, (mode_t)p->mode, 0) < 0)
        return err_sys(e, "setting the mode of %s", path);
    return 0;
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
    return r < 0 ? r : apply_permission(paths[0], &p, e);
}
