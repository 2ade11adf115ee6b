/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/proc/sys.h"

static int seal_memfd(int fd, const char *name, struct err *e)
{
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return err_sys(e, "sealing %s", name);
    return 0;
}

int sealed_copy(int from, const char *name, size_t max, int *ret, struct err *e)
{
    AUTO_CLOSE int to = -1;
    struct stat st;
    off_t at = 0;

    if (fstat(from, &st) < 0)
        return err_sys(e, "reading %s", name);
    if ((uint64_t)st.st_size > max)
        return err_set(e, ERR_TOO_BIG, "%s has more than %zu bytes", name, max);
    to = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (to < 0 && errno == EINVAL)
        to = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING); /* before Linux 6.3 */
    if (to < 0)
        return err_sys(e, "making memory for %s", name);
    while (at < st.st_size) {
        ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

        if (n <= 0)
            return n < 0 ? err_sys(e, "reading %s", name)
                         : err_set(e, ERR_BUSY, "%s became shorter while it was read", name);
    }
    if (seal_memfd(to, name, e) < 0)
        return -(int)ERR_SYS;
    *ret = take_fd(&to);
    return 0;
}

int sealed_text(struct str text, const char *name, int *ret, struct err *e)
{
    AUTO_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r;

    if (fd < 0)
        return err_sys(e, "making memory for %s", name);
    r = write_all(fd, text, e);
    if (r < 0)
        return err_wrap(e, r, "%s", name);
    r = seal_memfd(fd, name, e);
    if (r < 0)
        return r;
    *ret = take_fd(&fd);
    return 0;
}
