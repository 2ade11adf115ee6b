/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/file_take.h"

#include <errno.h>

#include "harness/tap.h"

static void check_failure(const struct backend_end *end, enum err_code code, const char *msg)
{
    struct err e;

    file_failure(end, &e);
    CHECK_INT(e.code, code);
    if (code)
        CHECK_STR(str_from(e.msg), msg);
    CHECK_INT(e.sys, end->sys);
}

TEST(an_operation_that_memory_ended_says_so)
{
    struct backend_end end = { .how = BACKEND_SIGNALLED, .status = SIGKILL };

    check_failure(&end, ERR_SYS, "the operation was killed");
    end.oom_kills = 1;
    check_failure(&end, ERR_SYS, "killed: out of memory");
    end.memory_limit = 64 << 20;
    check_failure(&end, ERR_SYS, "killed: out of memory (limit 64M)");
    end.status = SIGTERM; /* another's signal while others were killed */
    check_failure(&end, ERR_SYS, "the operation was killed");
    end = (struct backend_end){ .how = BACKEND_EXITED, .oom_kills = 1 };
    check_failure(&end, ERR_OK, "");
}

TEST(a_full_disk_has_its_limit)
{
    static const int numbers[] = { ENOSPC, EDQUOT };

    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        struct backend_end end = {
            .how = BACKEND_EXITED, .status = 1, .sys = numbers[i], .msg = "full"
        };

        check_failure(&end, ERR_FULL, "full");
        end.disk_limit = 192 << 20;
        check_failure(&end, ERR_FULL, "full (the sandbox's disk limit is 192M)");
    }
}
