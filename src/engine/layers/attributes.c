/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/attributes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "lib/proc/idmap.h"

enum { ACL_HEAD = 4, ACL_USER_ENTRY = 0x02, ACL_GROUP_ENTRY = 0x08 };

/* An entry in the kernel's format of an ACL; little endian. */
struct acl_entry {
    uint16_t tag, perm;
    uint32_t id;
};

struct owners owners_of(const struct stat *any)
{
    return (struct owners){ any->st_uid & ~(uint32_t)(IDMAP_IDS - 1) };
}

int owners_inside(const struct owners *o, uint32_t outside, uint32_t *ret, struct err *e)
{
    if ((outside & ~(uint32_t)(IDMAP_IDS - 1)) != o->base)
        return err_set(e, ERR_DENIED, "owner %u is outside the id range of the sandbox", outside);
    *ret = outside - o->base;
    return 0;
}

/* Maps the user and group ids in an ACL like owners. */
static int map_acl_inside(const struct owners *o, char *value, size_t n, struct err *e)
{
    for (size_t at = ACL_HEAD; at + sizeof(struct acl_entry) <= n; at += sizeof(struct acl_entry)) {
        struct acl_entry entry;
        int r;

        memcpy(&entry, value + at, sizeof entry);
        if (entry.tag != ACL_USER_ENTRY && entry.tag != ACL_GROUP_ENTRY)
            continue;
        r = owners_inside(o, entry.id, &entry.id, e);
        if (r < 0)
            return r;
        memcpy(value + at, &entry, sizeof entry);
    }
    return 0;
}

static bool is_acl(const char *name)
{
    return strcmp(name, "system.posix_acl_access") == 0 ||
           strcmp(name, "system.posix_acl_default") == 0;
}

/* overlayfs stores a program's "user.overlay.x" as "user.overlay.overlay.x". */
bool attributes_wanted(const char *name)
{
    static const char own[] = "user.overlay.";

    if (strncmp(name, own, sizeof own - 1) == 0)
        return strcmp(name, "user.overlay.opaque") == 0 ||
               strncmp(name, "user.overlay.overlay.", 21) == 0;
    return strncmp(name, "user.", 5) == 0 || is_acl(name);
}

static int copy_one_xattr(const struct owners *o, int from, int to, const char *name, struct err *e)
{
    static char value[XATTR_SIZE_MAX];
    ssize_t n = fgetxattr(from, name, value, sizeof value);
    int r;

    if (n < 0)
        return errno == ENODATA ? 0 : err_sys(e, "reading the attribute %.100s", name);
    r = is_acl(name) ? map_acl_inside(o, value, (size_t)n, e) : 0;
    if (r >= 0 && fsetxattr(to, name, value, (size_t)n, 0) < 0)
        r = err_sys(e, "setting the attribute %.100s", name);
    return r;
}

int attributes_copy_extended(const struct owners *o, int from, int to, struct err *e)
{
    static char names[XATTR_LIST_MAX];
    ssize_t n = flistxattr(from, names, sizeof names);
    int r = 0;

    if (n < 0)
        return errno == ENOTSUP ? 0 : err_sys(e, "listing attributes");
    for (const char *at = names; at < names + n && r >= 0; at += strlen(at) + 1)
        if (attributes_wanted(at))
            r = copy_one_xattr(o, from, to, at, e);
    return r;
}

static int compare_attribute_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int attributes_list(int fd, struct attribute_names *ret, struct err *e)
{
    ssize_t n = flistxattr(fd, ret->text, sizeof ret->text);

    ret->n = 0;
    if (n < 0)
        return errno == ENOTSUP ? 0 : err_sys(e, "listing attributes");
    for (const char *at = ret->text; at < ret->text + n; at += strlen(at) + 1) {
        if (!attributes_wanted(at))
            continue;
        if (ret->n == COUNT_OF(ret->p))
            return err_set(e, ERR_TOO_BIG, "more than %zu extended attributes", COUNT_OF(ret->p));
        ret->p[ret->n++] = at;
    }
    qsort(ret->p, ret->n, sizeof *ret->p, compare_attribute_names);
    return 0;
}

int attributes_clear_extended(int fd, struct err *e)
{
    static char names[XATTR_LIST_MAX];
    ssize_t n = flistxattr(fd, names, sizeof names);

    for (const char *at = names; n > 0 && at < names + n; at += strlen(at) + 1)
        if (attributes_wanted(at) && fremovexattr(fd, at) < 0 && errno != ENODATA)
            return err_sys(e, "removing the attribute %.100s", at);
    return 0;
}

static int map_owner_inside(const struct owners *o, const struct stat *st, uint32_t *uid,
                            uint32_t *gid, struct err *e)
{
    int r = owners_inside(o, st->st_uid, uid, e);

    return r < 0 ? r : owners_inside(o, st->st_gid, gid, e);
}

/* fchown() clears set-user-id bits, so the mode follows it; neither changes the times set last. */
int attributes_set(const struct owners *o, int fd, const struct stat *st, struct err *e)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };
    uint32_t uid, gid;
    int r = map_owner_inside(o, st, &uid, &gid, e);

    if (r < 0)
        return r;
    if (fchown(fd, uid, gid) < 0 || fchmod(fd, st->st_mode & 07777) < 0 || futimens(fd, times) < 0)
        return err_sys(e, "setting attributes");
    return 0;
}

int attributes_set_at(const struct owners *o, int dir, const char *name, const struct stat *st,
                      struct err *e)
{
    const struct timespec times[2] = { st->st_atim, st->st_mtim };
    uint32_t uid, gid;
    int r = map_owner_inside(o, st, &uid, &gid, e);

    if (r < 0)
        return r;
    if (fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!S_ISLNK(st->st_mode) && fchmodat(dir, name, st->st_mode & 07777, 0) < 0) ||
        utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "setting attributes");
    return 0;
}
