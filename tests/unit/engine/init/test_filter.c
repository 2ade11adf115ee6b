/* SPDX-License-Identifier: Apache-2.0 */
/* The filters, against the same policy as libseccomp compiles it, and against the kernel.
 *
 * There is one intended difference. libseccomp compares arguments as 64-bit numbers; where the
 * kernel expects an int it drops the upper half, and so do we. Hence what must be equal is our
 * answer to any call and libseccomp's answer to the same call as the kernel will see it. (In
 * practice: personality(-1) works, and setpriority or socket with dirt in the upper half of a
 * register are judged by what they do.) */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/random.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "engine/init/filter_programs.h"
#include "engine/init/filter_table.h"
#include "engine/init/init.h"
#include "lib/proc/sys.h"

enum { ASKED = -1 }; /* an answer: PID 1 is asked */
enum { ARGUMENTS = 6, NUMBERS = 1024, DENIED_BITS = 06000 };
#define DIRT (UINT64_C(0xdeadbeef) << 32)

struct program {
    const struct sock_filter *code;
    size_t n;
};

static const struct program standard = { filter_standard, COUNT_OF(filter_standard) };
static const struct program strict = { filter_strict, COUNT_OF(filter_strict) };

/* As PID 1 loads it for a sandbox with these bits of enum kernel_bits, but for the pass. */
static struct program program_for(uint32_t kernel)
{
    static struct sock_filter code[BPF_MAXINSNS];
    struct program p = kernel & KERNEL_STRICT ? strict : standard;

    for (size_t i = 0; i < p.n; i++) {
        code[i] = p.code[i];
        if (code[i].code == (BPF_RET | BPF_K))
            code[i].k = filter_resolve(code[i].k, kernel);
    }
    return (struct program){ code, p.n };
}

static uint32_t load(const struct seccomp_data *d, uint32_t at)
{
    uint32_t word;

    if (at % sizeof word != 0 || at + sizeof word > sizeof *d)
        FAIL("load at %u", at);
    memcpy(&word, (const char *)d + at, sizeof word);
    return word;
}

static size_t jump(const struct sock_filter *s, uint32_t a)
{
    switch (BPF_OP(s->code)) {
    case BPF_JA:
        return s->k;
    case BPF_JEQ:
        return a == s->k ? s->jt : s->jf;
    case BPF_JGT:
        return a > s->k ? s->jt : s->jf;
    case BPF_JGE:
        return a >= s->k ? s->jt : s->jf;
    case BPF_JSET:
        return a & s->k ? s->jt : s->jf;
    default:
        FAIL("jump %#x", s->code);
    }
}

/* What the kernel does with a program. */
static uint32_t run(struct program p, const struct seccomp_data *d)
{
    uint32_t a = 0;

    for (size_t pc = 0; pc < p.n; pc++) {
        const struct sock_filter *s = &p.code[pc];

        if (s->code == (BPF_RET | BPF_K))
            return s->k;
        if (s->code == (BPF_LD | BPF_W | BPF_ABS))
            a = load(d, s->k);
        else if (s->code == (BPF_ALU | BPF_AND | BPF_K))
            a &= s->k;
        else if (BPF_CLASS(s->code) == BPF_JMP)
            pc += jump(s, a);
        else
            FAIL("instruction %#x", s->code);
    }
    FAIL("ran over the end");
}

static struct seccomp_data call_of(uint32_t nr)
{
    return (struct seccomp_data){ .nr = (int)nr, .arch = seccomp_arch_native() };
}

static uint32_t run_number(struct program p, int nr)
{
    struct seccomp_data d = call_of((uint32_t)nr);

    return run(p, &d);
}

static void rule(scmp_filter_ctx ctx, uint32_t action, const char *name, unsigned n,
                 const struct scmp_arg_cmp *tests)
{
    int nr = seccomp_syscall_resolve_name(name + (name[0] == '?'));

    if (nr >= 0 && seccomp_rule_add_array(ctx, action, nr, n, tests) < 0)
        FAIL("libseccomp refuses a rule for %s", name);
}

/* Not SCMP_CMP(), which leaves out a member and so has clang warn. */
static struct scmp_arg_cmp test_of(unsigned argument, enum scmp_compare op, uint64_t a, uint64_t b)
{
    return (struct scmp_arg_cmp){ .arg = argument, .op = op, .datum_a = a, .datum_b = b };
}

static void rule_if(scmp_filter_ctx ctx, uint32_t action, const char *name, struct scmp_arg_cmp t)
{
    rule(ctx, action, name, 1, &t);
}

/* Refused with the error if any of the bits is set. */
static void oracle_bits(scmp_filter_ctx ctx, const char *name, unsigned argument, uint32_t bits,
                        int error)
{
    rule_if(ctx, SCMP_ACT_ALLOW, name, test_of(argument, SCMP_CMP_MASKED_EQ, bits, 0));
    for (uint64_t bit = 1; bit <= bits; bit <<= 1)
        if (bits & bit)
            rule_if(ctx, SCMP_ACT_ERRNO((uint32_t)error), name,
                    test_of(argument, SCMP_CMP_MASKED_EQ, bit, bit));
}

/* One rule for each value of an argument below `n`, and one for all the others. An answer is an
 * errno, or 0 if the call is allowed. */
static void oracle_values(scmp_filter_ctx ctx, const char *name, unsigned argument, uint32_t n,
                          int (*answer)(uint32_t value, uint32_t kernel), uint32_t kernel)
{
    for (uint32_t value = 0; value <= n; value++) {
        int error = answer(value, kernel);

        rule_if(ctx, error ? SCMP_ACT_ERRNO((uint32_t)error) : SCMP_ACT_ALLOW, name,
                test_of(argument, value == n ? SCMP_CMP_GE : SCMP_CMP_EQ, value, 0));
    }
}

