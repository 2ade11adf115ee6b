/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/headers.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

static int open_private_file(const char *path, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "opening %s", path);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        return err_set(e, ERR_DENIED,
                       "%s must be a file that belongs to uid %u and that only it can read: chmod "
                       "0600",
                       path, (unsigned)geteuid());
    *ret = take_fd(&fd);
    return 0;
}

/* One byte of room more than there may be. */
static int copy_headers(int from, int to, const char *path, struct err *e)
{
    char text[HEADERS_FILE_MAX + 1];
    size_t n = 0;
    ssize_t got;

    while ((got = read(from, text + n, sizeof text - n)) > 0)
        n += (size_t)got;
    if (got == 0 && n <= HEADERS_FILE_MAX)
        got = write(to, text, n) == (ssize_t)n && lseek(to, 0, SEEK_SET) == 0 ? 0 : -1;
    explicit_bzero(text, sizeof text);
    if (got < 0)
        return err_sys(e, "reading %s", path);
    if (n > HEADERS_FILE_MAX)
        return err_set(e, ERR_TOO_BIG, "%s has more than %d bytes", path, HEADERS_FILE_MAX);
    return 0;
}

int headers_open(const char *path, int *ret, struct err *e)
{
    AUTO_CLOSE int from = -1, to = -1;
    int r = open_private_file(path, &from, e);

    if (r >= 0) {
        to = memfd_create("headers", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        r = to < 0 ? err_sys(e, "making a file in memory") : copy_headers(from, to, path, e);
    }
    if (r >= 0 &&
        fcntl(to, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        r = err_sys(e, "sealing a file in memory");
    if (r < 0)
        return err_wrap(e, r, "hub.headers_file");
    *ret = take_fd(&to);
    return 0;
}
