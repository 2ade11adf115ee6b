#include "runtime/program.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/spawn.h"
#include "proc/sys.h"

int program_seal(const char *name, int *ret, struct err *e)
{
    AUTO_CLOSE int from = -1, to = -1;
    char path[4096];
    struct stat st;
    int r = spawn_find(name, path, sizeof path, e);

    if (r < 0)
        return r;
    from = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0)
        return err_sys(e, "opening %s", path);
    to = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (to < 0 && errno == EINVAL)
        to = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING); /* before Linux 6.3 */
    if (to < 0)
        return err_sys(e, "making memory for %s", name);
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(to, from, NULL, (size_t)left);

        if (n <= 0)
            return err_sys(e, "reading %s", path);
        left -= n;
    }
    if (fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return err_sys(e, "sealing %s", name);
    *ret = take_fd(&to);
    return 0;
}