static int madvise_answer(uint32_t advice, uint32_t kernel)
{
    bool evicts = advice == 21 && !(kernel & KERNEL_PAGE_CACHE);

    return advice == 12 || evicts ? EINVAL : 0;
}

static int fcntl_answer(uint32_t command, uint32_t kernel)
{
    static const uint32_t known[] = {
        F_DUPFD,
        F_GETFD,
        F_SETFD,
        F_GETFL,
        F_SETFL,
        F_GETLK,
        F_SETLK,
        F_SETLKW,
        F_SETOWN,
        F_GETOWN,
        F_SETSIG,
        F_GETSIG,
        12 /* F_GETLK64 of 32-bit programs, and the two that follow */,
        13,
        14,
        F_SETOWN_EX,
        F_GETOWN_EX,
        17,
        F_OFD_GETLK,
        F_OFD_SETLK,
        F_OFD_SETLKW,
        F_GETLEASE,
        1027,
        1028,
        1029,
        F_DUPFD_CLOEXEC,
        F_SETPIPE_SZ,
        F_GETPIPE_SZ,
        F_ADD_SEALS,
        F_GET_SEALS,
        F_GET_RW_HINT,
        F_SET_RW_HINT,
        F_GET_FILE_RW_HINT,
        F_SET_FILE_RW_HINT
    };

    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (command == known[i])
            return 0;
    return command == F_SETLEASE || command == F_NOTIFY ? EPERM : EINVAL;
}

static int socketpair_answer(uint32_t family, uint32_t kernel)
{
    return family == AF_UNIX ? 0 : EAFNOSUPPORT;
}

static int prctl_answer(uint32_t option, uint32_t kernel)
{
    if (option == PR_SET_SECCOMP)
        return kernel & KERNEL_NESTED_SECCOMP ? ASKED : EINVAL;
    if (option == 62 || option == 67) /* PR_SCHED_CORE, PR_SET_MEMORY_MERGE */
        return EINVAL;
    if (!(kernel & KERNEL_STRICT) || option <= 30 || (option >= 36 && option <= 47))
        return 0;
    return EINVAL;
}

static int personality_answer(uint32_t persona, uint32_t kernel)
{
    return persona == 0 ? 0 : kernel & KERNEL_STRICT ? EPERM : ENOSYS;
}

/* Calls of which the strict table says something else than the standard one, and what. */
static bool strict_answer(const char *name, uint32_t *ret)
{
    const struct {
        const char *const *names;
        size_t n;
        uint32_t action;
    } lists[] = {
        { filter_strict_denied, COUNT_OF(filter_strict_denied), FILTER_REFUSE(EPERM) },
        { filter_strict_missing, COUNT_OF(filter_strict_missing), FILTER_REFUSE(ENOSYS) },
        { filter_strict_ignored, COUNT_OF(filter_strict_ignored), FILTER_REFUSE(0) },
    };

    for (size_t i = 0; i < COUNT_OF(lists); i++)
        for (size_t k = 0; k < lists[i].n; k++)
            if (strcmp(name, lists[i].names[k]) == 0) {
                *ret = lists[i].action;
                return true;
            }
    *ret = FILTER_REFUSE(EINVAL);
    return strcmp(name, "splice") == 0 || strcmp(name, "tee") == 0 || strcmp(name, "vmsplice") == 0;
}

static void oracle_names(scmp_filter_ctx ctx, const char *const *names, size_t n, uint32_t action,
                         uint32_t kernel)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t other;

        /* libseccomp takes no rule that says what the default says. */
        if (!(kernel & KERNEL_STRICT) || !strict_answer(names[i], &other))
            rule(ctx, action, names[i], 0, NULL);
        else if (other != FILTER_REFUSE(ENOSYS))
            rule(ctx, other, names[i], 0, NULL);
    }
}

static void oracle_socket(scmp_filter_ctx ctx, uint32_t kernel)
{
    const struct scmp_arg_cmp route[] = { test_of(0, SCMP_CMP_EQ, AF_NETLINK, 0),
                                          test_of(2, SCMP_CMP_EQ, 0, 0) };
    const struct scmp_arg_cmp other[] = { test_of(0, SCMP_CMP_EQ, AF_NETLINK, 0),
                                          test_of(2, SCMP_CMP_NE, 0, 0) };

    for (unsigned family = 0; family < 64; family++)
        if (family == AF_UNIX)
            rule_if(ctx, SCMP_ACT_ALLOW, "socket", test_of(0, SCMP_CMP_EQ, family, 0));
        else if (family != AF_INET && family != AF_INET6 &&
                 (family != AF_NETLINK || kernel & KERNEL_STRICT))
            rule_if(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket",
                    test_of(0, SCMP_CMP_EQ, family, 0));
    rule_if(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), "socket", test_of(0, SCMP_CMP_GE, 64, 0));
    if (kernel & KERNEL_STRICT)
        return;
    rule(ctx, SCMP_ACT_ALLOW, "socket", 2, route);
    rule(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), "socket", 2, other);
}

