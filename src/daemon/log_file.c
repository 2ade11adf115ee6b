/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

bool log_file_path(const char *state, bool older, char *out, size_t cap)
{
    return snprintf(out, cap, "%s/sandboxerd.log%s", state, older ? ".1" : "") < (int)cap;
}

/* -ERR_TOO_BIG: the path. */
static int open_log(const char *state, bool older, int flags, int *ret, struct err *e)
{
    char path[PATH_MAX];

    if (!log_file_path(state, older, path, sizeof path))
        return err_set(e, ERR_TOO_BIG,
                       "the path of the log below %.80s… is longer than %d bytes; choose a shorter "
                       "state directory",
                       state, PATH_MAX - 1);
    *ret = open(path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *ret < 0 ? err_sys(e, "opening %s", path) : 0;
}

int log_file_open(const char *state, struct err *e)
{
    AUTO_CLOSE int log = -1;
    int r = open_log(state, false, O_WRONLY | O_CREAT | O_APPEND, &log, e);

    if (r >= 0 && dup2(log, STDERR_FILENO) < 0)
        return err_sys(e, "writing the log to %s", state);
    return r;
}

bool log_file_is_stderr(const char *state)
{
    char path[PATH_MAX];
    struct stat ours, found;

    return log_file_path(state, false, path, sizeof path) && fstat(STDERR_FILENO, &ours) == 0 &&
           lstat(path, &found) == 0 && ours.st_dev == found.st_dev && ours.st_ino == found.st_ino;
}

static int copy_log(int from, int to, struct err *e)
{
    ssize_t n;

    do
        n = sendfile(to, from, NULL, LOG_FILE_BYTES_MAX);
    while (n > 0 || (n < 0 && errno == EINTR));
    return n < 0 ? err_sys(e, "copying the log") : 0;
}

int log_file_bound(const char *state, size_t most, struct err *e)
{
    AUTO_CLOSE int from = -1, to = -1;
    struct stat st;
    int r;

    if (fstat(STDERR_FILENO, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size <= most ||
        !log_file_is_stderr(state))
        return 0;
    r = open_log(state, false, O_RDONLY, &from, e);
    if (r >= 0)
        r = open_log(state, true, O_WRONLY | O_CREAT | O_TRUNC, &to, e);
    if (r >= 0)
        r = copy_log(from, to, e);
    if (ftruncate(STDERR_FILENO, 0) < 0 && r >= 0) /* the bound holds even if the copy failed */
        return err_sys(e, "emptying the log");
    return r;
}
