/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/session_key.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "base/io.h"

#define PREFIX "ses_"

static int read_session_key(const char *path, char ret[static ID_MAX], struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    ssize_t n;

    if (fd < 0)
        return err_sys(e, "%s", path);
    if (fstat(fd, &st) < 0)
        return err_sys(e, "%s", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(e, ERR_DENIED, "%s: must be a file that only you may read (chmod 600)",
                       path);
    n = read(fd, ret, ID_MAX - 1);
    if (n < 0)
        return err_sys(e, "%s", path);
    ret[n] = 0;
    if (!id_valid(PREFIX, str_from(ret)))
        return err_set(e, ERR_INVALID,
                       "%s: does not contain a session key; remove the file, or name another one",
                       path);
    return 0;
}

/* Links a complete file into place, so that concurrent processes all find the same key. */
static int make_session_key(const char *path, struct err *e)
{
    char key[ID_MAX], made[PATH_MAX];
    AUTO_CLOSE int fd = -1;
    int r = id_make(PREFIX, key, e);

    if (r < 0)
        return r;
    if (snprintf(made, sizeof made, "%s.XXXXXX", path) >= (int)sizeof made)
        return err_set(e, ERR_TOO_BIG, "%.80s…: the path is too long", path);
    fd = mkostemp(made, O_CLOEXEC); /* 0600 */
    if (fd < 0)
        return err_sys(e, "%s", path);
    r = write_all(fd, str_from(key), e);
    if (r >= 0 && link(made, path) < 0 && errno != EEXIST)
        r = err_sys(e, "%s", path);
    unlink(made);
    return r;
}

int session_key_load(const char *path, char ret[static ID_MAX], struct err *e)
{
    int r = read_session_key(path, ret, e);

    if (r == -(int)ERR_SYS && e->sys == ENOENT) {
        r = make_session_key(path, e);
        if (r >= 0)
            r = read_session_key(path, ret, e);
    }
    return r;
}