static void oracle_numbers(scmp_filter_ctx ctx, uint32_t kernel)
{
    int cache = kernel & KERNEL_PAGE_CACHE;

    rule_if(ctx, SCMP_ACT_ALLOW, "prlimit64", test_of(0, SCMP_CMP_EQ, 0, 0));
    rule_if(ctx, SCMP_ACT_ERRNO(EPERM), "prlimit64", test_of(0, SCMP_CMP_NE, 0, 0));
    oracle_values(ctx, "fcntl", 1, 1100, fcntl_answer, kernel);
    oracle_values(ctx, "socketpair", 0, 64, socketpair_answer, kernel);
    oracle_bits(ctx, "mmap", 3, 0x40000, ENOMEM);
    oracle_bits(ctx, "memfd_create", 1, 4, EPERM);
    oracle_values(ctx, "madvise", 2, 64, madvise_answer, kernel);
    rule_if(ctx, SCMP_ACT_ALLOW, "fadvise64", test_of(3, SCMP_CMP_NE, 4, 0));
    rule_if(ctx, cache ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(0), "fadvise64",
            test_of(3, SCMP_CMP_EQ, 4, 0));
    oracle_bits(ctx, "preadv2", 5, cache ? 0 : 0x88, EOPNOTSUPP);
    oracle_bits(ctx, "pwritev2", 5, cache ? 0 : 0x88, EOPNOTSUPP);
    if (cache)
        rule(ctx, SCMP_ACT_ALLOW, "mincore", 0, NULL);
    if (!(kernel & KERNEL_STRICT))
        oracle_bits(ctx, "shmget", 2, 04000, EPERM);
    for (size_t i = 0; i < COUNT_OF(filter_strict_ignored); i++)
        rule(ctx,
             kernel & KERNEL_SYNC && !(kernel & KERNEL_STRICT) ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(0),
             filter_strict_ignored[i], 0, NULL);
}

static struct program oracle_export(scmp_filter_ctx ctx)
{
    static struct sock_filter code[BPF_MAXINSNS];
    int fd = memfd_create("bpf", MFD_CLOEXEC);
    ssize_t n;

    CHECK(fd >= 0 && seccomp_export_bpf(ctx, fd) == 0);
    n = pread(fd, code, sizeof code, 0);
    CHECK(n > 0 && (size_t)n % sizeof code[0] == 0);
    close(fd);
    seccomp_release(ctx);
    return (struct program){ code, (size_t)n / sizeof code[0] };
}

/* The same policy by libseccomp. The names are shared, what is asked about arguments is not. */
static struct program oracle(uint32_t kernel)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));

    CHECK(ctx);
    CHECK(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0);
    CHECK(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) == 0);
    oracle_names(ctx, filter_allowed, COUNT_OF(filter_allowed), SCMP_ACT_ALLOW, kernel);
    oracle_names(ctx, filter_denied, COUNT_OF(filter_denied), SCMP_ACT_ERRNO(EPERM), kernel);
    for (size_t i = 0; i < COUNT_OF(filter_modes); i++)
        oracle_bits(ctx, filter_modes[i].name, filter_modes[i].argument,
                    kernel & KERNEL_SET_IDS ? 0 : DENIED_BITS, EPERM);
    oracle_bits(ctx, "clone", 0,
                CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC, EPERM);
    oracle_socket(ctx, kernel);
    oracle_numbers(ctx, kernel);
    return oracle_export(ctx);
}

/* Bit n: argument n must not be PID 1. */
static unsigned spares_pid_1(int nr)
{
    switch (nr) {
    case SYS_kill:
    case SYS_tkill:
    case SYS_rt_sigqueueinfo:
    case SYS_pidfd_open:
    case SYS_sched_setaffinity:
    case SYS_sched_setscheduler:
    case SYS_sched_setparam:
    case SYS_sched_setattr:
        return 1;
    case SYS_setpriority:
    case SYS_ioprio_set:
        return 2;
    case SYS_tgkill:
    case SYS_rt_tgsigqueueinfo:
        return 3;
    default:
        return 0;
    }
}

static bool in_range(uint32_t value, uint32_t first, uint32_t last)
{
    return value >= first && value <= last;
}

/* The strict table's list, by the kernel's names. */
static int ioctl_answer(uint32_t request)
{
    static const uint32_t single[] = { TCSBRKP,
                                       TIOCSBRK,
                                       TIOCCBRK,
                                       TIOCGSID,
                                       TIOCGPTPEER,
                                       FIONCLEX,
                                       FIOCLEX,
                                       FIOASYNC,
                                       FIOQSIZE,
                                       TIOCPKT,
                                       FIONBIO,
                                       TIOCNOTTY,
                                       TIOCGPTN,
                                       TIOCGDEV,
                                       TIOCGPKT,
                                       TIOCGPTLCK,
                                       TIOCSPTLCK,
                                       TIOCSIG,
                                       0x802c542a,
                                       0x402c542b,
                                       0x402c542c,
                                       0x402c542d,
                                       SECCOMP_IOCTL_NOTIF_RECV,
                                       SECCOMP_IOCTL_NOTIF_SEND };

    if (request == TIOCSTI || in_range(request, TIOCLINUX, TIOCSSERIAL) || request == TIOCSETD ||
        request == TIOCGETD || request == 0x5426)
        return EPERM;
    for (size_t i = 0; i < COUNT_OF(single); i++)
        if (request == single[i])
            return 0;
    return in_range(request, TCGETS, FIONREAD) || in_range(request, FIOSETOWN, SIOCATMARK) ||
                   in_range(request, SIOCGIFNAME, SIOCGIFINDEX)
               ? 0
               : ENOTTY;
}

