/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/subids.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"

enum { FILE_MAX_BYTES = 64 << 10 };

static const char uid_program[] = "/usr/bin/newuidmap", gid_program[] = "/usr/bin/newgidmap";

/* name-or-uid:first:count */
static bool read_subid_line(struct str line, struct str name, struct str number, uint32_t count,
                            uint32_t *ret)
{
    struct str owner, first;
    uint64_t f, n;

    line = str_cut(line, ':', &owner);
    line = str_cut(line, ':', &first);
    if (!(name.n && str_eq(owner, name)) && !str_eq(owner, number))
        return false;
    if (!str_to_u64(first, &f) || !str_to_u64(line, &n) || n < count || f + n > UINT32_MAX)
        return false;
    *ret = (uint32_t)f;
    return true;
}

static bool find_in(const char *file, struct str name, struct str number, uint32_t count,
                    uint32_t *ret)
{
    static char text[FILE_MAX_BYTES];
    AUTO_CLOSE int fd = openat(AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    struct str rest = { text, n < 0 ? 0 : (size_t)n }, line;

    while (rest.n) {
        rest = str_cut(rest, '\n', &line);
        if (read_subid_line(line, name, number, count, ret))
            return true;
    }
    return false;
}

bool subids_find(uint32_t uid, uint32_t count, struct subids *ret)
{
    struct subids s = { .count = count, .go = -1 };
    const struct passwd *user;
    char number[16];

    if (access(uid_program, X_OK) < 0 || access(gid_program, X_OK) < 0)
        return false;
    user = getpwuid(uid);
    snprintf(number, sizeof number, "%u", uid);
    if (!find_in("/etc/subuid", str_from(user ? user->pw_name : NULL), str_from(number), count,
                 &s.uid_first) ||
        !find_in("/etc/subgid", str_from(user ? user->pw_name : NULL), str_from(number), count,
                 &s.gid_first))
        return false;
    *ret = s;
    return true;
}

/* PROGRAM PID 0 OWN 1 1 FIRST COUNT */
static bool run_idmap_program(const char *program, pid_t target, uint32_t own, uint32_t first,
                              uint32_t count)
{
    char pid[16], ours[16], from[16], n[16];
    pid_t child;
    int status;

    snprintf(pid, sizeof pid, "%d", (int)target);
    snprintf(ours, sizeof ours, "%u", own);
    snprintf(from, sizeof from, "%u", first);
    snprintf(n, sizeof n, "%u", count);
    child = fork();
    if (child == 0) {
        execl(program, program, pid, "0", ours, "1", "1", from, n, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int subids_start_mapper(struct subids *s, uint32_t uid, uint32_t gid, pid_t *ret, struct err *e)
{
    pid_t target = getpid(), mapper;
    int pipe_ends[2];
    char go;

    if (pipe2(pipe_ends, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    mapper = fork();
    if (mapper == 0) {
        close(pipe_ends[1]);
        if (read(pipe_ends[0], &go, 1) != 1)
            _exit(1);
        _exit(run_idmap_program(uid_program, target, uid, s->uid_first, s->count) &&
                      run_idmap_program(gid_program, target, gid, s->gid_first, s->count)
                  ? 0
                  : 1);
    }
    close(pipe_ends[0]);
    s->go = pipe_ends[1];
    if (mapper < 0) {
        drop_fd(&s->go);
        return err_sys(e, "making a process");
    }
    *ret = mapper;
    return 0;
}

int subids_finish(struct subids *s, pid_t mapper, struct err *e)
{
    int status = -1;
    bool told = write(s->go, "", 1) == 1;

    drop_fd(&s->go);
    if (waitpid(mapper, &status, 0) != mapper || status != 0 || !told)
        return err_set(e, ERR_UPSTREAM,
                       "newuidmap or newgidmap refused ids from %u and %u; check /etc/subuid and "
                       "/etc/subgid",
                       s->uid_first, s->gid_first);
    return 0;
}

void subids_cancel(struct subids *s, pid_t mapper)
{
    drop_fd(&s->go);
    waitpid(mapper, NULL, 0);
}
