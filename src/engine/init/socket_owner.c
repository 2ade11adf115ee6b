/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the processes that hold a socket. Everything in /proc may change or vanish while it is
 * read, and the workload controls part of it: a process that exits meanwhile is not a holder, and
 * data that does not fit is an error.
 *
 * PID 1 may examine every process, but has no rights over files: it opens the tables of a process
 * as the owner that the kernel shows for them. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"

enum {
    SCANNED_FDS_MAX = 1 << 16, /* descriptors examined for one answer; some 6 µs each */
    TABLE_DENTS = 16 << 10,
    THREAD_DENTS = 4096,
    STATUS_MAX = 4096,
    TEXT_MAX = CONTROL_WHO_IS_MAX - sizeof(struct control_who_is) -
               CONTROL_HOLDERS_MAX * sizeof(struct control_holder) -
               CONTROL_EXES_MAX * sizeof(struct control_exe),
};

struct socket_search {
    char link[40]; /* link text of a descriptor of the socket */
    uint32_t left; /* descriptors that may still be examined */
    struct control_holder holders[CONTROL_HOLDERS_MAX];
    uint32_t n_holders;
    struct control_exe exes[CONTROL_EXES_MAX];
    uint32_t n_exes;
    char text[TEXT_MAX];
    size_t n_text;
    struct ipc_fds *fds; /* of the executables */
};

static void act_as_owner(int dir, const char *path)
{
    struct stat st;

    if (fstatat(dir, path, &st, 0) < 0)
        return;
    setfsuid(st.st_uid);
    setfsgid(st.st_gid);
}

static void act_as_self(void)
{
    setfsuid(geteuid());
    setfsgid(getegid());
}

static int open_process(pid_t pid)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* --- executables --- */

static bool read_exe_path(int dir, const char *link, char ret[CONTROL_PATH_MAX])
{
    ssize_t n = readlinkat(dir, link, ret, CONTROL_PATH_MAX);

    if (n <= 0 || n == CONTROL_PATH_MAX || ret[0] != '/' ||
        str_ends((struct str){ ret, (size_t)n }, STR(" (deleted)")))
        n = 0;
    ret[n < 0 ? 0 : n] = '\0';
    return n > 0;
}

