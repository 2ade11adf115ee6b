/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/headers.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "lib/proc/sealed.h"

int headers_open(const char *path, int *ret, struct err *e)
{
    AUTO(buf_done) struct buf text = BUF_INIT(HEADERS_FILE_MAX);
    AUTO_CLOSE int from = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), to = -1;
    struct stat st;
    int r;

    if (from < 0 || fstat(from, &st) < 0)
        r = err_sys(e, "opening %s", path);
    else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
        r = err_set(e, ERR_DENIED,
                    "%s must be a file that belongs to uid %u and that only it can read: chmod "
                    "0600",
                    path, (unsigned)geteuid());
    else
        r = err_wrap(e, buf_read_fd(&text, from, e), "%s", path);
    if (r >= 0)
        r = sealed_text(buf_str(&text), "headers", &to, e);
    if (text.p)
        explicit_bzero(text.p, text.n);
    if (r >= 0 && lseek(to, 0, SEEK_SET) < 0)
        r = err_sys(e, "rewinding the headers");
    if (r < 0)
        return err_wrap(e, r, "hub.headers_file");
    *ret = take_fd(&to);
    return 0;
}
