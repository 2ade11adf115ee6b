/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/fault.h"

#include <errno.h>

#include "harness/tap.h"

TEST(what_a_request_got_wrong_is_told_apart)
{
    CHECK_INT(backend_fault_code(ENOENT), ERR_NOT_FOUND);
    CHECK_INT(backend_fault_code(EACCES), ERR_DENIED);
    CHECK_INT(backend_fault_code(EISDIR), ERR_INVALID);
    CHECK_INT(backend_fault_code(ENOTEMPTY), ERR_CONFLICT);
    CHECK_INT(backend_fault_code(ENOSPC), ERR_FULL);
    CHECK_INT(backend_fault_code(EOPNOTSUPP), ERR_UNSUPPORTED);
}

TEST(everything_else_stays_a_failure_of_the_system)
{
    CHECK_INT(backend_fault_code(EIO), ERR_SYS);
    CHECK_INT(backend_fault_code(ENOMEM), ERR_SYS);
    CHECK_INT(backend_fault_code(0), ERR_SYS);
    CHECK_INT(backend_fault_code(-1), ERR_SYS);
}
