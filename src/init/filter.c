#include "init/init.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "filter_programs.h"

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

/* Offset of the low half of an argument: what the kernel looks at where it expects an int. */
#define LOW(n)        (offsetof(struct seccomp_data, args) + 8 * (n))
#define LOAD(at)      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(at))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE(error) RETURN(SECCOMP_RET_ERRNO | (error))
/* If the loaded value is k, the next statement runs; otherwise `skip` are skipped. */
#define IF(k, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(k), 0, (skip))

/* One call whose argument n must not be `value`: six statements. */
#define FORBID(nr, n, value)                                                                       \
    IF(nr, 4), LOAD(LOW(n)), IF(value, 1), REFUSE(EPERM), RETURN(SECCOMP_RET_ALLOW)

/* For programs only: what PID 1 and its file operations still need, and what libseccomp cannot say,
 * since it compares whole 64-bit arguments where the kernel looks at 32 bits. No call may name
 * PID 1. */
static const struct sock_filter guard[] = {
    LOAD(offsetof(struct seccomp_data, nr)),
    IF(SYS_openat2, 1),
    REFUSE(ENOSYS), /* its mode, and so a set-user-id bit, is behind a pointer */
    FORBID(SYS_kill, 0, 1),
    FORBID(SYS_tkill, 0, 1),
    FORBID(SYS_rt_sigqueueinfo, 0, 1),
    FORBID(SYS_rt_tgsigqueueinfo, 0, 1),
    FORBID(SYS_pidfd_open, 0, 1),
    FORBID(SYS_sched_setaffinity, 0, 1),
    FORBID(SYS_sched_setscheduler, 0, 1),
    FORBID(SYS_sched_setparam, 0, 1),
    FORBID(SYS_sched_setattr, 0, 1),
    FORBID(SYS_setpriority, 1, 1),
    FORBID(SYS_ioprio_set, 1, 1),
    IF(SYS_tgkill, 6),
    LOAD(LOW(0)),
    IF(1, 1),
    REFUSE(EPERM),
    LOAD(LOW(1)),
    IF(1, 1),
    REFUSE(EPERM),
    IF(SYS_ioctl, 5),
    LOAD(LOW(1)),
    IF(0x5412 /* TIOCSTI */, 1),
    REFUSE(EPERM),
    IF(0x541C /* TIOCLINUX */, 1),
    REFUSE(EPERM),
    RETURN(SECCOMP_RET_ALLOW),
};

int filter_guard(struct err *e)
{
    return load(guard, COUNT_OF(guard), e);
}
