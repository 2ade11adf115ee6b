/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/own.h"
#include "daemon/lock.h"

enum { BACKLOG = 1024, SYSTEMD_FIRST = 3 };
enum { LOCK_NAME_MAX = 120 };

static void add_door(struct doors *d, int fd)
{
    d->fd[d->n++] = fd;
}

/* LISTEN_PID and LISTEN_FDS, as sd_listen_fds(3) has them: the number of sockets. */
static uint64_t count_inherited(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    uint64_t p, n;

    return pid && fds && str_to_u64(str_from(pid), &p) && p == (uint64_t)getpid() &&
                   str_to_u64(str_from(fds), &n)
               ? n
               : 0;
}

static void take_systemd(struct doors *d)
{
    uint64_t n = count_inherited();

    if (!n)
        return;
    for (uint64_t i = 0; i < n && d->n < LISTEN_MAX; i++) {
        fcntl(SYSTEMD_FIRST + (int)i, F_SETFD, FD_CLOEXEC);
        add_door(d, SYSTEMD_FIRST + (int)i);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
}

/* Whether a user other than ours and root can connect to an inherited socket. A socket with an
 * abstract name, or one that cannot be found, counts as open, because its permissions are
 * unknown. */
static bool is_open_to_others(const struct sockaddr_storage *a, socklen_t n)
{
    const struct sockaddr_un *u = (const struct sockaddr_un *)a;
    char path[sizeof u->sun_path + 1];
    struct stat st;
    size_t length =
        n > offsetof(struct sockaddr_un, sun_path) ? n - offsetof(struct sockaddr_un, sun_path) : 0;

    if (a->ss_family != AF_UNIX || !length || length >= sizeof path || !u->sun_path[0])
        return true;
    memcpy(path, u->sun_path, length);
    path[length] = 0;
    if (lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return true;
    return (st.st_mode & 077) || (st.st_uid != geteuid() && st.st_uid != 0);
}

/* An inherited socket of systemd obeys the same rule as one that the daemon makes. */
static int check_taken(const struct config *c, struct doors *d, struct err *e)
{
    for (size_t i = 0; i < d->n; i++) {
        struct sockaddr_storage a = { 0 };
        struct config_address at = { .port = 0 };
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a;
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a;
        socklen_t n = sizeof a;
        int r;

        if (getsockname(d->fd[i], (struct sockaddr *)&a, &n) < 0)
            return err_sys(e, "descriptor %d of LISTEN_FDS", d->fd[i]);
        d->inherited_open |= is_open_to_others(&a, n);
        if (a.ss_family != AF_INET && a.ss_family != AF_INET6)
            continue;
        inet_ntop(a.ss_family,
                  a.ss_family == AF_INET ? (const void *)&v4->sin_addr
                                         : (const void *)&v6->sin6_addr,
                  at.ip, sizeof at.ip);
        r = config_listen_check(c, &at, e);
        if (r < 0)
            return err_wrap(e, r, "descriptor %d of LISTEN_FDS", d->fd[i]);
    }
    return 0;
}

/* Makes the socket's directory if the daemon may: /run/sandboxer. The socket's own mode decides who
 * can connect, so other users may pass the directory under any umask. */
static int make_socket_parent(const char *path, struct err *e)
{
    char dir[108];
    char *slash;

    snprintf(dir, sizeof dir, "%s", path);
    slash = strrchr(dir, '/');
    if (!slash || slash == dir)
        return 0;
    *slash = 0;
    if (mkdir(dir, 0755) < 0)
        return errno == EEXIST ? 0 : err_sys(e, "making %s for the socket", dir);
    return chmod(dir, 0755) == 0 ? 0 : err_sys(e, "opening %s to other users", dir);
}

/* A socket that refuses permission counts as served. */
static bool is_socket_served(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || !str_copy(str_from(path), a.sun_path, sizeof a.sun_path))
        return true;
    return connect(fd, (struct sockaddr *)&a, sizeof a) == 0 ||
           (errno != ECONNREFUSED && errno != ENOENT);
}

static int fail_served(const char *path, struct err *e)
{
    return err_set(e, ERR_BUSY, "another program listens on %s; name another socket.path", path);
}

/* systemd listens for a daemon that it starts on demand. */
static bool is_socket_of_systemd(const char *path)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct ucred peer;
    socklen_t n = sizeof peer;
    char file[32], name[16] = "";
    FILE *comm;

    if (fd < 0 || !str_copy(str_from(path), a.sun_path, sizeof a.sun_path) ||
        connect(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return false;
    snprintf(file, sizeof file, "/proc/%d/comm", (int)peer.pid);
    comm = fopen(file, "re");
    if (comm) {
        (void)!fgets(name, sizeof name, comm);
        fclose(comm);
    }
    return strcmp(name, "systemd\n") == 0;
}

static void name_lock(const char *path, char ret[static LOCK_NAME_MAX])
{
    snprintf(ret, LOCK_NAME_MAX, "%s.lock", path);
}

/* The lock is removed at the end, so a file that has content or is another user's is not taken for
 * one: X.lock beside the socket X may be a user's file. */
static int check_lock_file(const char *path, const char *name, const struct stat *st, struct err *e)
{
    bool empty = S_ISREG(st->st_mode) && st->st_size == 0;

    if (empty && st->st_uid == geteuid())
        return 0;
    if (empty && is_socket_served(path))
        return err_set(e, ERR_BUSY, "another sandboxerd listens on %s", path);
    return err_set(e, ERR_CONFLICT,
                   "socket.path: %s, where the lock of the socket must be, is not an empty file of "
                   "uid %u, and is not used; name another path (socket.path, SANDBOXER_SOCKET) or "
                   "move it away",
                   name, (unsigned)geteuid());
}

static int check_lock_name(const char *path, struct err *e)
{
    char name[LOCK_NAME_MAX];
    struct stat st;

    name_lock(path, name);
    if (lstat(name, &st) < 0)
        return errno == ENOENT ? 0 : err_sys(e, "checking %s", name);
    return check_lock_file(path, name, &st, e);
}

int doors_check_path(const char *path, struct err *e)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? check_lock_name(path, e)
                               : err_sys(e, "checking socket.path %s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(e, ERR_CONFLICT,
                       "socket.path: %s is %s, not a socket, and is not replaced; name another "
                       "path (socket.path, SANDBOXER_SOCKET) or move it away",
                       path,
                       S_ISREG(st.st_mode)   ? "a file"
                       : S_ISDIR(st.st_mode) ? "a directory"
                       : S_ISLNK(st.st_mode) ? "a symbolic link"
                                             : "a device or FIFO");
    return check_lock_name(path, e);
}

/* Removed locks are not waited for: the name must still be that of the file. */
static bool is_lock_current(int fd, const char *name)
{
    struct stat held, found;

    return fstat(fd, &held) == 0 && lstat(name, &found) == 0 && held.st_dev == found.st_dev &&
           held.st_ino == found.st_ino;
}

static int try_lock(const char *path, const char *name, int *ret, struct err *e)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    AUTO_CLOSE int fd = -1;
    struct stat st;
    int r = check_lock_name(path, e); /* opening a device may do something */

    if (r < 0)
        return r;
    fd = open(name, flags, 0600);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "opening %s", name);
    r = check_lock_file(path, name, &st, e);
    if (r < 0)
        return r;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_lock_current(fd, name))
        return -ERR_BUSY;
    *ret = take_fd(&fd);
    return 0;
}