/* The standard table's list, likewise. */
static int standard_ioctl_answer(uint32_t request)
{
    static const uint32_t single[] = { FIGETBSZ,
                                       FICLONE,
                                       FICLONERANGE,
                                       FS_IOC_GETFLAGS,
                                       FS_IOC_GETVERSION,
                                       FS_IOC_FSGETXATTR,
                                       RNDGETENTCNT,
                                       SECCOMP_IOCTL_NOTIF_RECV,
                                       SECCOMP_IOCTL_NOTIF_SEND };

    if (request == TIOCSTI || request == TIOCLINUX || request == TIOCSETD)
        return EPERM;
    for (size_t i = 0; i < COUNT_OF(single); i++)
        if (request == single[i])
            return 0;
    return _IOC_TYPE(request) == _IOC_TYPE(TCGETS) || _IOC_TYPE(request) == _IOC_TYPE(SIOCGIFNAME)
               ? 0
               : ENOTTY;
}

static bool has_pass(const struct seccomp_data *d)
{
    return (uint32_t)d->args[4] == FILTER_PASS_FIRST && (uint32_t)d->args[5] == FILTER_PASS_SECOND;
}

/* IPv4 and IPv6: libseccomp would need a rule for every pair of a type and a protocol. */
static bool is_inet_socket(const struct seccomp_data *d)
{
    uint32_t family = (uint32_t)d->args[0];

    return d->nr == SYS_socket && (family == AF_INET || family == AF_INET6);
}

static int inet_answer(const struct seccomp_data *d)
{
    uint32_t type = (uint32_t)d->args[1] & 0xf, protocol = (uint32_t)d->args[2];

    if (type > 3)
        return ESOCKTNOSUPPORT;
    return protocol == 0 || protocol == IPPROTO_TCP || protocol == IPPROTO_UDP ? 0
                                                                               : EPROTONOSUPPORT;
}

static int setsockopt_answer(const struct seccomp_data *d, uint32_t kernel)
{
    uint32_t level = (uint32_t)d->args[1], option = (uint32_t)d->args[2];
    bool known = level == SOL_SOCKET || level == IPPROTO_IP || level == IPPROTO_IPV6 ||
                 level == IPPROTO_TCP || level == IPPROTO_UDP;

    if (level == SOL_SOCKET && (option == SO_ATTACH_FILTER || in_range(option, 50, 52)))
        return kernel & KERNEL_SOCKET_FILTERS ? ASKED : EPERM;
    if (level == IPPROTO_TCP && option == 31)
        return ENOENT;
    if (!(kernel & KERNEL_STRICT))
        return 0;
    return !known || (level == IPPROTO_UDP && option == 100) ? ENOPROTOOPT
           : level == IPPROTO_UDP && option == 31            ? ENOENT
                                                             : 0;
}

static int seccomp_answer(const struct seccomp_data *d, uint32_t kernel)
{
    if ((uint32_t)d->args[0] != SECCOMP_SET_MODE_FILTER)
        return 0;
    if ((uint32_t)d->args[1] & SECCOMP_FILTER_FLAG_NEW_LISTENER)
        return EINVAL;
    return kernel & KERNEL_NESTED_SECCOMP ? ASKED : EINVAL;
}

/* Calls about which libseccomp cannot ask what we do, or only in more words than we. */
static bool is_guarded(const struct seccomp_data *d)
{
    switch (d->nr) {
    case SYS_ioctl:
    case SYS_openat2:
    case SYS_setsockopt:
    case SYS_seccomp:
    case SYS_prctl:
    case SYS_personality:
        return true;
    default:
        return spares_pid_1(d->nr) || is_inet_socket(d);
    }
}

static uint32_t answer_action(int error)
{
    return error == ASKED ? SECCOMP_RET_USER_NOTIF
           : error        ? FILTER_REFUSE((uint32_t)error)
                          : FILTER_ALLOW;
}

static uint32_t prctl_should(uint32_t option, uint32_t kernel)
{
    return answer_action(option == 0x53564d41 ? 0 : prctl_answer(option, kernel));
}

static uint32_t personality_should(uint32_t persona, uint32_t kernel)
{
    bool known = persona == UINT32_MAX ||
                 (!(kernel & KERNEL_STRICT) && (persona == 0x20000 || persona == 0x40000));

    return answer_action(known ? 0 : personality_answer(persona, kernel));
}

static uint32_t guard_should(const struct seccomp_data *d, uint32_t kernel)
{
    switch (d->nr) {
    case SYS_openat2:
        return has_pass(d) ? FILTER_ALLOW : FILTER_REFUSE(ENOSYS);
    case SYS_socket:
        return answer_action(inet_answer(d));
    case SYS_setsockopt:
        return answer_action(setsockopt_answer(d, kernel));
    case SYS_seccomp:
        return answer_action(seccomp_answer(d, kernel));
    case SYS_prctl:
        return prctl_should((uint32_t)d->args[0], kernel);
    case SYS_personality:
        return personality_should((uint32_t)d->args[0], kernel);
    case SYS_ioctl:
        return answer_action(kernel & KERNEL_STRICT ? ioctl_answer((uint32_t)d->args[1])
                                                    : standard_ioctl_answer((uint32_t)d->args[1]));
    case SYS_sched_setattr:
    case SYS_sched_setparam:
    case SYS_sched_setscheduler:
    case SYS_setpriority:
    case SYS_ioprio_set:
        if (kernel & KERNEL_STRICT || (d->nr == SYS_setpriority && (uint32_t)d->args[0] >= 2))
            return FILTER_REFUSE(EPERM);
        break;
    default:
        break;
    }
    for (unsigned i = 0; i < 2; i++)
        if (spares_pid_1(d->nr) >> i & 1 && (uint32_t)d->args[i] == 1)
            return FILTER_REFUSE(EPERM);
    return FILTER_ALLOW;
}

