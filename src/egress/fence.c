#include "egress/fence.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "egress/fence_calls.h"
#include "proc/caps.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#define NATIVE 0
#endif
_Static_assert(NATIVE != 0, "which architecture is this?");

static int set_limits(const struct fence *f, struct err *e)
{
    struct rlimit files, none = { 0, 0 };

    (void)f;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return err_sys(e, "reading the limit of descriptors");
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &none) < 0)
        return err_sys(e, "setting resource limits");
    return 0;
}

static int set_flags(const struct fence *f, struct err *e)
{
    (void)f;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "giving up new privileges");
    return 0;
}

static int set_caps(const struct fence *f, struct err *e)
{
    int r = 0;

    (void)f;
    if (caps_permitted() & CAP_BIT(CAP_SETPCAP))
        r = caps_bound(UINT64_MAX, 0, e);
    if (r >= 0)
        r = caps_ambient(0, e);
    return r < 0 ? r : caps_set(0, 0, e);
}

/* ---- Landlock ---- */

/* Newer than Debian 12's headers. */
struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};
enum {
    ABI_REFER = 2,
    ABI_TRUNCATE = 3,
    ABI_NET = 4,
    ABI_IOCTL = 5,
    ABI_SCOPE = 6,
    NET_BIND_TCP = 1 << 0,
    SCOPE_ABSTRACT_UNIX = 1 << 0,
    SCOPE_SIGNAL = 1 << 1,
};

static struct ruleset_attr make_attr(int abi, size_t *ret_size)
{
    struct ruleset_attr a = { .handled_access_fs = (1u << 13) - 1 };

    a.handled_access_fs |= abi >= ABI_REFER ? 1u << 13 : 0;
    a.handled_access_fs |= abi >= ABI_TRUNCATE ? 1u << 14 : 0;
    a.handled_access_fs |= abi >= ABI_IOCTL ? 1u << 15 : 0;
    a.handled_access_net = abi >= ABI_NET ? NET_BIND_TCP : 0;
    a.scoped = abi >= ABI_SCOPE ? SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL : 0;
    *ret_size = abi >= ABI_SCOPE ? sizeof a
                : abi >= ABI_NET ? offsetof(struct ruleset_attr, scoped)
                                 : offsetof(struct ruleset_attr, handled_access_net);
    return a;
}

/* For what is below the directory; one that is not there needs nothing. */
static int add_rule(int ruleset, int dir, uint64_t allowed, struct err *e)
{
    struct landlock_path_beneath_attr rule = { .allowed_access = allowed, .parent_fd = dir };

    if (dir >= 0 &&
        syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return err_sys(e, "adding a Landlock rule");
    return 0;
}

static int set_landlock(const struct fence *f, struct err *e)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    int r;
    size_t size;
    struct ruleset_attr attr = make_attr(abi, &size);
    AUTO_CLOSE int ruleset = -1;

    if (abi < 1)
        return 0;
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (ruleset < 0)
        return err_sys(e, "making a Landlock ruleset");
    r = add_rule(ruleset, f->readable, LANDLOCK_ACCESS_FS_READ_FILE, e);
    if (r >= 0)
        r = add_rule(ruleset, f->appendable,
                     LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG, e);
    if (r < 0)
        return r;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return err_sys(e, "entering the Landlock ruleset");
    return 0;
}

/* ---- system calls ---- */

enum { FILTER_MAX = 2 * (int)COUNT_OF(fence_calls) + 32 };

struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short n;
};

#define LOAD(what)     ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (what)))
#define RETURN(action) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, (action)))
#define JUMP(test, value, yes, no)                                                                 \
    ((struct sock_filter)BPF_JUMP(BPF_JMP | (test) | BPF_K, (uint32_t)(value), (yes), (no)))
#define ARGUMENT(i) ((uint32_t)offsetof(struct seccomp_data, args) + 8 * (i))

static void put(struct filter *f, struct sock_filter s)
{
    f->code[f->n++] = s;
}

static void put_allowed(struct filter *f, int call)
{
    put(f, JUMP(BPF_JEQ, call, 0, 1));
    put(f, RETURN(SECCOMP_RET_ALLOW));
}

/* Memory is never both what was written and what is run. */
static void put_no_exec(struct filter *f, int call)
{
    put(f, JUMP(BPF_JEQ, call, 0, 4));
    put(f, LOAD(ARGUMENT(2)));
    put(f, JUMP(BPF_JSET, PROT_EXEC, 0, 1));
    put(f, RETURN(SECCOMP_RET_ERRNO | EPERM));
    put(f, RETURN(SECCOMP_RET_ALLOW));
}

static void put_sockets(struct filter *f)
{
    put(f, JUMP(BPF_JEQ, SYS_socket, 0, 5));
    put(f, LOAD(ARGUMENT(0)));
    put(f, JUMP(BPF_JEQ, AF_INET, 1, 0));
    put(f, JUMP(BPF_JEQ, AF_INET6, 0, 1));
    put(f, RETURN(SECCOMP_RET_ALLOW));
    put(f, RETURN(SECCOMP_RET_ERRNO | EPERM));
}

/* The calls with arguments last: each ends in a return. Which are allowed without looking further,
 * the kernel finds out once and keeps. */
static int set_filter(const struct fence *fence, struct err *e)
{
    struct filter f = { .n = 0 };
    struct sock_fprog p = { .filter = f.code };

    put(&f, LOAD((uint32_t)offsetof(struct seccomp_data, arch)));
    put(&f, JUMP(BPF_JEQ, NATIVE, 1, 0));
    put(&f, RETURN(SECCOMP_RET_KILL_PROCESS));
    put(&f, LOAD((uint32_t)offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < COUNT_OF(fence_calls); i++)
        put_allowed(&f, fence_calls[i]);
    if (fence->readable >= 0 || fence->appendable >= 0)
        put_allowed(&f, SYS_openat);
    put_no_exec(&f, SYS_mmap);
    put_no_exec(&f, SYS_mprotect);
    put_sockets(&f);
    put(&f, RETURN(SECCOMP_RET_ERRNO | ENOSYS));
    p.len = f.n;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) < 0)
        return err_sys(e, "loading the system call filter");
    return 0;
}

/* The order matters: each step still has what it needs, and the next may take it away. */
static const struct {
    const char *name;
    int (*run)(const struct fence *f, struct err *e);
} steps[] = {
    { "limits", set_limits },     { "flags", set_flags },         { "capabilities", set_caps },
    { "landlock", set_landlock }, { "system calls", set_filter },
};

int fence_enter(const struct fence *f, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        int r = steps[i].run(f, e);

        if (r < 0)
            return err_wrap(e, r, "confining the worker (%s)", steps[i].name);
    }
    return 0;
}
