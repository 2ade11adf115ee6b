#include "init/init.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "init/filter_programs.h"

static int load(const struct sock_filter *program, size_t n, struct err *e)
{
    struct sock_fprog p = { .len = (unsigned short)n };

    /* The kernel copies the program; only the header's type is not const. */
    __builtin_memcpy(&p.filter, &program, sizeof program);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
        return err_sys(e, "loading the system call filter");
    return 0;
}

int filter_load(bool may_set_ids, struct err *e)
{
    return may_set_ids ? load(filter_with_set_ids, COUNT_OF(filter_with_set_ids), e)
                       : load(filter_plain, COUNT_OF(filter_plain), e);
}

int filter_guard(struct err *e)
{
    return load(filter_for_programs, COUNT_OF(filter_for_programs), e);
}