/* Our program and libseccomp's, for the same sandbox. */
struct pair {
    struct program ours, theirs;
    uint32_t kernel;
};

static uint32_t wanted(const struct pair *p, const struct seccomp_data *d)
{
    return d->arch == seccomp_arch_native() && is_guarded(d) ? guard_should(d, p->kernel)
                                                             : run(p->theirs, d);
}

static void compare(const struct pair *p, const struct seccomp_data *d)
{
    struct seccomp_data dirty = *d;
    uint32_t want = wanted(p, d);

    for (size_t i = 0; i < ARGUMENTS; i++)
        dirty.args[i] |= DIRT;
    if (run(p->ours, d) != want || run(p->ours, &dirty) != want)
        FAIL("call %d(%#llx, %#llx, %#llx, %#llx): %#x, with dirt %#x, not %#x", d->nr,
             (unsigned long long)d->args[0], (unsigned long long)d->args[1],
             (unsigned long long)d->args[2], (unsigned long long)d->args[3], run(p->ours, d),
             run(p->ours, &dirty), want);
}

/* Every value in every argument, the others 0. */
static void compare_arguments(const struct pair *p, uint32_t nr)
{
    static const uint32_t edges[] = { 04755,      02755,      DENIED_BITS, 07777,      0x5412,
                                      0x541c,     0x1ffff,    0x20000,     0x40000,    0x20001,
                                      0x7e020000, 0x7fffffff, 0x80000001,  UINT32_MAX, 0xfffffffe };

    for (size_t i = 0; i < ARGUMENTS; i++) {
        struct seccomp_data d = call_of(nr);

        for (d.args[i] = 0; d.args[i] <= 70; d.args[i]++)
            compare(p, &d);
        for (unsigned bit = 0; bit < 32; bit++) {
            d.args[i] = UINT64_C(1) << bit;
            compare(p, &d);
        }
        for (size_t k = 0; k < COUNT_OF(edges); k++) {
            d.args[i] = edges[k];
            compare(p, &d);
        }
    }
}

static void compare_numbers(const struct pair *p)
{
    static const uint32_t edges[] = { 0x3fffffff, 0x40000000, 0x40000001, 0x40000027, 0x400003ff,
                                      0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, UINT32_MAX };

    for (uint32_t nr = 0; nr < NUMBERS; nr++)
        compare_arguments(p, nr);
    for (size_t i = 0; i < COUNT_OF(edges); i++)
        compare_arguments(p, edges[i]);
}

static void compare_modes(const struct pair *p)
{
    for (size_t i = 0; i < COUNT_OF(filter_modes); i++) {
        int nr = seccomp_syscall_resolve_name(filter_modes[i].name);
        struct seccomp_data d = call_of((uint32_t)nr);

        for (uint32_t mode = 0; nr >= 0 && mode <= 0177777; mode++) {
            d.args[filter_modes[i].argument] = mode;
            compare(p, &d);
        }
    }
}

static void compare_sockets(const struct pair *p)
{
    struct seccomp_data d = call_of(SYS_socket);

    for (d.args[0] = 0; d.args[0] <= 70; d.args[0]++)
        for (d.args[2] = 0; d.args[2] <= 300; d.args[2]++)
            compare(p, &d);
}

static void compare_clones(const struct pair *p)
{
    struct seccomp_data d = call_of(SYS_clone);

    for (unsigned a = 0; a < 32; a++)
        for (unsigned b = 0; b < 32; b++) {
            d.args[0] = UINT64_C(1) << a | UINT64_C(1) << b | SIGCHLD;
            compare(p, &d);
        }
}

static void compare_processes(const struct pair *p)
{
    const uint32_t pids[] = { 0, 1, (uint32_t)getpid(), (uint32_t)-1 };

    for (size_t i = 0; i < COUNT_OF(pids); i++) {
        struct seccomp_data d = call_of(SYS_prlimit64);

        d.args[0] = pids[i];
        compare(p, &d);
        d = call_of(SYS_setpriority);
        d.args[1] = pids[i];
        for (d.args[0] = 0; d.args[0] < 5; d.args[0]++)
            compare(p, &d);
    }
}

/* Two arguments at a time, with dirt in their upper halves; and the pass, right and nearly. */
static void compare_guarded(const struct pair *p)
{
    static const uint64_t values[] = { 0,      1,          2,      0x5412,        0x5413,
                                       0x541c, UINT32_MAX, DIRT,   DIRT | 1,      DIRT | 0x5412,
                                       7,      1000,       0x8001, DIRT | 0x541c, 0x80000001,
                                       0x5423 };
    static const uint64_t passes[] = { 0, FILTER_PASS_FIRST, FILTER_PASS_SECOND,
                                       DIRT | FILTER_PASS_FIRST, FILTER_PASS_FIRST + 1 };

    for (int nr = 0; nr < NUMBERS; nr++)
        for (size_t a = 0; a < COUNT_OF(values); a++)
            for (size_t b = 0; b < COUNT_OF(values); b++) {
                struct seccomp_data d = call_of((uint32_t)nr);

                d.args[0] = values[a];
                d.args[1] = values[b];
                d.args[4] = passes[a % COUNT_OF(passes)];
                d.args[5] = passes[b % COUNT_OF(passes)];
                if (is_guarded(&d) && run(p->ours, &d) != guard_should(&d, p->kernel))
                    FAIL("call %d(%#llx, %#llx): %#x", nr, (unsigned long long)values[a],
                         (unsigned long long)values[b], run(p->ours, &d));
            }
}

