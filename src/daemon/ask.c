#include "daemon/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hook.h"
#include "base/own.h"
#include "base/str.h"
#include "mirror/mirror.h"
#include "proc/sys.h"

static bool ends(const char *text, size_t cap)
{
    return memchr(text, 0, cap);
}

int ask_check(const struct warden_ask *a, struct err *e)
{
    if (a->kind == WARDEN_LAUNCHER || a->kind == WARDEN_HEADERS || a->kind == WARDEN_EGRESS ||
        a->kind == WARDEN_END_EGRESS || a->kind == WARDEN_KEEPER || a->kind == WARDEN_CERTIFICATE)
        return 0;
    if (a->kind != WARDEN_MIRROR || a->receive > 1 || (a->flags & ~(unsigned)MIRROR_FLAGS_ALL_) ||
        !ends(a->path, sizeof a->path) || !ends(a->top, sizeof a->top) || strchr(a->top, '/') ||
        strcmp(a->top, "..") == 0)
        return err_set(e, ERR_INVALID, "the warden does not understand what it is asked");
    return 0;
}

static int check_fd(int fd, bool pipe, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_sys(e, "looking at a descriptor");
    if ((fcntl(fd, F_GETFL) & O_PATH) || (pipe ? !S_ISFIFO(st.st_mode) : !S_ISREG(st.st_mode)))
        return err_set(e, ERR_INVALID, "a descriptor is not what it must be");
    return 0;
}

int ask_check_fds(int tar, int manifest_out, int manifest_in, struct err *e)
{
    int r = check_fd(tar, true, e);

    if (r >= 0)
        r = check_fd(manifest_out, false, e);
    if (r >= 0 && manifest_in >= 0)
        r = check_fd(manifest_in, false, e);
    return r;
}

/* The part of path below root, or NULL. */
static const char *below(const char *path, const char *root)
{
    size_t n = strlen(root);

    while (n > 1 && root[n - 1] == '/')
        n--;
    if (strncmp(path, root, n) != 0 || (n > 1 && path[n] && path[n] != '/'))
        return NULL;
    for (path += n; *path == '/'; path++)
        ;
    return *path ? path : ".";
}

int ask_name_dir(struct warden_ask *a, const struct launcher_options *o, const char *path,
                 struct err *e)
{
    const char *rest = path;

    a->root = 0;
    for (size_t i = 0; o->untrusted && i < o->n_roots && !a->root; i++)
        if ((rest = below(path, o->roots[i])))
            a->root = (uint32_t)i + 1;
    if (o->untrusted && !a->root)
        return err_set(e, ERR_DENIED,
                       "%s: is below none of the directories that workspaces.roots allows", path);
    if (!str_copy(str_from(rest), a->path, sizeof a->path))
        return err_set(e, ERR_INVALID, "%s: the path is too long", path);
    return 0;
}

int ask_open_dir(const struct warden_ask *a, const struct launcher_options *o, int *ret,
                 struct err *e)
{
    uint64_t resolve = 0;
    AUTO_CLOSE int root = -1;
    int fd;

    if (a->root > o->n_roots || (o->untrusted && !a->root))
        return err_set(e, ERR_DENIED, "there is no such root");
    hook_point("ask.open");
    if (a->root) {
        root = open(o->roots[a->root - 1], O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (root < 0)
            return err_sys(e, "opening the root %s", o->roots[a->root - 1]);
        resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    }
    fd = sys_openat2(a->root ? root : AT_FDCWD, a->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                     resolve);
    if (fd < 0 && (errno == EXDEV || errno == ELOOP))
        return err_set(e, ERR_DENIED, "the workspace %s leads through a link or out of its root",
                       a->path);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return err_set(e, ERR_DENIED, "the workspace %s is closed to us", a->path);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return err_set(e, ERR_INVALID, "the workspace %s is no directory", a->path);
    if (fd < 0)
        return err_sys(e, "opening the workspace %s", a->path);
    *ret = fd;
    return 0;
}