/* Two daemons that start at once must not both think that the path is free. The children of a
 * monitor that was killed hold its lock for a moment: without a listener, the lock is waited
 * for. */
static int lock_path(const char *path, int *ret, struct err *e)
{
    char name[LOCK_NAME_MAX];
    int r;

    name_lock(path, name);
    for (int i = 0; (r = try_lock(path, name, ret, e)) == -ERR_BUSY; i++) {
        if (i == LOCK_TRIES || is_socket_served(path))
            return err_set(e, ERR_BUSY, "another sandboxerd listens on %s", path);
        usleep(LOCK_WAIT_US);
    }
    return r;
}

/* Removes a stale socket, with the lock held: every sandboxerd that served there has ended, so a
 * socket that still accepts belongs to another program. */
static int clear_path(const char *path, struct err *e)
{
    int r = doors_check_path(path, e);

    if (r < 0)
        return r;
    if (is_socket_served(path))
        return fail_served(path, e);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_sys(e, "replacing the socket %s", path);
    return 0;
}

static int set_access(const struct config *c, const char *path, struct err *e)
{
    const struct group *g = c->socket.group ? getgrnam(c->socket.group) : NULL;

    if (c->socket.group && !g)
        return err_set(e, ERR_INVALID, "socket.group: there is no group '%s'", c->socket.group);
    if (g && chown(path, (uid_t)-1, g->gr_gid) < 0)
        return err_sys(e, "giving %s to the group %s", path, c->socket.group);
    if (chmod(path, c->socket_mode) < 0)
        return err_sys(e, "setting the mode of %s", path);
    return 0;
}

