#include "crypto/random.h"

#include <errno.h>
#include <sys/random.h>

int crypto_random(void *out, size_t n, struct err *e)
{
    char *p = out;

    while (n > 0) {
        ssize_t got = getrandom(p, n, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_sys(e, "reading random bytes");
        p += got;
        n -= (size_t)got;
    }
    return 0;
}
