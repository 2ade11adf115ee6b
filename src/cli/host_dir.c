/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/own.h"
#include "cli/status.h"
#include "lib/ipc/handover.h"

static int status_of_errno(int error)
{
    switch (error) {
    case ENOENT:
        return EXIT_MISSING;
    case EACCES:
    case EPERM:
        return EXIT_DENIED;
    default:
        return EXIT_USAGE;
    }
}

int host_dir_pass(struct api_call *c, const char *path, bool writable)
{
    AUTO_CLOSE int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct err e;
    int error = errno;

    if (dir < 0) {
        cli_report("%s: cannot use %s as a workspace: %s", c->verb->name, path, strerror(error));
        return status_of_errno(error);
    }
    drop_fd(&c->handed);
    c->host_dir = path;
    return handover_make(dir, writable, &c->handed, &e) < 0 ? api_call_failed(c, &e) : 0;
}