static int listen_unix(const struct config *c, struct doors *d, struct err *e)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;
    mode_t before;
    int r;

    if (fd < 0 || !str_copy(str_from(c->socket.path), a.sun_path, sizeof a.sun_path))
        return err_set(e, ERR_INVALID, "socket.path: '%s' has more than %zu bytes", c->socket.path,
                       sizeof a.sun_path - 1);
    r = doors_check_path(a.sun_path, e); /* before anything is made beside it */
    if (r >= 0)
        r = make_socket_parent(a.sun_path, e);
    if (r >= 0)
        r = lock_path(a.sun_path, &d->lock, e);
    if (r < 0)
        return r;
    snprintf(d->path, sizeof d->path, "%s", a.sun_path);
    r = clear_path(a.sun_path, e);
    if (r < 0)
        return r;
    before = umask(0177);
    r = bind(fd, (struct sockaddr *)&a, sizeof a);
    umask(before);
    if (r < 0 || lstat(a.sun_path, &st) < 0 || listen(fd, BACKLOG) < 0)
        return err_sys(e, "listening on %s", a.sun_path);
    d->device = st.st_dev;
    d->inode = st.st_ino;
    r = set_access(c, a.sun_path, e);
    if (r >= 0)
        add_door(d, take_fd(&fd));
    return r;
}

static socklen_t fill_socket_address(const struct config_address *from,
                                     struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

    if (inet_pton(AF_INET, from->ip, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(from->port);
        return sizeof *v4;
    }
    if (inet_pton(AF_INET6, from->ip, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(from->port);
        return sizeof *v6;
    }
    return 0;
}

static int bind_tcp(const struct config_address *at, const char *text, int *ret, struct err *e)
{
    struct sockaddr_storage a = { 0 };
    socklen_t n = fill_socket_address(at, &a);
    AUTO_CLOSE int fd = -1;
    int on = 1;

    if (!n)
        return err_set(e, ERR_INVALID, "listen: '%s' is not an address", text);
    fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(e, "making a socket for %s", text);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&a, n) < 0)
        return err_sys(e, "listening on %s", text);
    *ret = take_fd(&fd);
    return 0;
}

static int listen_tcp(const struct config_address *at, const char *text, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = -1;
    int r = bind_tcp(at, text, &fd, e);

    if (r < 0)
        return r;
    if (listen(fd, BACKLOG) < 0)
        return err_sys(e, "listening on %s", text);
    *ret = take_fd(&fd);
    return 0;
}

/* A port that is bound and not listened on does not disturb anybody. */
static int check_tcp_free(const struct config_address *at, const char *text, struct err *e)
{
    AUTO_CLOSE int fd = -1;

    return text ? bind_tcp(at, text, &fd, e) : 0;
}

/* Connects only to a socket that a process has open. */
static int check_socket_free(const char *path, struct err *e)
{
    struct stat st;

    if (count_inherited() || lstat(path, &st) < 0 || !is_socket_served(path) ||
        is_socket_of_systemd(path))
        return 0;
    return fail_served(path, e);
}

int doors_check_free(const struct config *c, struct err *e)
{
    int r = check_socket_free(c->socket.path, e);

    if (r >= 0)
        r = check_tcp_free(&c->address, c->listen, e);
    return r < 0 ? r : check_tcp_free(&c->domain_address, c->domain.listen, e);
}

bool doors_held(const struct config *c)
{
    char name[LOCK_NAME_MAX];
    AUTO_CLOSE int fd = -1;

    name_lock(c->socket.path, name);
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

int doors_open(const struct config *c, struct doors *ret, struct err *e)
{
    int r = 0, fd = -1;

    *ret = (struct doors){ .lock = -1, .tls = -1 };
    take_systemd(ret);
    r = check_taken(c, ret, e);
    if (r >= 0 && ret->n == 0)
        r = listen_unix(c, ret, e);
    if (r >= 0 && c->listen)
        r = listen_tcp(&c->address, c->listen, &fd, e);
    if (fd >= 0)
        add_door(ret, fd);
    if (r >= 0 && c->domain.listen)
        r = listen_tcp(&c->domain_address, c->domain.listen, &ret->tls, e);
    if (r < 0)
        doors_remove(ret);
    return r;
}

void doors_close_fds(struct doors *d)
{
    for (size_t i = 0; i < d->n; i++)
        drop_fd(&d->fd[i]);
    d->n = 0;
    drop_fd(&d->tls);
}

void doors_close(struct doors *d)
{
    doors_close_fds(d);
    drop_fd(&d->lock);
}

/* The lock file is unlinked before the lock is released: a process that then gets the lock sees
 * that its file has no name, and makes a new one. */
void doors_remove(struct doors *d)
{
    char lock[LOCK_NAME_MAX];
    struct stat st;

    if (d->path[0]) {
        if (lstat(d->path, &st) == 0 && st.st_dev == d->device && st.st_ino == d->inode)
            unlink(d->path);
        name_lock(d->path, lock);
        if (d->lock >= 0 && is_lock_current(d->lock, lock))
            unlink(lock);
    }
    doors_close(d);
}
