/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

#include "base/own.h"
#include "lib/fence/fence.h"
#include "lib/fence/call_names.h"

static fence_refused_fn *on_refused;
static atomic_uchar reported[COUNT_OF(call_names)];

static void set_result(ucontext_t *context, long result)
{
#if defined(__x86_64__)
    context->uc_mcontext.gregs[REG_RAX] = result;
#elif defined(__aarch64__)
    context->uc_mcontext.regs[0] = (unsigned long)result;
#else
#error "this architecture is not supported"
#endif
}

/* The signal is synchronous: it comes in place of the refused call, so the handler may do
 * everything that its caller could have done there. */
static void on_sigsys(int signo, siginfo_t *info, void *context)
{
    int call = info->si_syscall, saved = errno;
    bool known = call >= 0 && (size_t)call < COUNT_OF(call_names);

    if (!known || !atomic_exchange(&reported[call], 1))
        on_refused(call, known && call_names[call] ? call_names[call] : "unknown");
    errno = saved;
    set_result(context, -EPERM);
}

int fence_trap(fence_refused_fn *refused, struct err *e)
{
    struct sigaction act = { .sa_sigaction = on_sigsys, .sa_flags = SA_SIGINFO | SA_NODEFER };
    sigset_t set;

    on_refused = refused;
    sigemptyset(&set);
    sigaddset(&set, SIGSYS);
    if (sigaction(SIGSYS, &act, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &set, NULL) < 0)
        return err_sys(e, "handling SIGSYS");
    return 0;
}