static int open_exe(int dir, const char *link)
{
    int fd = openat(dir, link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    if (fd < 0) {
        act_as_owner(dir, ".");
        fd = openat(dir, link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        act_as_self();
    }
    return fd;
}

/* Opens an executable; the path is read from the descriptor, so both agree. False if there is no
 * file. */
static bool read_exe(int dir, const char *link, struct control_exe *ret, int *ret_fd,
                     char path[CONTROL_PATH_MAX])
{
    AUTO_CLOSE int fd = open_exe(dir, link);
    char own[40];
    struct stat st;

    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    if (fd >= 0 ? fstat(fd, &st) < 0 : fstatat(dir, link, &st, 0) < 0)
        return false;
    if (fd >= 0)
        read_exe_path(AT_FDCWD, own, path);
    else
        read_exe_path(dir, link, path);
    *ret = (struct control_exe){ .dev = st.st_dev,
                                 .ino = st.st_ino,
                                 .flags = fd >= 0 && S_ISREG(st.st_mode) ? CONTROL_EXE_FD : 0 };
    *ret_fd = ret->flags & CONTROL_EXE_FD ? take_fd(&fd) : -1;
    return true;
}

/* If the first thread has exited, the other threads still show the executable. */
static void find_exe(int dir, struct control_exe *ret, int *ret_fd, char path[CONTROL_PATH_MAX])
{
    static char room[THREAD_DENTS] __attribute__((aligned(8)));
    struct numbers threads;
    uint64_t tid;
    bool found = read_exe(dir, "exe", ret, ret_fd, path);

    if (found)
        return;
    path[0] = '\0';
    numbers_open(&threads, dir, "task", room, sizeof room);
    while (!found && numbers_next(&threads, &tid)) {
        char link[40];

        snprintf(link, sizeof link, "task/%d/exe", (int)tid);
        found = read_exe(dir, link, ret, ret_fd, path);
    }
    numbers_close(&threads);
}

static int add_exe(struct socket_search *s, int dir, uint32_t *ret, struct err *e)
{
    struct control_exe x = { 0 };
    AUTO_CLOSE int fd = -1;
    char path[CONTROL_PATH_MAX] = "";
    const char *at = s->text;
    size_t n;

    find_exe(dir, &x, &fd, path);
    for (*ret = 0; *ret < s->n_exes; ++*ret)
        if (strcmp(control_next_string(&at), path) == 0 && s->exes[*ret].dev == x.dev &&
            s->exes[*ret].ino == x.ino)
            return 0;
    n = strlen(path) + 1;
    if (s->n_exes == CONTROL_EXES_MAX || n > sizeof s->text - s->n_text)
        return err_set(e, ERR_TOO_BIG,
                       "more than %d executables use the socket, or their paths have more than %zu "
                       "bytes",
                       CONTROL_EXES_MAX, sizeof s->text);
    memcpy(s->text + s->n_text, path, n);
    s->n_text += n;
    if (fd >= 0)
        s->fds->fd[s->fds->n++] = take_fd(&fd);
    s->exes[s->n_exes++] = x;
    return 0;
}

/* --- processes --- */

struct proc_status {
    uint32_t parent, uid;
};

/* Parses a field of a status line. The kernel escapes newlines in a process's name, so it cannot
 * fake a line. */
static bool parse_status_field(struct str line, struct str name, int word, uint32_t *ret)
{
    uint64_t number;

    if (!str_starts(line, name))
        return false;
    for (line = (struct str){ line.p + name.n, line.n - name.n }; word; word--) {
        struct str skipped;

        line = str_cut(line, '\t', &skipped);
    }
    str_cut(line, '\t', &line);
    if (str_to_u64(line, &number))
        *ret = (uint32_t)number;
    return true;
}

static bool read_status(int dir, struct proc_status *ret)
{
    AUTO_CLOSE int fd = openat(dir, "status", O_RDONLY | O_CLOEXEC);
    char text[STATUS_MAX];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    struct str rest = { text, n > 0 ? (size_t)n : 0 }, line;
    bool parent = false, uid = false;

    *ret = (struct proc_status){ 0 };
    while (rest.n && !(parent && uid)) {
        rest = str_cut(rest, '\n', &line);
        parent |= parse_status_field(line, STR("PPid:\t"), 0, &ret->parent);
        uid |= parse_status_field(line, STR("Uid:\t"), 1, &ret->uid);
    }
    return parent && uid;
}

/* Opens the parent of a process; checks again afterwards that the number still belongs to the
 * parent. */
static int open_parent_process(int dir, uint32_t number)
{
    AUTO_CLOSE int parent = open_process((pid_t)number);
    struct proc_status again;

    return parent >= 0 && read_status(dir, &again) && again.parent == number ? take_fd(&parent)
                                                                             : -1;
}

static int add_ancestors(struct socket_search *s, int dir, struct control_holder *h, struct err *e)
{
    AUTO_CLOSE int at = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    struct proc_status status;
    int r = 0;

    while (r >= 0 && read_status(at, &status) && status.parent > 1) {
        int parent =
            h->n_ancestors < CONTROL_ANCESTORS_MAX ? open_parent_process(at, status.parent) : -1;

        if (parent < 0) {
            h->flags |= CONTROL_HOLDER_CUT;
            return 0;
        }
        close(at);
        at = parent;
        r = add_exe(s, at, &h->ancestors[h->n_ancestors++], e);
    }
    return r;
}

static int add_holder(struct socket_search *s, int dir, pid_t pid, struct err *e)
{
    struct control_holder h = { .pid = pid };
    struct proc_status status;
    int r;

    if (!read_status(dir, &status))
        return 0; /* exited */
    if (s->n_holders == CONTROL_HOLDERS_MAX)
        return err_set(e, ERR_TOO_BIG, "more than %d processes hold the socket",
                       CONTROL_HOLDERS_MAX);
    h.uid = status.uid;
    r = add_exe(s, dir, &h.exe, e);
    if (r >= 0)
        r = add_ancestors(s, dir, &h, e);
    if (r >= 0)
        s->holders[s->n_holders++] = h;
    return r;
}

/* --- descriptors --- */

/* Searches a descriptor table for the socket: 1, 0, or an error if there are too many
 * descriptors. */
static int scan_fd_table(struct socket_search *s, int dir, const char *path, struct err *e)
{
    static char room[TABLE_DENTS] __attribute__((aligned(8)));
    struct numbers table;
    uint64_t fd;
    int found = 0;

    act_as_owner(dir, path);
    numbers_open(&table, dir, path, room, sizeof room);
    while (found == 0 && numbers_next(&table, &fd)) {
        char name[24], link[sizeof s->link];
        ssize_t n;

        snprintf(name, sizeof name, "%llu", (unsigned long long)fd);
        n = readlinkat(table.dir, name, link, sizeof link);
        if (n == (ssize_t)strlen(s->link) && memcmp(link, s->link, (size_t)n) == 0)
            found = 1;
        else if (s->left-- == 0)
            found = err_set(
                e, ERR_TOO_BIG,
                "the processes of the sandbox have more descriptors open than can be searched");
    }
    numbers_close(&table);
    act_as_self();
    return found;
}

/* Threads usually share one table, but need not. */
static int scan_thread_tables(struct socket_search *s, int dir, pid_t pid, struct err *e)
{
    static char room[THREAD_DENTS] __attribute__((aligned(8)));
    struct numbers threads;
    uint64_t tid;
    int found = 0;

    numbers_open(&threads, dir, "task", room, sizeof room);
    while (found == 0 && numbers_next(&threads, &tid)) {
        char path[40];

        snprintf(path, sizeof path, "task/%d/fd", (int)tid);
        if ((pid_t)tid != pid)
            found = scan_fd_table(s, dir, path, e);
    }
    numbers_close(&threads);
    return found;
}

static int scan_process(struct socket_search *s, pid_t pid, struct err *e)
{
    AUTO_CLOSE int dir = open_process(pid);
    int found = dir < 0 ? 0 : scan_fd_table(s, dir, "fd", e);

    if (dir >= 0 && found == 0)
        found = scan_thread_tables(s, dir, pid, e);
    return found > 0 ? add_holder(s, dir, pid, e) : found;
}

static size_t write_owner_answer(const struct socket_search *s, struct control_who_is *ret)
{
    char *at = (char *)(ret + 1);

    *ret = (struct control_who_is){ .n_holders = s->n_holders,
                                    .holder_size = sizeof s->holders[0],
                                    .n_exes = s->n_exes,
                                    .exe_size = sizeof s->exes[0],
                                    .text_size = (uint32_t)s->n_text };
    memcpy(at, s->holders, s->n_holders * sizeof s->holders[0]);
    at += s->n_holders * sizeof s->holders[0];
    memcpy(at, s->exes, s->n_exes * sizeof s->exes[0]);
    at += s->n_exes * sizeof s->exes[0];
    memcpy(at, s->text, s->n_text);
    return (size_t)(at - (char *)ret) + s->n_text;
}

int socket_owner_find(uint64_t inode, struct control_who_is *ret, size_t *ret_n,
                      struct ipc_fds *ret_fds, struct err *e)
{
    static struct socket_search s;
    struct numbers walk;
    pid_t pid;
    int r = 0;

    s.left = SCANNED_FDS_MAX;
    s.fds = ret_fds;
    snprintf(s.link, sizeof s.link, "socket:[%llu]", (unsigned long long)inode);
    pids_open(&walk);
    while (r >= 0 && (pid = pids_next(&walk)))
        r = scan_process(&s, pid, e);
    if (r >= 0)
        *ret_n = write_owner_answer(&s, ret);
    return r;
}
