/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/init/init.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/init/filter_action.h"
#include "engine/init/filter_programs.h"
#include "lib/proc/sys.h"

enum {
    FILTER_ROOM = 384,
    /* Calls that PID 1 decides one by one (nested.c). */
    FILTER_ASKED = KERNEL_NESTED_SECCOMP | KERNEL_SOCKET_FILTERS,
    KERNEL_ENOTSUPP = 524, /* internal to the kernel, not in errno.h */
};

_Static_assert(COUNT_OF(filter_standard) <= FILTER_ROOM && COUNT_OF(filter_strict) <= FILTER_ROOM,
               "the copy has room");

/* Replaces every placeholder of the pass by the drawn number; returns how many there were. */
static int write_pass(struct sock_filter *code, size_t n, uint32_t pass, uint32_t drawn)
{
    int found = 0;

    for (size_t i = 0; i < n; i++)
        if (BPF_CLASS(code[i].code) == BPF_JMP && code[i].k == pass) {
            code[i].k = drawn;
            found++;
        }
    return found;
}

uint32_t filter_resolve(uint32_t action, uint32_t kernel)
{
    uint32_t bit;

    if ((action & FILTER_UNLESS_MASK_) != FILTER_UNLESS_)
        return action;
    bit = action >> 16 & 0xff;
    if (!(kernel & bit))
        return FILTER_REFUSE(action & 0xffff);
    return bit & FILTER_ASKED ? SECCOMP_RET_USER_NOTIF : FILTER_ALLOW;
}

static int explain_load(struct err *e)
{
    if (errno == KERNEL_ENOTSUPP)
        return err_set(
            e, ERR_BUSY,
            "loading the system call filter: the kernel's limit for BPF programs is reached; raise "
            "the sysctl net.core.bpf_jit_limit, or end processes that load many filters");
    return err_sys(e, "loading the system call filter");
}

static int load_filter_program(const struct sock_filter *program, size_t n, uint32_t kernel,
                               int *ret_listener, struct err *e)
{
    unsigned flags = kernel & FILTER_ASKED ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
    struct sock_filter code[FILTER_ROOM];
    struct sock_fprog p = { .len = (unsigned short)n, .filter = code };
    long loaded;

    if (getrandom(sys_openat2_pass, sizeof sys_openat2_pass, 0) != sizeof sys_openat2_pass)
        return err_sys(e, "drawing random numbers");
    memcpy(code, program, n * sizeof code[0]);
    if (write_pass(code, n, FILTER_PASS_FIRST, sys_openat2_pass[0]) < 1 ||
        write_pass(code, n, FILTER_PASS_SECOND, sys_openat2_pass[1]) < 1)
        return err_set(e, ERR_BUG, "the system call filter has no placeholder for its pass");
    for (size_t i = 0; i < n; i++)
        if (code[i].code == (BPF_RET | BPF_K))
            code[i].k = filter_resolve(code[i].k, kernel);
    loaded = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &p);
    if (loaded < 0)
        return explain_load(e);
    *ret_listener = flags ? (int)loaded : -1;
    return 0;
}

int filter_load(uint32_t kernel, int *ret_listener, struct err *e)
{
    return kernel & KERNEL_STRICT ? load_filter_program(filter_strict, COUNT_OF(filter_strict),
                                                        kernel, ret_listener, e)
                                  : load_filter_program(filter_standard, COUNT_OF(filter_standard),
                                                        kernel, ret_listener, e);
}
