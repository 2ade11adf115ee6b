/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/learn/policy_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cli/text_file.h"

static bool is_base_file(const char *a, const char *b)
{
    struct stat x, y;

    return a && b && stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

int policy_file_check(const char *path, const char *base, struct err *e)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_sys(e, "--write %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, "--write %s: not a regular file; choose another name", path);
    if (is_base_file(path, base))
        return 0;
    return err_set(e, ERR_CONFLICT,
                   "--write %s: the file exists; give it as --policy, too, so that the proposal "
                   "begins with it, or choose another name",
                   path);
}

/* The text that the proposal began with is still in the file. */
static int check_unchanged(const char *path, struct str text, struct err *e)
{
    AUTO(buf_done) struct buf now = BUF_INIT(TEXT_FILE_MAX);
    int r = text_file_read(path, &now, e);

    if (r < 0 || str_eq(buf_str(&now), text))
        return r;
    return err_set(e, ERR_CONFLICT,
                   "--write %s: the file was changed meanwhile, and is left as it is; learn again",
                   path);
}

/* A new file beside the path, with the access rights of the old one. */
static int make_beside(const char *path, char out[static PATH_MAX], int *ret, struct err *e)
{
    struct stat st;
    mode_t mask = umask(0);

    umask(mask);
    if (snprintf(out, PATH_MAX, "%s.XXXXXX", path) >= PATH_MAX)
        return err_set(e, ERR_INVALID,
                       "--write: a new file beside %.80s… would have a path of more than %d bytes; "
                       "name a shorter path",
                       path, PATH_MAX - 1);
    *ret = mkostemp(out, O_CLOEXEC);
    if (*ret < 0)
        return err_sys(e, "--write %s: making a file beside it", path);
    if (fchmod(*ret, stat(path, &st) == 0 ? st.st_mode & 0777 : 0666 & ~mask) < 0)
        return err_sys(e, "--write %s: setting its access rights", path);
    return 0;
}

/* link() fails where the file exists; rename() replaces it. */
static int put_into_place(const char *made, const char *path, bool replace, struct err *e)
{
    if (replace ? rename(made, path) == 0 : link(made, path) == 0)
        return 0;
    return errno == EEXIST ? err_set(e, ERR_CONFLICT,
                                     "--write %s: the file was made meanwhile by another "
                                     "program, and is left as it is",
                                     path)
                           : err_sys(e, "--write %s", path);
}

int policy_file_write(const char *path, const char *base, struct str base_text, struct str text,
                      struct err *e)
{
    AUTO_CLOSE int fd = -1;
    char made[PATH_MAX];
    bool replace = is_base_file(path, base);
    int r = policy_file_check(path, base, e);

    if (r >= 0)
        r = make_beside(path, made, &fd, e);
    if (r < 0)
        return r;
    r = write_all(fd, text, e);
    if (r >= 0 && fsync(fd) < 0)
        r = err_sys(e, "--write %s", path);
    if (r >= 0 && replace)
        r = check_unchanged(path, base_text, e);
    if (r >= 0)
        r = put_into_place(made, path, replace, e);
    unlink(made); /* gone already after a rename */
    return r;
}