static void compare_architectures(const struct pair *p)
{
    static const uint32_t others[] = { 0,
                                       AUDIT_ARCH_I386,
                                       AUDIT_ARCH_ARM,
                                       AUDIT_ARCH_X86_64,
                                       AUDIT_ARCH_AARCH64,
                                       AUDIT_ARCH_RISCV64,
                                       UINT32_MAX };

    for (size_t i = 0; i < COUNT_OF(others); i++)
        for (uint32_t nr = 0; nr < NUMBERS; nr++) {
            struct seccomp_data d = call_of(nr);

            d.arch = others[i];
            compare(p, &d);
            CHECK(d.arch == seccomp_arch_native() || run(p->ours, &d) == SECCOMP_RET_KILL_PROCESS);
        }
}

static void compare_all(const struct pair *p)
{
    compare_numbers(p);
    compare_modes(p);
    compare_sockets(p);
    compare_clones(p);
    compare_processes(p);
    compare_guarded(p);
    compare_architectures(p);
}

/* Levels and options of sockets, operations and flags of seccomp, types and protocols. */
static void compare_options(const struct pair *p)
{
    static const int calls[] = { SYS_setsockopt, SYS_seccomp, SYS_socket, SYS_fcntl };

    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct seccomp_data d = call_of((uint32_t)calls[i]);

        for (d.args[0] = 0; d.args[0] <= 16; d.args[0]++)
            for (d.args[1] = 0; d.args[1] <= 48; d.args[1]++)
                for (d.args[2] = 0; d.args[2] <= 270; d.args[2]++)
                    compare(p, &d);
    }
}

/* Every number that a request, command or option has, and more. */
static void compare_requests(const struct pair *p)
{
    static const int calls[] = { SYS_ioctl, SYS_fcntl, SYS_prctl };
    static const uint32_t bases[] = { 0,          0x5400,     0x8900,    0x80045400,
                                      0x40045400, 0x802c5400, 0x402c5400 };

    for (size_t i = 0; i < COUNT_OF(calls); i++)
        for (size_t b = 0; b < COUNT_OF(bases); b++)
            for (uint32_t low = 0; low < 0x500; low++) {
                struct seccomp_data d = call_of((uint32_t)calls[i]);

                d.args[0] = d.args[1] = bases[b] + low;
                compare(p, &d);
            }
}

/* All types and numbers, with every direction and with sizes of requests that exist. */
static void compare_request_types(const struct pair *p)
{
    static const uint32_t sizes[] = { 0, 1, 2, 4, 8, 16, 24, 28, 32, 80, 256, 512, 4096, 0x3fff };
    struct seccomp_data d = call_of(SYS_ioctl);

    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (uint32_t direction = 0; direction < 4; direction++)
            for (uint32_t low = 0; low < 0x10000; low++) {
                d.args[1] = direction << _IOC_DIRSHIFT | sizes[s] << _IOC_SIZESHIFT | low;
                compare(p, &d);
            }
}

static void compare_all_for(uint32_t kernel)
{
    struct pair p = { program_for(kernel), oracle(kernel), kernel };

    compare_all(&p);
    compare_options(&p);
    compare_requests(&p);
}

TEST(standard_filter_is_what_libseccomp_makes)
{
    compare_all_for(0);
    compare_request_types(&(const struct pair){ program_for(0), oracle(0), 0 });
}

TEST(strict_filter_is_what_libseccomp_makes)
{
    compare_all_for(KERNEL_STRICT);
}

TEST(grants_change_what_they_name_and_nothing_else)
{
    compare_all_for(KERNEL_SYNC);
    compare_all_for(KERNEL_SYNC | KERNEL_STRICT);
    compare_all_for(KERNEL_SET_IDS | (KERNEL_PLAN_ALL_ & ~KERNEL_STRICT));
    compare_all_for(KERNEL_SET_IDS | KERNEL_PLAN_ALL_);
}

TEST(a_program_that_was_not_resolved_kills)
{
    size_t marks = 0;

    for (size_t i = 0; i < standard.n; i++)
        if (standard.code[i].code == (BPF_RET | BPF_K) &&
            (standard.code[i].k & FILTER_UNLESS_MASK_) == FILTER_UNLESS_) {
            uint32_t action = standard.code[i].k & SECCOMP_RET_ACTION_FULL;

            marks++;
            CHECK(action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG &&
                  action != SECCOMP_RET_TRACE && action != SECCOMP_RET_USER_NOTIF);
        }
    CHECK(marks >= 5);
}

/* What the compiler is for: the kernel's work at each load grows with the length. */
TEST(programs_are_short)
{
    CHECK(standard.n <= 233);
    CHECK(strict.n <= 257);
}

static void check_names(struct program p, const char *const *names, size_t n, uint32_t action)
{
    for (size_t i = 0; i < n; i++) {
        int nr = seccomp_syscall_resolve_name(names[i] + (names[i][0] == '?'));

        if (nr >= 0 && run_number(p, nr) != action)
            FAIL("%s (%d): %#x", names[i], nr, run_number(p, nr));
    }
}

TEST(every_listed_call_has_its_action)
{
    struct program p = program_for(0);

    check_names(p, filter_allowed, COUNT_OF(filter_allowed), FILTER_ALLOW);
    check_names(p, filter_denied, COUNT_OF(filter_denied), FILTER_REFUSE(EPERM));
    p = program_for(KERNEL_STRICT);
    check_names(p, filter_strict_denied, COUNT_OF(filter_strict_denied), FILTER_REFUSE(EPERM));
    check_names(p, filter_strict_missing, COUNT_OF(filter_strict_missing), FILTER_REFUSE(ENOSYS));
    check_names(p, filter_strict_ignored, COUNT_OF(filter_strict_ignored), FILTER_REFUSE(0));
    check_names(p, filter_denied, COUNT_OF(filter_denied), FILTER_REFUSE(EPERM));
}

