/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/fence/fence.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "lib/proc/caps.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#define NATIVE 0
#endif
_Static_assert(NATIVE != 0, "which architecture is this?");

static int set_fence_limits(const struct fence_rules *f, struct err *e)
{
    struct rlimit files, none = { 0, 0 };

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return err_sys(e, "reading the limit of descriptors");
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &none) < 0)
        return err_sys(e, "setting resource limits");
    return 0;
}

static int set_flags(const struct fence_rules *f, struct err *e)
{
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "giving up new privileges");
    return 0;
}

static int drop_fence_caps(const struct fence_rules *f, struct err *e)
{
    int r = 0;

    if (caps_permitted() & CAP_BIT(CAP_SETPCAP))
        r = caps_bound(UINT64_MAX, 0, e);
    if (r >= 0)
        r = caps_ambient(0, e);
    return r < 0 ? r : caps_set(0, 0, e);
}

/* ---- system calls ---- */

enum { FILTER_MAX = 1024 };

struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short n;
    bool full;
};

#define LOAD(what)     ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (what)))
#define RETURN(action) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (action)))
#define JUMP(test, value, yes, no)                                                                 \
    ((struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, (uint32_t)(value), (yes), (no)))
#define ARGUMENT(i) ((uint32_t)offsetof(struct seccomp_data, args) + 8 * (i))

static void add_filter_code(struct filter *f, struct sock_filter s)
{
    if (f->n < FILTER_MAX)
        f->code[f->n++] = s;
    else
        f->full = true;
}

static void add_allowed_call(struct filter *f, int call)
{
    add_filter_code(f, JUMP(BPF_JEQ, call, 0, 1));
    add_filter_code(f, RETURN(SECCOMP_RET_ALLOW));
}

/* Memory is never both written and executed. */
static void add_no_exec(struct filter *f, int call, uint32_t refusal)
{
    add_filter_code(f, JUMP(BPF_JEQ, call, 0, 4));
    add_filter_code(f, LOAD(ARGUMENT(2)));
    add_filter_code(f, JUMP(BPF_JSET, PROT_EXEC, 0, 1));
    add_filter_code(f, RETURN(refusal));
    add_filter_code(f, RETURN(SECCOMP_RET_ALLOW));
}

/* The call with one of these values as its argument of that number. */
static void add_value_check(struct filter *f, int call, unsigned argument, const int *values,
                            size_t n, uint32_t refusal)
{
    add_filter_code(f, JUMP(BPF_JEQ, call, 0, (unsigned char)(2 * n + 2)));
    add_filter_code(f, LOAD(ARGUMENT(argument)));
    for (size_t i = 0; i < n; i++) {
        add_filter_code(f, JUMP(BPF_JEQ, values[i], 0, 1));
        add_filter_code(f, RETURN(SECCOMP_RET_ALLOW));
    }
    add_filter_code(f, RETURN(refusal));
}

/* Threads, but no processes and no namespaces. */
static void add_thread_check(struct filter *f, uint32_t refusal)
{
    add_filter_code(f, JUMP(BPF_JEQ, SYS_clone, 0, 5));
    add_filter_code(f, LOAD(ARGUMENT(0)));
    add_filter_code(f, JUMP(BPF_JSET, 0x7e020080, 2, 0)); /* CLONE_NEW* */
    add_filter_code(f, JUMP(BPF_JSET, 0x00010000, 0, 1)); /* CLONE_THREAD */
    add_filter_code(f, RETURN(SECCOMP_RET_ALLOW));
    add_filter_code(f, RETURN(refusal));
    /* Its flags are behind a pointer; the C library then uses clone(). */
    add_filter_code(f, JUMP(BPF_JEQ, SYS_clone3, 0, 1));
    add_filter_code(f, RETURN(SECCOMP_RET_ERRNO | ENOSYS));
}

/* The calls with arguments last: each ends in a return. The kernel keeps which calls are allowed
 * without a look at their arguments. */
static int set_filter(const struct fence_rules *fence, struct err *e)
{
    bool trap = fence->refusal == FENCE_TRAP;
    uint32_t denied = trap ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | EPERM;
    static struct filter f;
    struct sock_fprog p = { .filter = f.code };

    f.n = 0;
    add_filter_code(&f, LOAD((uint32_t)offsetof(struct seccomp_data, arch)));
    add_filter_code(&f, JUMP(BPF_JEQ, NATIVE, 1, 0));
    add_filter_code(&f, RETURN(SECCOMP_RET_KILL_PROCESS));
    add_filter_code(&f, LOAD((uint32_t)offsetof(struct seccomp_data, nr)));
    add_allowed_call(&f, -1); /* a call that a tracer has cancelled */
    for (size_t k = 0; k < FENCE_LISTS_MAX; k++)
        for (size_t i = 0; i < fence->calls[k].n; i++)
            add_allowed_call(&f, fence->calls[k].p[i]);
    add_no_exec(&f, SYS_mmap, denied);
    add_no_exec(&f, SYS_mprotect, denied);
    add_value_check(&f, SYS_socket, 0, fence->families, fence->n_families, denied);
    if (fence->pairs)
        add_value_check(&f, SYS_socketpair, 0, &(const int){ AF_UNIX }, 1, denied);
    else
        add_value_check(&f, SYS_socketpair, 0, fence->families, fence->n_families, denied);
    add_value_check(&f, SYS_ioctl, 1, fence->ioctls, fence->n_ioctls, denied);
    add_value_check(&f, SYS_prlimit64, 0, &(const int){ 0 }, 1, denied); /* of this process */
    if (fence->threads)
        add_thread_check(&f, denied);
    add_filter_code(&f, RETURN(trap ? SECCOMP_RET_TRAP : SECCOMP_RET_ERRNO | ENOSYS));
    if (f.full)
        return err_set(e, ERR_BUG, "the system call filter is longer than %d", FILTER_MAX);
    p.len = f.n;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
        return err_sys(e, "loading the system call filter");
    return 0;
}

/* The order matters: each step still has the rights that it needs, and may take away those of the
 * steps before it. */
static const struct {
    const char *name;
    int (*run)(const struct fence_rules *f, struct err *e);
} steps[] = {
    { "limits", set_fence_limits },      { "flags", set_flags },
    { "capabilities", drop_fence_caps }, { "landlock", fence_landlock },
    { "system calls", set_filter },
};

int fence_apply(const struct fence_rules *f, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        int r = steps[i].run(f, e);

        if (r < 0)
            return err_wrap(e, r, "confining %s (%s)", f->who, steps[i].name);
    }
    return 0;
}
