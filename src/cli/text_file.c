/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text_file.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"

int text_file_read(const char *path, struct buf *out, struct err *e)
{
    AUTO_CLOSE int file =
        strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return err_sys(e, "%s", path);
    return err_wrap(e, buf_read_fd(out, file, e), "%s", path);
}
