#include "cli/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

int text_file_read(const char *path, struct buf *out, struct err *e)
{
    AUTO_CLOSE int file =
        strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    char piece[16 << 10];
    ssize_t n;

    if (file < 0)
        return err_sys(e, "%s", path);
    do {
        n = read(file, piece, sizeof piece);
        if (n < 0 && errno != EINTR)
            return err_sys(e, "reading %s", path);
        if (n > 0 && buf_add(out, (struct str){ piece, (size_t)n }) < 0)
            return err_set(e, ERR_TOO_BIG, "%s: longer than %zu bytes", path, out->max);
    } while (n != 0);
    return 0;
}
