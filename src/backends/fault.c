/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/fault.h"

#include <errno.h>

#include "base/own.h"

static const struct {
    int sys;
    enum err_code code;
} faults[] = {
    { ENOENT, ERR_NOT_FOUND },
    { EACCES, ERR_DENIED },
    { EPERM, ERR_DENIED },
    { EROFS, ERR_DENIED },
    { ENOTDIR, ERR_INVALID },
    { EISDIR, ERR_INVALID },
    { ELOOP, ERR_INVALID },
    { EINVAL, ERR_INVALID },
    { ENAMETOOLONG, ERR_INVALID },
    { ENOEXEC, ERR_INVALID },
    { EEXIST, ERR_CONFLICT },
    { ENOTEMPTY, ERR_CONFLICT },
    { EBUSY, ERR_CONFLICT },
    { ENOSPC, ERR_FULL },
    { EDQUOT, ERR_FULL },
    { EFBIG, ERR_TOO_BIG },
    { EOPNOTSUPP, ERR_UNSUPPORTED },
};

enum err_code backend_fault_code(int sys)
{
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        if (faults[i].sys == sys)
            return faults[i].code;
    return ERR_SYS;
}
