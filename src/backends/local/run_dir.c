/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"
#include "backends/local/local.h"

enum { BACKLOG = 8 }; /* PID 1 sets its own */

static const char control_name[] = "control", defaults_name[] = "defaults", frozen_name[] = "still";

static int open_run_subdir(int at, const char *name, int flags)
{
    return openat(at, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int run_dir_open(struct run_dir *d, int state, struct err *e)
{
    d->fd = -1;
    if (mkdirat(state, "run", 0700) < 0 && errno != EEXIST)
        return err_sys(e, "creating the directory run in the state directory");
    d->fd = open_run_subdir(state, "run", O_RDONLY);
    return d->fd < 0 ? err_sys(e, "opening the directory run in the state directory") : 0;
}

void run_dir_done(struct run_dir *d)
{
    drop_fd(&d->fd);
}

int run_dir_make(const struct run_dir *d, const char *id, struct err *e)
{
    if (mkdirat(d->fd, id, 0700) == 0)
        return 0;
    return errno == EEXIST ? err_set(e, ERR_CONFLICT, "sandbox %s already exists", id)
                           : err_sys(e, "creating the directory run/%s", id);
}

int run_dir_remove(const struct run_dir *d, const char *id, struct err *e)
{
    AUTO_CLOSE int dir = open_run_subdir(d->fd, id, O_PATH);

    if (dir < 0)
        return errno == ENOENT ? 0 : err_sys(e, "opening the directory run/%s", id);
    unlinkat(dir, control_name, 0);
    unlinkat(dir, defaults_name, 0);
    unlinkat(dir, frozen_name, 0);
    if (unlinkat(d->fd, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_sys(e, "removing the directory run/%s", id);
    return 0;
}

bool run_dir_has(const struct run_dir *d, const char *id)
{
    struct stat st;

    return fstatat(d->fd, id, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

/* Uses the path of the descriptor: that of the state directory may be too long for a socket
 * address. */
static void control_address(int dir, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%s", dir, control_name);
}

int run_dir_bind(const struct run_dir *d, const char *id, int *ret, struct err *e)
{
    AUTO_CLOSE int dir = open_run_subdir(d->fd, id, O_PATH);
    AUTO_CLOSE int sock = -1;
    struct sockaddr_un address;

    if (dir < 0)
        return err_sys(e, "opening the directory run/%s", id);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return err_sys(e, "creating a control socket");
    control_address(dir, &address);
    if (bind(sock, (struct sockaddr *)&address, sizeof address) < 0)
        return err_sys(e, "binding run/%s/%s", id, control_name);
    if (listen(sock, BACKLOG) < 0)
        return err_sys(e, "listening on run/%s/%s", id, control_name);
    *ret = take_fd(&sock);
    return 0;
}

int run_dir_connect(const struct run_dir *d, const char *id, int *ret, struct err *e)
{
    AUTO_CLOSE int dir = open_run_subdir(d->fd, id, O_PATH);
    AUTO_CLOSE int sock = -1;
    struct sockaddr_un address;

    if (dir < 0)
        return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no sandbox %s", id)
                               : err_sys(e, "opening the directory run/%s", id);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0)
        return err_sys(e, "creating a socket");
    control_address(dir, &address);
    if (connect(sock, (struct sockaddr *)&address, sizeof address) < 0)
        return errno == ECONNREFUSED || errno == ENOENT
                   ? err_set(e, ERR_NOT_FOUND, "the sandbox's supervisor has exited")
                   : err_sys(e, "connecting to run/%s/%s", id, control_name);
    *ret = take_fd(&sock);
    return 0;
}

int run_dir_save(const struct run_dir *d, const char *id, struct str defaults, struct err *e)
{
    AUTO_CLOSE int dir = open_run_subdir(d->fd, id, O_PATH);
    AUTO_CLOSE int file = -1;

    if (dir < 0)
        return err_sys(e, "opening the directory run/%s", id);
    file = openat(dir, defaults_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return err_sys(e, "creating run/%s/%s", id, defaults_name);
    if (write(file, defaults.p, defaults.n) != (ssize_t)defaults.n)
        return err_sys(e, "writing run/%s/%s", id, defaults_name);
    return 0;
}

int run_dir_load(const struct run_dir *d, const char *id, struct buf *ret, struct err *e)
{
    AUTO_CLOSE int dir = open_run_subdir(d->fd, id, O_PATH);
    AUTO_CLOSE int file =
        dir < 0 ? -1 : openat(dir, defaults_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = 1;

    if (file < 0)
        return err_sys(e, "opening run/%s/%s", id, defaults_name);
    while (n > 0) {
        char *room;
        int r = buf_room(ret, 4096, &room);

        if (r < 0)
            return err_set(e, ERR_TOO_BIG, "run/%s/%s has more than %zu bytes", id, defaults_name,
                           ret->max);
        n = read(file, room, 4096);
        if (n > 0)
            buf_grew(ret, (size_t)n);
    }
    return n < 0 ? err_sys(e, "reading run/%s/%s", id, defaults_name) : 0;
}

int run_dir_set_frozen(const struct run_dir *d, const char *id, bool still, struct err *e)
{
    AUTO_CLOSE int dir = open_run_subdir(d->fd, id, O_PATH);
    AUTO_CLOSE int file = -1;

    if (dir < 0)
        return err_sys(e, "opening the directory run/%s", id);
    if (!still) {
        unlinkat(dir, frozen_name, 0);
        return 0;
    }
    file = openat(dir, frozen_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return file < 0 ? err_sys(e, "creating run/%s/%s", id, frozen_name) : 0;
}

bool run_dir_is_frozen(const struct run_dir *d, const char *id)
{
    AUTO_CLOSE int dir = open_run_subdir(d->fd, id, O_PATH);
    struct stat st;

    return dir >= 0 && fstatat(dir, frozen_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int run_dir_each(const struct run_dir *d, void (*each)(void *user, const char *id), void *user,
                 struct err *e)
{
    int fd = open_run_subdir(d->fd, ".", O_RDONLY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir) {
        int r = err_sys(e, "listing the directory run");

        drop_fd(&fd);
        return r;
    }
    for (const struct dirent *at; (at = readdir(dir));)
        if (id_valid("sbx_", str_from(at->d_name)))
            each(user, at->d_name);
    closedir(dir);
    return 0;
}
