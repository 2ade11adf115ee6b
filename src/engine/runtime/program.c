/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/runtime/program.h"

#include <fcntl.h>
#include <limits.h>

#include "base/own.h"
#include "lib/proc/sealed.h"
#include "lib/proc/spawn.h"

enum { PROGRAM_MAX = 64 << 20 };

int program_seal(const char *name, int *ret, struct err *e)
{
    AUTO_CLOSE int from = -1;
    char path[PATH_MAX];
    int r = spawn_find(name, path, sizeof path, e);

    if (r < 0)
        return r;
    from = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return err_sys(e, "opening %s", path);
    return sealed_copy(from, name, PROGRAM_MAX, ret, e);
}