/* The strict table takes away; it gives nothing that the standard one refuses. */
TEST(strict_allows_no_more_than_standard)
{
    static uint32_t answers[NUMBERS];

    for (uint32_t nr = 0; nr < NUMBERS; nr++)
        answers[nr] = run_number(program_for(0), (int)nr);
    for (uint32_t nr = 0; nr < NUMBERS; nr++)
        if (run_number(program_for(KERNEL_STRICT), (int)nr) == FILTER_ALLOW)
            CHECK_INT(answers[nr], FILTER_ALLOW);
}

TEST(strict_allows_no_request_that_standard_refuses)
{
    static uint32_t refused[4][0x10000];
    static const uint32_t sizes[] = { 0, 4, 24, 44, 80 };
    struct seccomp_data d = call_of(SYS_ioctl);

    for (size_t s = 0; s < COUNT_OF(sizes); s++)
        for (int strictly = 0; strictly < 2; strictly++) {
            struct program p = program_for(strictly ? KERNEL_STRICT : 0);

            for (uint32_t i = 0; i < 4 * 0x10000; i++) {
                uint32_t *answer = &refused[i >> 16][i & 0xffff], now;

                d.args[1] = i >> 16 << _IOC_DIRSHIFT | sizes[s] << _IOC_SIZESHIFT | (i & 0xffff);
                now = run(p, &d);
                if (!strictly)
                    *answer = now;
                else if (now == FILTER_ALLOW && *answer != FILTER_ALLOW)
                    FAIL("ioctl %#llx", (unsigned long long)d.args[1]);
            }
        }
}

TEST(unlisted_calls_do_not_exist)
{
    static const int unknown[] = { 335, 400, 423, 500, 511, 512, 547, 548, 1023, 1024, 0x3fffffff };
    static const int unlisted[] = { SYS_clone3, 451 /* cachestat: which pages are in memory */,
                                    452 /* fchmodat2: a mode that is not looked at */ };

    for (size_t i = 0; i < COUNT_OF(unknown); i++)
        CHECK_INT(run_number(standard, unknown[i]), FILTER_REFUSE(ENOSYS));
    for (size_t i = 0; i < COUNT_OF(unlisted); i++)
        CHECK_INT(run_number(standard, unlisted[i]), FILTER_REFUSE(ENOSYS));
}

static long new_mount_namespace(void)
{
    return syscall(SYS_unshare, CLONE_NEWNS);
}
static long new_user_namespace(void)
{
    return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
}
static long io_uring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL);
}
static long chmod_set_uid(void)
{
    return syscall(SYS_fchmodat, -1, "", 04755);
}
static long chmod_plain(void)
{
    return syscall(SYS_fchmodat, -1, "", 0755);
}
static long vsock(void)
{
    return syscall(SYS_socket, 40, SOCK_STREAM, 0);
}
static long netlink_audit(void)
{
    return syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 9);
}
static long unix_socket(void)
{
    return syscall(SYS_socket, DIRT | AF_UNIX, SOCK_STREAM, 0);
}
static long unknown_call(void)
{
    return syscall(1000);
}
static long personality_query(void)
{
    return syscall(SYS_personality, -1L);
}
static long others_limit(void)
{
    return syscall(SYS_prlimit64, DIRT | 1, 0, NULL, NULL);
}
static long own_limit(void)
{
    return syscall(SYS_prlimit64, DIRT, 0, NULL, NULL);
}
static long signal_pid_1(void)
{
    return syscall(SYS_kill, DIRT | 1, 0);
}
static long signal_self(void)
{
    return syscall(SYS_kill, getpid(), 0);
}
static long open_by_struct(void)
{
    return syscall(SYS_openat2, -1, "", NULL, 0);
}
static long open_with_pass(void)
{
    return sys_openat2(-1, "", 0, 0, 0);
}

static long lease(void)
{
    return syscall(SYS_fcntl, -1, F_SETLEASE, F_WRLCK);
}
static long resident(void)
{
    static unsigned char vec[1];

    return syscall(SYS_mincore, -1L & ~0xfffL, 4096, vec);
}
static long evict_file(void)
{
    return syscall(SYS_fadvise64, -1, 0, 0, 4 /* DONTNEED */);
}
static long evict_mapped(void)
{
    return syscall(SYS_madvise, 4096 /* nothing is mapped there */, 4096, 21 /* PAGEOUT */);
}
static long huge_pages(void)
{
    return syscall(SYS_mmap, NULL, 4096, 0, DIRT | MAP_HUGETLB, -1, 0);
}
static long sctp(void)
{
    return syscall(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_SCTP);
}
static long tcp(void)
{
    return syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
}
static long own_filter(void)
{
    return syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0);
}
/* A call that reaches the kernel fails: that of sync(2) cannot. */
static long flush_file_system(void)
{
    return syscall(SYS_syncfs, -1);
}
static long flush_file(void)
{
    return syscall(SYS_fsync, -1);
}
static long clone_range(void)
{
    return syscall(SYS_ioctl, -1, FICLONE, 0);
}
static long share_range(void)
{
    return syscall(SYS_ioctl, -1, FIDEDUPERANGE, 0);
}
static long make_subvolume(void)
{
    return syscall(SYS_ioctl, -1, BTRFS_IOC_SUBVOL_CREATE, 0);
}
static long flush_btrfs(void)
{
    return syscall(SYS_ioctl, -1, DIRT | BTRFS_IOC_SYNC, 0);
}
static long get_flags(void)
{
    return syscall(SYS_ioctl, -1, FS_IOC_GETFLAGS, 0);
}
static long set_flags(void)
{
    return syscall(SYS_ioctl, -1, FS_IOC_SETFLAGS, 0);
}
static long ask_terminal(void)
{
    return syscall(SYS_ioctl, -1, TCGETS, 0);
}
static long name_interface(void)
{
    return syscall(SYS_ioctl, -1, SIOCGIFNAME, 0);
}

