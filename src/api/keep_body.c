#include "api/keep_body.h"

#include <errno.h>
#include <unistd.h>

int keep_body(int fd, uint64_t *size, uint64_t max, struct str data, struct err *e)
{
    if (data.n > max - *size)
        return err_set(e, ERR_TOO_BIG, "the file has more than %llu bytes, images.max_bytes",
                       (unsigned long long)max);
    while (data.n) {
        ssize_t n = write(fd, data.p, data.n);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "keeping the file");
        *size += (uint64_t)n;
        data = (struct str){ data.p + n, data.n - (size_t)n };
    }
    return 0;
}
