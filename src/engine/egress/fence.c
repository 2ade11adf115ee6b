/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/egress/fence.h"

#include <sys/socket.h>

#include "base/own.h"
#include "lib/fence/calls.h"
#include "lib/fence/fence.h"

int fence_enter(const struct fence *f, struct err *e)
{
    static const int worker_calls[] = { SYS_accept4, SYS_recvmmsg, SYS_sendmmsg, SYS_splice };
    static const int open_call = SYS_openat; /* only with a directory */
    static const int families[] = { AF_INET, AF_INET6 };
    bool files = f->readable >= 0 || f->appendable >= 0;
    const struct fence_place places[] = { { f->readable, FENCE_READ_FILES },
                                          { f->appendable, FENCE_APPEND_FILES } };
    const struct fence_rules rules = { .who = "the worker",
                                       .calls = { FENCE_CALLS(fence_base_calls),
                                                  FENCE_CALLS(worker_calls),
                                                  { &open_call, files ? 1 : 0 } },
                                       .families = families,
                                       .n_families = COUNT_OF(families),
                                       .places = places,
                                       .n_places = COUNT_OF(places),
                                       .tcp = FENCE_TCP_CONNECT,
                                       .refusal = FENCE_ENOSYS };

    return fence_apply(&rules, e);
}

int fence_enter_reader(struct err *e)
{
    /* tgkill is abort()'s. */
    static const int calls[] = {
        SYS_brk,    SYS_clock_gettime, SYS_close,          SYS_exit_group,   SYS_fcntl,
        SYS_fstat,  SYS_futex,         SYS_getpid,         SYS_getrandom,    SYS_gettid,
        SYS_lseek,  SYS_madvise,       SYS_mremap,         SYS_munmap,       SYS_newfstatat,
        SYS_read,   SYS_rt_sigaction,  SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall,
        SYS_tgkill, SYS_write,         SYS_writev
    };
    const struct fence_rules rules = { .who = "the reader of logs",
                                       .calls = { FENCE_CALLS(calls) },
                                       .refusal = FENCE_ENOSYS };

    return fence_apply(&rules, e);
}