/* The wait status of a child that makes the call behind the filter and exits with its errno. */
static int behind_filter(uint32_t kernel, long (*call)(void))
{
    pid_t pid = fork();
    int status, listener;

    CHECK(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load(kernel, &listener, NULL) < 0)
            _exit(255);
        _exit(call() < 0 ? errno : 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

TEST(kernel_does_as_the_filter_says)
{
    enum { PLAIN = 0, SET_IDS = KERNEL_SET_IDS, STRICT = KERNEL_STRICT, CACHE = KERNEL_PAGE_CACHE };
    static const struct {
        const char *name;
        long (*call)(void);
        uint32_t kernel;
        int error; /* 0: it works */
    } rows[] = {
        { "io_uring", io_uring, PLAIN, EPERM },
        { "unshare", new_mount_namespace, PLAIN, EPERM },
        { "clone", new_user_namespace, PLAIN, EPERM },
        { "chmod 04755", chmod_set_uid, PLAIN, EPERM },
        { "chmod 04755, set ids", chmod_set_uid, SET_IDS, ENOENT },
        { "chmod 0755", chmod_plain, PLAIN, ENOENT },
        { "vsock", vsock, PLAIN, EAFNOSUPPORT },
        { "netlink audit", netlink_audit, PLAIN, EPROTONOSUPPORT },
        { "unix socket", unix_socket, PLAIN, 0 },
        { "unknown call", unknown_call, PLAIN, ENOSYS },
        { "personality query", personality_query, PLAIN, 0 },
        { "another's limit", others_limit, PLAIN, EPERM },
        { "own limit", own_limit, PLAIN, 0 },
        { "openat2", open_by_struct, PLAIN, ENOSYS },
        { "openat2 with the pass", open_with_pass, PLAIN, ENOENT },
        { "kill 1", signal_pid_1, PLAIN, EPERM },
        { "kill self", signal_self, PLAIN, 0 },
        { "lease", lease, PLAIN, EPERM },
        { "mincore", resident, PLAIN, ENOSYS },
        { "mincore, page cache", resident, CACHE, ENOMEM },
        { "evict a file's pages", evict_file, PLAIN, 0 },
        { "evict a file's pages, strict", evict_file, STRICT, 0 },
        { "evict a file's pages, page cache", evict_file, CACHE, EBADF },
        { "evict mapped pages", evict_mapped, PLAIN, EINVAL },
        { "evict mapped pages, page cache", evict_mapped, CACHE, ENOMEM },
        { "huge pages", huge_pages, PLAIN, ENOMEM },
        { "SCTP", sctp, PLAIN, EPROTONOSUPPORT },
        { "TCP", tcp, STRICT, 0 },
        { "filter of its own", own_filter, PLAIN, EINVAL },
        { "syncfs", flush_file_system, PLAIN, 0 },
        { "syncfs, strict", flush_file_system, STRICT, 0 },
        { "syncfs, files of the host", flush_file_system, KERNEL_SYNC, EBADF },
        { "fsync", flush_file, PLAIN, EBADF },
        { "fsync, strict", flush_file, STRICT, EBADF },
        { "FICLONE", clone_range, PLAIN, EBADF },
        { "FICLONE, strict", clone_range, STRICT, ENOTTY },
        { "FIDEDUPERANGE", share_range, PLAIN, ENOTTY },
        { "SUBVOL_CREATE", make_subvolume, PLAIN, ENOTTY },
        { "SUBVOL_CREATE, strict", make_subvolume, STRICT, ENOTTY },
        { "SUBVOL_CREATE, files of the host", make_subvolume, KERNEL_SYNC, ENOTTY },
        { "btrfs' sync", flush_btrfs, PLAIN, ENOTTY },
        { "btrfs' sync, files of the host", flush_btrfs, KERNEL_SYNC, ENOTTY },
        { "GETFLAGS", get_flags, PLAIN, EBADF },
        { "SETFLAGS", set_flags, PLAIN, ENOTTY },
        { "TCGETS", ask_terminal, PLAIN, EBADF },
        { "SIOCGIFNAME", name_interface, PLAIN, EBADF },
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int status = behind_filter(rows[i].kernel, rows[i].call);

        if (!WIFEXITED(status) || WEXITSTATUS(status) != rows[i].error)
            FAIL("%s: status %#x, not errno %d", rows[i].name, status, rows[i].error);
    }
}

#ifdef __x86_64__
static long getpid_i386(void)
{
    long r = 20;

    __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
    return r;
}

static long getpid_x32(void)
{
    return syscall(0x40000000 | SYS_getpid);
}

TEST(other_architectures_kill)
{
    int i386 = behind_filter(0, getpid_i386);
    int x32 = behind_filter(0, getpid_x32);

    CHECK(WIFSIGNALED(x32));
    CHECK_INT(WTERMSIG(x32), SIGSYS);
    CHECK(WIFSIGNALED(i386));
    if (WTERMSIG(i386) == SIGSEGV)
        SKIP("this kernel has no 32-bit system calls");
    CHECK_INT(WTERMSIG(i386), SIGSYS);
}
#endif
