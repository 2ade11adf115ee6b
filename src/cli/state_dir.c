/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int state_dir_path(char *out, size_t cap, struct err *e)
{
    const char *state = getenv("SANDBOXER_STATE"), *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    int n;

    if (state && state[0] == '/')
        n = snprintf(out, cap, "%s", state);
    else if (geteuid() == 0)
        n = snprintf(out, cap, "/var/lib/sandboxer");
    else if (data && data[0] == '/')
        n = snprintf(out, cap, "%s/sandboxer", data);
    else if (home && home[0] == '/')
        n = snprintf(out, cap, "%s/.local/share/sandboxer", home[1] ? home : "");
    else
        return err_set(
            e, ERR_INVALID,
            "there is no default state directory without HOME; set SANDBOXER_STATE to a directory");
    return n < (int)cap
               ? 0
               : err_set(e, ERR_TOO_BIG, "the path of the state directory has more than %zu bytes",
                         cap - 1);
}

int state_dir_fail_size(const char *path, struct err *e)
{
    return err_set(e, ERR_TOO_BIG,
                   "%.120s…: the path of the state directory is too long, a file in it may have %d "
                   "bytes; set SANDBOXER_STATE to a shorter one",
                   path, PATH_MAX - 1);
}

int state_dir_open(int *ret, struct err *e)
{
    char path[PATH_MAX];
    struct stat st;
    int r = state_dir_path(path, sizeof path, e);

    if (r < 0)
        return r;
    for (char *at = path + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return err_sys(e, "making %s", path);
        *at = '/';
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "making %s", path);
    *ret = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret < 0 || fstat(*ret, &st) < 0)
        return err_sys(e, "opening %s", path);
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return err_set(
            e, ERR_DENIED,
            "%s belongs to user %u with mode %o; it must belong to user %u and be writable by its "
            "owner only (chown, chmod go-w), or name another with SANDBOXER_STATE",
            path, st.st_uid, st.st_mode & 07777, geteuid());
    return 0;
}
